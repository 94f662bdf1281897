"""What can be refused, by code.

    RunStoreError                      code and, when a record was read, record
    ├── RunLeaseHeldError              RUN_LEASE_HELD             another owner's lease is live
    ├── RunLeaseLostError              RUN_LEASE_LOST             the token no longer holds the run
    ├── RunAlreadyTerminalError        RUN_ALREADY_TERMINAL       the run is finished for ever
    ├── RunSuspendedError              RUN_SUSPENDED              it waits for a decision
    ├── RunInvalidTransitionError      RUN_INVALID_TRANSITION     no such edge from this status
    ├── RunIntegrityError              RUN_INTEGRITY_ERROR        a stored record is malformed
    ├── RunValidationError             RUN_VALIDATION_ERROR       the caller's input is malformed
    ├── RunConflictError               RUN_CONFLICT               not the expected version
    ├── RunNotFoundError               RUN_NOT_FOUND              there is no such run
    └── RunStoreAtomicRequiredError    RUN_STORE_ATOMIC_REQUIRED  the store cannot compare and set

Inside the rules a refusal is a value (`decide.Refused`); these exceptions are for the edges,
where `error_for` turns one into the other. The codes are the seed's and part of the contract.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from runlease_core.record import RunRecord


class Code(StrEnum):
    """The ten reasons for which a command is refused."""

    RUN_LEASE_HELD = "RUN_LEASE_HELD"
    RUN_LEASE_LOST = "RUN_LEASE_LOST"
    RUN_ALREADY_TERMINAL = "RUN_ALREADY_TERMINAL"
    RUN_SUSPENDED = "RUN_SUSPENDED"
    RUN_INVALID_TRANSITION = "RUN_INVALID_TRANSITION"
    RUN_INTEGRITY_ERROR = "RUN_INTEGRITY_ERROR"
    RUN_VALIDATION_ERROR = "RUN_VALIDATION_ERROR"
    RUN_CONFLICT = "RUN_CONFLICT"
    RUN_NOT_FOUND = "RUN_NOT_FOUND"
    RUN_STORE_ATOMIC_REQUIRED = "RUN_STORE_ATOMIC_REQUIRED"


class RunStoreError(Exception):
    """A command was refused, or a record cannot be trusted.

    `code` names the reason and is stable; the message is for people. `record` is the record the
    decision was taken against, when one was read; it is evidence, not a grant: a worker never
    takes a fencing token from it. `retry_after_seconds` says of a held lease how long it lasts.
    """

    code: ClassVar[Code]

    def __init__(self, detail: str, record: RunRecord | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.record = record
        self.retry_after_seconds: float | None = None


class RunLeaseHeldError(RunStoreError):
    """Another owner's lease is live. Try again after it expires, or cancel or revoke the run."""

    code = Code.RUN_LEASE_HELD


class RunLeaseLostError(RunStoreError):
    """The owner and fencing token no longer hold the run. Stop working on it; write nothing."""

    code = Code.RUN_LEASE_LOST


class RunAlreadyTerminalError(RunStoreError):
    """The run is completed, failed or cancelled, and stays so."""

    code = Code.RUN_ALREADY_TERMINAL


class RunSuspendedError(RunStoreError):
    """The run waits for a decision. Resume it once that is recorded, then acquire."""

    code = Code.RUN_SUSPENDED


class RunInvalidTransitionError(RunStoreError):
    """The lifecycle has no such edge, or the command names another suspension."""

    code = Code.RUN_INVALID_TRANSITION


class RunIntegrityError(RunStoreError):
    """A stored record is malformed or misfiled. It is never treated as absent: repair the row."""

    code = Code.RUN_INTEGRITY_ERROR


class RunValidationError(RunStoreError):
    """The caller's input is malformed. `field` names the place, as in `lease.owner`."""

    code = Code.RUN_VALIDATION_ERROR

    def __init__(self, detail: str, record: RunRecord | None = None, *, field: str = "") -> None:
        super().__init__(detail, record)
        self.field = field


class RunConflictError(RunStoreError):
    """The run has another version than the one expected. Read it again, then decide anew."""

    code = Code.RUN_CONFLICT


class RunNotFoundError(RunStoreError):
    """There is no such run."""

    code = Code.RUN_NOT_FOUND


class RunStoreAtomicRequiredError(RunStoreError):
    """The store offers no atomic compare-and-set, so it cannot hold leases."""

    code = Code.RUN_STORE_ATOMIC_REQUIRED


ERROR_CLASSES: dict[Code, type[RunStoreError]] = {
    error.code: error for error in RunStoreError.__subclasses__()
}
"""Each code's exception; a test holds it complete."""


def error_for(code: Code, detail: str, record: RunRecord | None = None) -> RunStoreError:
    """The exception that carries this refusal."""
    return ERROR_CLASSES[code](detail, record)
