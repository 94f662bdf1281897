"""The commands: one frozen class each, with its bounds.

A command that exists is well-formed: its constructor refuses the rest with RUN_VALIDATION_ERROR
naming the field, so that `decide` never meets malformed input. The bounds here are those of the
contract; a service may narrow the lease's length by its settings. Source: design, sections 2 and 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from runlease_core.fields import (
    IDEMPOTENCY_KEY_LENGTH_MAX,
    LEASE_TTL_MS_DEFAULT,
    LEASE_TTL_MS_MAX,
    LEASE_TTL_MS_MIN,
    MAX_ATTEMPTS_MAX,
    check_approval_ids,
    check_counter,
    check_labels,
    check_message,
    check_owner,
    check_run_id,
    check_text,
    malformed,
    no_labels,
)
from runlease_core.lifecycle import RunStatus
from runlease_core.record import CheckpointRef, Outcome, RunRecord


class Existing(Enum):
    """The expectation that the run exists, whatever its version (`If-Match: *`)."""

    ANY_VERSION = "*"


ExpectedVersion = int | Existing | None
"""None expects nothing."""


def check_lease_ttl_ms(value: object, name: str = "leaseTtlMs") -> int:
    """A lease's length in milliseconds, from 100 to 86,400,000; never clamped."""
    return check_counter(value, name, least=LEASE_TTL_MS_MIN, most=LEASE_TTL_MS_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What every command has: the run, and optionally the version it must have."""

    run_id: str
    expected_version: ExpectedVersion = None

    def __post_init__(self) -> None:
        check_run_id(self.run_id)
        if self.expected_version is not None and self.expected_version is not Existing.ANY_VERSION:
            check_counter(self.expected_version, "expectedVersion")


@dataclass(frozen=True, slots=True, kw_only=True)
class Acquire(Command):
    """Take the lease, making the run when there is none.

    `labels` and `max_attempts` count only when the run is made. `idempotency_key` marks a retry:
    the same owner with the same key finds its own live grant again. `subject` is the credential
    that asks, where there are credentials; the lease will be its own.
    """

    owner: str
    lease_ttl_ms: int = LEASE_TTL_MS_DEFAULT
    labels: Mapping[str, str] = field(default_factory=no_labels, hash=False)
    max_attempts: int | None = None
    idempotency_key: str | None = None
    subject: str | None = None

    def __post_init__(self) -> None:
        Command.__post_init__(self)
        check_owner(self.owner)
        check_lease_ttl_ms(self.lease_ttl_ms)
        _check_birth(self)
        if self.idempotency_key is not None:
            check_text(
                self.idempotency_key, "Idempotency-Key", length_max=IDEMPOTENCY_KEY_LENGTH_MAX
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueue(Command):
    """Make a queued run that any worker may acquire."""

    labels: Mapping[str, str] = field(default_factory=no_labels, hash=False)
    max_attempts: int | None = None

    def __post_init__(self) -> None:
        Command.__post_init__(self)
        _check_birth(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced(Command):
    """A command that only the holder of the lease may give; `subject` as for acquire."""

    owner: str
    fencing_token: int
    subject: str | None = None

    def __post_init__(self) -> None:
        Command.__post_init__(self)
        check_owner(self.owner)
        check_counter(self.fencing_token, "fencingToken")


@dataclass(frozen=True, slots=True, kw_only=True)
class Renew(Fenced):
    """Start the lease's length anew."""

    lease_ttl_ms: int = LEASE_TTL_MS_DEFAULT

    def __post_init__(self) -> None:
        Fenced.__post_init__(self)
        check_lease_ttl_ms(self.lease_ttl_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceCheckpoint(Fenced):
    """Record where the next snapshot goes and renew, in one write, before the snapshot is made."""

    checkpoint_ref: CheckpointRef
    lease_ttl_ms: int = LEASE_TTL_MS_DEFAULT

    def __post_init__(self) -> None:
        Fenced.__post_init__(self)
        check_lease_ttl_ms(self.lease_ttl_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition(Fenced):
    """Give the lease up: release (`queued`), suspend, complete, fail or cancel."""

    to: RunStatus
    outcome: Outcome | None = None
    pending_approval_ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        Fenced.__post_init__(self)
        if not isinstance(self.to, RunStatus):
            raise malformed("to", "must be one of " + ", ".join(RunStatus))
        if self.to is RunStatus.RUNNING:
            raise malformed("to", "must not be running: acquire the run instead")
        if self.outcome is not None and self.to in (RunStatus.QUEUED, RunStatus.SUSPENDED):
            raise malformed("outcome", f"must be absent: {self.to} is not an end")
        if self.pending_approval_ids and self.to is not RunStatus.SUSPENDED:
            raise malformed("pendingApprovalIds", "must be absent unless the run is suspended")
        check_approval_ids(self.pending_approval_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel(Command):
    """End the run as cancelled, whoever holds it."""

    message: str | None = None

    def __post_init__(self) -> None:
        Command.__post_init__(self)
        if self.message is not None:
            check_message(self.message, "message")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume(Command):
    """Make a suspended or abandoned run eligible for a new lease.

    `pending_approval_ids` names the suspension that was decided; None answers whichever it is.
    `message` is for the log.
    """

    pending_approval_ids: tuple[str, ...] | None = None
    message: str | None = None

    def __post_init__(self) -> None:
        Command.__post_init__(self)
        if self.message is not None:
            check_message(self.message, "message")
        if self.pending_approval_ids is not None:
            check_approval_ids(self.pending_approval_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Revoke(Command):
    """Take the lease from a stuck worker; `message` is for the log."""

    message: str | None = None

    def __post_init__(self) -> None:
        Command.__post_init__(self)
        if self.message is not None:
            check_message(self.message, "message")


@dataclass(frozen=True, slots=True, kw_only=True)
class Create(Command):
    """The seed's seam: insert this record when there is none."""

    record: RunRecord

    def __post_init__(self) -> None:
        Command.__post_init__(self)
        _check_filed(self.run_id, self.record)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareAndSet(Command):
    """The seed's seam: swap this record in when the stored version is the expected one."""

    record: RunRecord

    def __post_init__(self) -> None:
        Command.__post_init__(self)
        if not isinstance(self.expected_version, int):
            raise malformed("expectedVersion", "must be an integer")
        _check_filed(self.run_id, self.record)
        if self.record.version != self.expected_version + 1:
            raise malformed("version", f"must be {self.expected_version + 1}, one more than stored")


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete(Command):
    """Remove the run, leaving its token behind; `force` also under a live lease."""

    force: bool = False


AnyCommand = (
    Acquire
    | Enqueue
    | Renew
    | FenceCheckpoint
    | Transition
    | Cancel
    | Resume
    | Revoke
    | Create
    | CompareAndSet
    | Delete
)


def _check_birth(command: Acquire | Enqueue) -> None:
    object.__setattr__(command, "labels", check_labels(command.labels))
    if command.max_attempts is not None:
        check_counter(command.max_attempts, "maxAttempts", least=1, most=MAX_ATTEMPTS_MAX)


def _check_filed(run_id: str, record: RunRecord) -> None:
    if record.run_id != run_id:
        raise malformed("runId", "must be the run that the command names")
