"""The run record and its parts: what a well-formed one is, and its JSON.

A `RunRecord` that exists is well-formed: every constructor checks, and refuses the rest with
RUN_VALIDATION_ERROR naming the field. `parsing` reads records from JSON. Source: design, section 2.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from runlease_core.fields import (
    CHECKPOINT_KEY_LENGTH_MAX,
    MAX_ATTEMPTS_MAX,
    NO_LABELS,
    OUTCOME_CODE_LENGTH_MAX,
    check_approval_ids,
    check_counter,
    check_instant,
    check_labels,
    check_message,
    check_owner,
    check_run_id,
    check_text,
    malformed,
    no_labels,
)
from runlease_core.instant import format_instant
from runlease_core.lifecycle import TERMINAL, RunStatus

SCHEMA: Final = 1

_quote: Final = json.encoder.encode_basestring
_MOVING: Final = frozenset(
    {"status", "attempt", "fencing_token", "lease", "checkpoint_ref", "outcome", "suspension"}
)
"""What a write may change, besides `version` and `updated_at`."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Who may advance the run, and until when. `expires_at` equal to now is expired.

    `grant_key` is the idempotency key of the acquire that granted it: kept by stores that can,
    never sent, so that a retried acquire finds its own grant. `subject` is the credential that took
    it, where there are credentials: kept and never sent likewise.
    """

    owner: str
    acquired_at: datetime
    expires_at: datetime
    grant_key: str | None = field(default=None, compare=False, repr=False)
    subject: str | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_owner(self.owner, "lease.owner")
        check_instant(self.acquired_at, "lease.acquiredAt")
        check_instant(self.expires_at, "lease.expiresAt")
        if self.expires_at < self.acquired_at:
            raise malformed("lease.expiresAt", "must not lie before acquiredAt")


@dataclass(frozen=True, slots=True)
class CheckpointRef:
    """Where the newest snapshot lies; advisory, for operators."""

    key: str
    snapshot_version: int
    saved_at: datetime

    def __post_init__(self) -> None:
        check_text(self.key, "checkpointRef.key", length_max=CHECKPOINT_KEY_LENGTH_MAX)
        check_counter(self.snapshot_version, "checkpointRef.snapshotVersion")
        check_instant(self.saved_at, "checkpointRef.savedAt")


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a finished run ended: a code for programs and a message for people."""

    code: str
    message: str | None = None

    def __post_init__(self) -> None:
        check_text(self.code, "outcome.code", length_max=OUTCOME_CODE_LENGTH_MAX)
        if self.message is not None:
            check_message(self.message, "outcome.message")


