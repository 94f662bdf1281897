"""The tables, once for every database, and how a record lies in a row.

Instants are 64-bit milliseconds, so that every database orders and compares them alike. Ids are
compared byte by byte: UTF-8 keeps the order of code points. No index holds a column that a renewal
changes (version, lease instants, updated_at): that would cost a third of the renewals a second.
CHECK constraints repeat what a well-formed record is, so that a hand on the database cannot leave
a row that the service would refuse to read.
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
from runlease_core.record import CheckpointRef, Lease, Outcome, RunRecord, Suspension

SCHEMA_VERSION: Final = 1

metadata = MetaData()


def _quoted(statuses: Sequence[str]) -> str:
    return ", ".join(f"'{status}'" for status in statuses)


runs = Table(
    "runs",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("status", Text, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("fencing_token", BigInteger, nullable=False),
    Column("lease_owner", Text),
    Column("lease_acquired_at", BigInteger),
    Column("lease_expires_at", BigInteger),
    Column("lease_grant_key", Text),
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
    CheckConstraint(f"length(run_id) BETWEEN 1 AND {RUN_ID_LENGTH_MAX}", name="run_id_length"),
    CheckConstraint(f"version BETWEEN 1 AND {COUNTER_MAX}", name="version_range"),
    CheckConstraint(f"attempt BETWEEN 1 AND {COUNTER_MAX}", name="attempt_range"),
    CheckConstraint(f"fencing_token BETWEEN 0 AND {COUNTER_MAX}", name="fencing_token_range"),
    CheckConstraint(f"status IN ({_quoted(list(RunStatus))})", name="status_known"),
    CheckConstraint(
        "(lease_owner IS NULL) = (lease_expires_at IS NULL)"
        " AND (lease_owner IS NULL) = (lease_acquired_at IS NULL)"
        " AND (lease_owner IS NULL OR status = 'running')"
        " AND (lease_owner IS NOT NULL OR lease_grant_key IS NULL)",
        name="lease_whole",
    ),
    CheckConstraint("lease_expires_at >= lease_acquired_at", name="lease_forward"),
    CheckConstraint(
        "(checkpoint_key IS NULL) = (checkpoint_snapshot_version IS NULL)"
        " AND (checkpoint_key IS NULL) = (checkpoint_saved_at IS NULL)",
        name="checkpoint_whole",
    ),
    CheckConstraint(
        f"outcome_code IS NULL OR status IN ({_quoted(sorted(TERMINAL))})", name="outcome_terminal"
    ),
    CheckConstraint(
        "(suspended_at IS NULL) = (pending_approval_ids IS NULL)"
        " AND (suspended_at IS NULL OR status NOT IN ('queued', 'running'))",
        name="suspension_whole",
    ),
    CheckConstraint("max_attempts BETWEEN 1 AND 10000", name="max_attempts_range"),
    Index("runs_by_created", "created_at", "run_id"),
    Index("runs_by_status", "status", "created_at", "run_id"),
    sqlite_with_rowid=False,
)
Index(
    "runs_by_owner",
    runs.c.lease_owner,
    runs.c.created_at,
    runs.c.run_id,
    sqlite_where=runs.c.lease_owner.is_not(None),
    postgresql_where=runs.c.lease_owner.is_not(None),
)

run_labels = Table(
    "run_labels",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("label", Text, primary_key=True),
    Column("created_at", BigInteger, nullable=False),
    Index("run_labels_by_label", "label", "created_at", "run_id"),
    sqlite_with_rowid=False,
)
"""One row a label, as `key=value`, for the list's filter; `runs.labels` is the record."""

tombstones = Table(
    "tombstones",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("fencing_token", BigInteger, nullable=False),
    Column("deleted_at", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
"""The last token of each deleted run: no later grant under that id may repeat it."""

COLUMNS: Final = tuple(column.name for column in runs.columns)
RENEWAL_COLUMNS: Final = (
    "version",
    "lease_acquired_at",
    "lease_expires_at",
    "lease_grant_key",
    "checkpoint_key",
    "checkpoint_snapshot_version",
    "checkpoint_saved_at",
    "updated_at",
)
"""What renew and fence-checkpoint change: none of it is in an index."""

Row = tuple[Any, ...]


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
    )


def renewal_from_record(record: RunRecord) -> Row:
    """The record's part in RENEWAL_COLUMNS."""
    lease, ref = record.lease, record.checkpoint_ref
    assert lease is not None, "only a held run is renewed"
    return (
        record.version,
        ms_from_instant(lease.acquired_at),
        ms_from_instant(lease.expires_at),
        lease.grant_key,
        ref.key if ref else None,
        ref.snapshot_version if ref else None,
        ms_from_instant(ref.saved_at) if ref else None,
        ms_from_instant(record.updated_at),
    )


def is_renewal(before: RunRecord, after: RunRecord) -> bool:
    """Whether only RENEWAL_COLUMNS differ: the same grant, still running."""
    return (
        before.lease is not None
        and after.lease is not None
        and before.lease.owner == after.lease.owner
        and before.fencing_token == after.fencing_token
        and before.attempt == after.attempt
        and before.labels == after.labels
        and before.max_attempts == after.max_attempts
        and before.created_at == after.created_at
    )


def record_from_row(row: Sequence[Any]) -> RunRecord:
    """Read a row in the order of COLUMNS.

    Raises:
        RunIntegrityError: RUN_INTEGRITY_ERROR, the row is no well-formed record.
    """
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
    ) = row
    return RunRecord(
        run_id=run_id,
        version=version,
        status=RunStatus(status),
        attempt=attempt,
        fencing_token=fencing_token,
        lease=None
        if lease_owner is None
        else Lease(
            lease_owner,
            instant_from_ms(lease_acquired_at),
            instant_from_ms(lease_expires_at),
            lease_grant_key,
        ),
        checkpoint_ref=None
        if checkpoint_key is None
        else CheckpointRef(
            checkpoint_key, checkpoint_snapshot_version, instant_from_ms(checkpoint_saved_at)
        ),
        outcome=None if outcome_code is None else Outcome(outcome_code, outcome_message),
        suspension=None
        if suspended_at is None
        else Suspension(instant_from_ms(suspended_at), tuple(json.loads(pending_approval_ids))),
        labels=NO_LABELS if labels is None else MappingProxyType(json.loads(labels)),
        max_attempts=max_attempts,
        created_at=instant_from_ms(created_at),
        updated_at=instant_from_ms(updated_at),
    )


def label_rows(record: RunRecord) -> list[tuple[str, str, int]]:
    """The record's rows in `run_labels`."""
    created_at = ms_from_instant(record.created_at)
    return [(record.run_id, f"{key}={value}", created_at) for key, value in record.labels.items()]


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
