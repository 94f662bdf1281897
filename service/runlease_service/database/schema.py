"""The tables, once for every database, and how a record lies in a row.

Instants are 64-bit milliseconds, so that every database orders and compares them alike. Ids are
compared byte by byte: UTF-8 keeps the order of code points. No index holds a column that a renewal
changes (version, lease instants, updated_at): that would cost a third of the renewals a second.
CHECK constraints repeat what a well-formed record is, so that a hand on the database cannot leave
a row that the service would refuse to read.

A deleted run keeps its row as a tombstone: version 0, no status, the last token. So whatever
happens to a run is one change of one row, guarded by the version and token that were read, and a
run that is made while another replica deletes it cannot slip below the tombstone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ColumnElement,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
)

from runlease_core.fields import COUNTER_MAX, NO_LABELS, RUN_ID_LENGTH_MAX
from runlease_core.instant import instant_from_ms, ms_from_instant
from runlease_core.lifecycle import TERMINAL, RunStatus
from runlease_core.parsing import stored_record
from runlease_core.record import (
    SCHEMA,
    CheckpointRef,
    Lease,
    Outcome,
    RunRecord,
    Suspension,
    Tombstone,
)

SCHEMA_REVISION: Final = "0001"
"""The newest revision in `migrations`: the tables below."""

# Compared byte by byte on every database, whatever its collation.
_EXACT: Final = Text().with_variant(Text(collation="C"), "postgresql")

metadata = MetaData()


def _quoted(statuses: Sequence[str]) -> str:
    return ", ".join(f"'{status}'" for status in statuses)


runs = Table(
    "runs",
    metadata,
    Column("run_id", _EXACT, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("status", Text),
    Column("attempt", BigInteger, nullable=False),
    Column("fencing_token", BigInteger, nullable=False),
    Column("lease_owner", _EXACT),
    Column("lease_acquired_at", BigInteger),
    Column("lease_expires_at", BigInteger),
    Column("lease_grant_key", Text),
    Column("lease_subject", Text),
    Column("checkpoint_key", Text),
    Column("checkpoint_snapshot_version", BigInteger),
    Column("checkpoint_saved_at", BigInteger),
    Column("outcome_code", Text),
    Column("outcome_message", Text),
    Column("suspended_at", BigInteger),
    Column("pending_approval_ids", Text),
    Column("labels", Text),
    Column("max_attempts", Integer),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("deleted_at", BigInteger),
    CheckConstraint(f"length(run_id) BETWEEN 1 AND {RUN_ID_LENGTH_MAX}", name="run_id_length"),
    CheckConstraint(f"version BETWEEN 0 AND {COUNTER_MAX}", name="version_range"),
    CheckConstraint(
        "(deleted_at IS NULL) = (version > 0) AND (deleted_at IS NULL) = (status IS NOT NULL)",
        name="tombstone_whole",
    ),
    CheckConstraint(f"attempt BETWEEN 1 AND {COUNTER_MAX}", name="attempt_range"),
    CheckConstraint(f"fencing_token BETWEEN 0 AND {COUNTER_MAX}", name="fencing_token_range"),
    CheckConstraint(f"status IN ({_quoted(list(RunStatus))})", name="status_known"),
    CheckConstraint(
        "(lease_owner IS NULL) = (lease_expires_at IS NULL)"
        " AND (lease_owner IS NULL) = (lease_acquired_at IS NULL)"
        " AND (lease_owner IS NULL OR (status IS NOT NULL AND status = 'running'))"
        " AND (lease_owner IS NOT NULL OR lease_grant_key IS NULL)"
        " AND (lease_owner IS NOT NULL OR lease_subject IS NULL)",
        name="lease_whole",
    ),
    CheckConstraint("lease_expires_at >= lease_acquired_at", name="lease_forward"),
    CheckConstraint(
        "(checkpoint_key IS NULL) = (checkpoint_snapshot_version IS NULL)"
        " AND (checkpoint_key IS NULL) = (checkpoint_saved_at IS NULL)",
        name="checkpoint_whole",
    ),
    CheckConstraint(
        f"outcome_code IS NULL OR (status IS NOT NULL AND status IN ({_quoted(sorted(TERMINAL))}))",
        name="outcome_terminal",
    ),
    CheckConstraint(
        "(suspended_at IS NULL) = (pending_approval_ids IS NULL)"
        " AND (suspended_at IS NULL OR (status IS NOT NULL"
        " AND status NOT IN ('queued', 'running')))",
        name="suspension_whole",
    ),
    CheckConstraint("max_attempts BETWEEN 1 AND 10000", name="max_attempts_range"),
    sqlite_with_rowid=False,
    postgresql_with={"fillfactor": 70},
)


def _index(name: str, *columns: str, where: ColumnElement[bool]) -> None:
    Index(name, *(runs.c[column] for column in columns), sqlite_where=where, postgresql_where=where)


_index("runs_by_created", "created_at", "run_id", where=runs.c.deleted_at.is_(None))
_index("runs_by_status", "status", "created_at", "run_id", where=runs.c.status.is_not(None))
_index(
    "runs_by_owner", "lease_owner", "created_at", "run_id", where=runs.c.lease_owner.is_not(None)
)
_index("runs_by_deleted", "deleted_at", where=runs.c.deleted_at.is_not(None))

run_labels = Table(
    "run_labels",
    metadata,
    Column("run_id", _EXACT, primary_key=True),
    Column("label", _EXACT, primary_key=True),
    Column("created_at", BigInteger, nullable=False),
    Index("run_labels_by_label", "label", "created_at", "run_id"),
    sqlite_with_rowid=False,
)
"""One row a label, as `key=value`, for the list's filter; `runs.labels` is the record."""