@dataclass(frozen=True, slots=True)
class Suspension:
    """Since when the run waits, and for which approvals."""

    suspended_at: datetime
    pending_approval_ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_instant(self.suspended_at, "suspension.suspendedAt")
        check_approval_ids(self.pending_approval_ids, "suspension.pendingApprovalIds")


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What a deleted run leaves behind: the token that no later grant may repeat."""

    run_id: str
    fencing_token: int


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """The one authoritative record of a run, schema 1.

    `version` rises by one with every write. `fencing_token` rises with every grant, cancel and
    revoke, and never falls. `attempt` rises when an abandoned run is taken over. A lease exists
    only while running, an outcome only in a terminal status.
    """

    run_id: str
    version: int
    status: RunStatus
    attempt: int
    fencing_token: int
    created_at: datetime
    updated_at: datetime
    lease: Lease | None = None
    checkpoint_ref: CheckpointRef | None = None
    outcome: Outcome | None = None
    suspension: Suspension | None = None
    labels: Mapping[str, str] = field(default_factory=no_labels, hash=False)
    max_attempts: int | None = None
    schema: Literal[1] = SCHEMA

    def __post_init__(self) -> None:
        if type(self.schema) is not int or self.schema != SCHEMA:
            raise malformed("schema", f"must be {SCHEMA}")
        check_run_id(self.run_id)
        check_instant(self.created_at, "createdAt")
        if self.labels is not NO_LABELS:
            object.__setattr__(self, "labels", check_labels(self.labels))
        if self.max_attempts is not None:
            check_counter(self.max_attempts, "maxAttempts", least=1, most=MAX_ATTEMPTS_MAX)
        self._check_moving()

    def _check_moving(self) -> None:
        check_counter(self.version, "version", least=1)
        if not isinstance(self.status, RunStatus):
            raise malformed("status", "must be one of " + ", ".join(RunStatus))
        check_counter(self.attempt, "attempt", least=1)
        check_counter(self.fencing_token, "fencingToken")
        check_instant(self.updated_at, "updatedAt")
        if self.lease is not None and self.status is not RunStatus.RUNNING:
            raise malformed("lease", f"a {self.status} run holds no lease")
        if self.outcome is not None and self.status not in TERMINAL:
            raise malformed("outcome", f"a {self.status} run has no outcome yet")
        if self.suspension is not None and self.status in (RunStatus.QUEUED, RunStatus.RUNNING):
            raise malformed("suspension", f"a {self.status} run is not suspended")

    def __reduce__(self) -> tuple[Any, ...]:
        # The read-only view over the labels is no value that pickle knows.
        return _unpickled, (self.__dict__ | {"labels": dict(self.labels)},)

    def held_by(self, owner: str, fencing_token: int) -> bool:
        """Whether this owner and token hold the lease, live or not: the token decides."""
        return (
            self.lease is not None
            and self.fencing_token == fencing_token
            and self.lease.owner == owner
        )

    def written(self, now: datetime, **changes: Any) -> RunRecord:  # noqa: ANN401 (as replace takes them)
        """The next record: the one place where `version` and `updatedAt` move. What a write cannot
        change was checked when this record was made."""
        assert changes.keys() <= _MOVING, "nothing else ever changes"
        record = RunRecord.__new__(RunRecord)
        record.__dict__.update(self.__dict__, version=self.version + 1, updated_at=now, **changes)
        record._check_moving()  # noqa: SLF001 (our own)
        return record

    @classmethod
    def of(cls, state: dict[str, Any]) -> RunRecord:
        """A record from the values of all its fields, checked like any other.

        What the constructor does, at a third of the cost: that of a frozen class sets each field
        by a call of its own.
        """
        record = cls.__new__(cls)
        record.__dict__.update(state)
        record.__post_init__()
        return record

    def to_json(self) -> dict[str, Any]:
        """The seed's JSON object: camelCase, its field order, absent fields left out."""
        data: dict[str, Any] = json.loads(record_to_text(self))
        return data


def _unpickled(state: dict[str, Any]) -> RunRecord:
    return RunRecord(**state)


def is_run_lease_live(record: RunRecord, now: datetime) -> bool:
    """Whether the run's lease still excludes others: `expiresAt` lies after now."""
    return record.lease is not None and record.lease.expires_at > now


def record_to_text(record: RunRecord) -> str:
    """The record as compact JSON text; the same record always gives the same characters.

    Written field by field, since every answer of a service does it and a general encoder takes
    five times as long. Only free text needs quoting.
    """
    head = (
        f'{{"schema":{record.schema},"runId":{_quote(record.run_id)},"version":{record.version},'
        f'"status":"{record.status.value}","attempt":{record.attempt},'
        f'"fencingToken":{record.fencing_token}'
    )
    parts = [head]
    if (lease := record.lease) is not None:
        parts.append(
            f',"lease":{{"owner":{_quote(lease.owner)},'
            f'"acquiredAt":"{format_instant(lease.acquired_at)}",'
            f'"expiresAt":"{format_instant(lease.expires_at)}"}}'
        )
    if (ref := record.checkpoint_ref) is not None:
        parts.append(
            f',"checkpointRef":{{"key":{_quote(ref.key)},"snapshotVersion":{ref.snapshot_version},'
            f'"savedAt":"{format_instant(ref.saved_at)}"}}'
        )
    if (outcome := record.outcome) is not None:
        message = "" if outcome.message is None else f',"message":{_quote(outcome.message)}'
        parts.append(f',"outcome":{{"code":{_quote(outcome.code)}{message}}}')
    if (suspension := record.suspension) is not None:
        ids = ",".join(map(_quote, suspension.pending_approval_ids))
        parts.append(
            f',"suspension":{{"suspendedAt":"{format_instant(suspension.suspended_at)}",'
            f'"pendingApprovalIds":[{ids}]}}'
        )
    if record.labels:
        labels = ",".join(f"{_quote(key)}:{_quote(text)}" for key, text in record.labels.items())
        parts.append(f',"labels":{{{labels}}}')
    if record.max_attempts is not None:
        parts.append(f',"maxAttempts":{record.max_attempts}')
    parts.append(
        f',"createdAt":"{format_instant(record.created_at)}",'
        f'"updatedAt":"{format_instant(record.updated_at)}"}}'
    )
    return "".join(parts)
