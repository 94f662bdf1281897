"""What a worker needs to own its runs, and nothing of the service.

import runlease

with runlease.connect("http://127.0.0.1:8080") as ledger:
with ledger.acquire("reports/2026-09") as run:
...
"""

from runlease.connect import aconnect, connect
from runlease.errors import (
    AccessError,
    RefusedError,
    RunleaseError,
    UnavailableError,
    UnexpectedAnswerError,
)
from runlease.remote import (
    AsyncRemoteExecutor,
    AsyncRemoteRunStore,
    RemoteExecutor,
    RemoteRunStore,
)
from runlease.transport import Connection
from runlease_core import (
    AsyncRunLeaseHandle,
    AsyncRunLedger,
    CheckpointRef,
    Code,
    LossReason,
    Outcome,
    RunAlreadyTerminalError,
    RunConflictError,
    RunIntegrityError,
    RunInvalidTransitionError,
    RunLeaseHandle,
    RunLeaseHeldError,
    RunLeaseLostError,
    RunLedger,
    RunNotFoundError,
    RunRecord,
    RunStatus,
    RunStoreAtomicRequiredError,
    RunStoreError,
    RunSuspendedError,
    RunValidationError,
)

__all__ = [
    "AccessError",
    "AsyncRemoteExecutor",
    "AsyncRemoteRunStore",
    "AsyncRunLeaseHandle",
    "AsyncRunLedger",
    "CheckpointRef",
    "Code",
    "Connection",
    "LossReason",
    "Outcome",
    "RefusedError",
    "RemoteExecutor",
    "RemoteRunStore",
    "RunAlreadyTerminalError",
    "RunConflictError",
    "RunIntegrityError",
    "RunInvalidTransitionError",
    "RunLeaseHandle",
    "RunLeaseHeldError",
    "RunLeaseLostError",
    "RunLedger",
    "RunNotFoundError",
    "RunRecord",
    "RunStatus",
    "RunStoreAtomicRequiredError",
    "RunStoreError",
    "RunSuspendedError",
    "RunValidationError",
    "RunleaseError",
    "UnavailableError",
    "UnexpectedAnswerError",
    "aconnect",
    "connect",
]