COLUMNS: Final = tuple(column.name for column in runs.columns)
RENEWAL_COLUMNS: Final = ("version", "lease_acquired_at", "lease_expires_at", "updated_at")
FENCE_COLUMNS: Final = (
    *RENEWAL_COLUMNS,
    "checkpoint_key",
    "checkpoint_snapshot_version",
    "checkpoint_saved_at",
)
"""What renew and fence-checkpoint change: none of it is in an index."""

Row = tuple[Any, ...]
_STATUSES: Final = {status.value: status for status in RunStatus}


Guard = tuple[str, int, int]
"""Run id, version and fencing token of the row that was read: together never the same again."""


def guard_of(state: RunRecord | Tombstone) -> Guard:
    """What a row must still be to be written over."""
    return state.run_id, state.version if isinstance(state, RunRecord) else 0, state.fencing_token


def row_from_tombstone(tombstone: Tombstone, now_ms: int) -> Row:
    """The tombstone in the order of COLUMNS: everything but its token is empty."""
    row: dict[str, Any] = dict.fromkeys(COLUMNS)
    row |= {
        "run_id": tombstone.run_id,
        "version": 0,
        "attempt": 1,
        "fencing_token": tombstone.fencing_token,
        "created_at": now_ms,
        "updated_at": now_ms,
        "deleted_at": now_ms,
    }
    return tuple(row.values())


def row_from_record(record: RunRecord) -> Row:
    """The record in the order of COLUMNS."""
    lease, ref = record.lease, record.checkpoint_ref
    outcome, suspension = record.outcome, record.suspension
    return (
        record.run_id,
        record.version,
        record.status.value,
        record.attempt,
        record.fencing_token,
        lease.owner if lease else None,
        ms_from_instant(lease.acquired_at) if lease else None,
        ms_from_instant(lease.expires_at) if lease else None,
        lease.grant_key if lease else None,
        lease.subject if lease else None,
        ref.key if ref else None,
        ref.snapshot_version if ref else None,
        ms_from_instant(ref.saved_at) if ref else None,
        outcome.code if outcome else None,
        outcome.message if outcome else None,
        ms_from_instant(suspension.suspended_at) if suspension else None,
        _text(list(suspension.pending_approval_ids)) if suspension else None,
        _text(dict(record.labels)) if record.labels else None,
        record.max_attempts,
        ms_from_instant(record.created_at),
        ms_from_instant(record.updated_at),
        None,
    )


def renewal_from_record(record: RunRecord) -> Row:
    """The record's part in RENEWAL_COLUMNS."""
    lease = record.lease
    assert lease is not None, "only a held run is renewed"
    return (
        record.version,
        ms_from_instant(lease.acquired_at),
        ms_from_instant(lease.expires_at),
        ms_from_instant(record.updated_at),
    )


def fence_from_record(record: RunRecord) -> Row:
    """The record's part in FENCE_COLUMNS."""
    ref = record.checkpoint_ref
    assert ref is not None, "a fence has a checkpoint"
    return (
        *renewal_from_record(record),
        ref.key,
        ref.snapshot_version,
        ms_from_instant(ref.saved_at),
    )


def is_same_grant(before: RunRecord, after: RunRecord) -> bool:
    """Whether only FENCE_COLUMNS differ: the same grant, still running."""
    return (
        before.lease is not None
        and after.lease is not None
        and before.lease.owner == after.lease.owner
        and before.lease.grant_key == after.lease.grant_key
        and before.lease.subject == after.lease.subject
        and before.fencing_token == after.fencing_token
        and before.attempt == after.attempt
        and before.labels == after.labels
        and before.max_attempts == after.max_attempts
        and before.created_at == after.created_at
    )


def state_from_row(row: Sequence[Any]) -> RunRecord | Tombstone:
    """Read a row in the order of COLUMNS.

    Raises:
        RunIntegrityError: RUN_INTEGRITY_ERROR, the row is no well-formed record.
    """
    if row[-1] is not None:
        return Tombstone(row[0], row[4])
    return record_from_row(row)


def record_from_row(row: Sequence[Any]) -> RunRecord:
    """Read the row of a run that is not deleted; raises as `state_from_row` does."""
    return stored_record(lambda: _record(row))


def _record(row: Sequence[Any]) -> RunRecord:
    (
        run_id,
        version,
        status,
        attempt,
        fencing_token,
        lease_owner,
        lease_acquired_at,
        lease_expires_at,
        lease_grant_key,
        lease_subject,
        checkpoint_key,
        checkpoint_snapshot_version,
        checkpoint_saved_at,
        outcome_code,
        outcome_message,
        suspended_at,
        pending_approval_ids,
        labels,
        max_attempts,
        created_at,
        updated_at,
        _,
    ) = row
    return RunRecord.of(
        {
            "run_id": run_id,
            "version": version,
            "status": _STATUSES[status],
            "attempt": attempt,
            "fencing_token": fencing_token,
            "lease": None
            if lease_owner is None
            else Lease(
                lease_owner,
                instant_from_ms(lease_acquired_at),
                instant_from_ms(lease_expires_at),
                lease_grant_key,
                lease_subject,
            ),
            "checkpoint_ref": None
            if checkpoint_key is None
            else CheckpointRef(
                checkpoint_key, checkpoint_snapshot_version, instant_from_ms(checkpoint_saved_at)
            ),
            "outcome": None if outcome_code is None else Outcome(outcome_code, outcome_message),
            "suspension": None
            if suspended_at is None
            else Suspension(instant_from_ms(suspended_at), tuple(json.loads(pending_approval_ids))),
            "labels": NO_LABELS if labels is None else MappingProxyType(json.loads(labels)),
            "max_attempts": max_attempts,
            "created_at": instant_from_ms(created_at),
            "updated_at": instant_from_ms(updated_at),
            "schema": SCHEMA,
        }
    )


def label_rows(record: RunRecord) -> list[tuple[str, str, int]]:
    """The record's rows in `run_labels`."""
    created_at = ms_from_instant(record.created_at)
    # `{"a": "b=c", "a=b": "c"}` is two labels and one text to filter by.
    texts = dict.fromkeys(f"{key}={value}" for key, value in record.labels.items())
    return [(record.run_id, text, created_at) for text in texts]


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
