"""The ledger: who may advance a run, asked and answered in this process.

`RunLedger` issues leases and carries out an operator's commands over any `RunStore`, or over a
`CommandExecutor` that sends them elsewhere. What a command may do is decided by `decide` alone.

Over a store, instants come from this process's wall clock: processes that share a store must have
clocks that agree far better than a lease is long. A service whose database decides needs none of
that. Every command is safe to send again after an error that leaves its outcome unknown.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from inspect import iscoroutinefunction
from types import TracebackType
from typing import Self

from runlease_core.clock import Clock
from runlease_core.commands import Cancel, Delete, ExpectedVersion, Revoke
from runlease_core.errors import RunLeaseHeldError, RunLeaseLostError
from runlease_core.execution import CommandExecutor, StoreExecutor, renewer_over
from runlease_core.fields import LEASE_TTL_MS_DEFAULT, malformed
from runlease_core.handle import RunLeaseHandle
from runlease_core.heartbeat import ThreadHeartbeat
from runlease_core.holder import (
    LeaseHolder,
    Loss,
    WaitForLease,
    enqueue_command,
    raise_failures,
    resume_command,
    standing,
)
from runlease_core.local_lease import LocalLease
from runlease_core.record import RunRecord
from runlease_core.store import RunStore


class RunLedger(LeaseHolder[RunLeaseHandle]):
    """Leases and operator commands over a `RunStore` or a `CommandExecutor`; thread-safe.

    As a context manager it closes itself.

    Args:
        store: The records, or whatever carries commands out.
        owner: The worker's identity; two live processes must never share one. By default host,
            process id and a random part.
        lease_ttl_ms: How long a lease stays valid without renewal.
        heartbeat: Whether open leases are renewed in the background.
        on_lost: Called with the handle when a loss is latched, in the thread that notices it.
        now: The clock, for tests: a callable that returns an aware datetime.

    Raises:
        RunStoreAtomicRequiredError: RUN_STORE_ATOMIC_REQUIRED, the store cannot swap; use another.
        RunValidationError: RUN_VALIDATION_ERROR, a setting is malformed; mend the named one.
    """

    def __init__(
        self,
        store: RunStore | CommandExecutor,
        *,
        owner: str | None = None,
        lease_ttl_ms: int = LEASE_TTL_MS_DEFAULT,
        heartbeat: bool = True,
        on_lost: Callable[[RunLeaseHandle], object] | None = None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        if iscoroutinefunction(getattr(store, "get", None)):
            raise malformed("store", "is asynchronous; give it to an AsyncRunLedger")
        clock = Clock(now)
        self._executor: CommandExecutor = (
            store if isinstance(store, CommandExecutor) else StoreExecutor(store, clock)
        )
        super().__init__(owner, lease_ttl_ms, heartbeat=heartbeat, clock=clock, on_lost=on_lost)

    def _begin(self) -> None:
        super()._begin()
        self._heartbeat = ThreadHeartbeat(self._clock, renewer_over(self._executor))

    def get(self, run_id: str) -> RunRecord | None:
        """Read a run without taking it; None when there is none.

        Raises:
            RunIntegrityError: RUN_INTEGRITY_ERROR, what is stored is no record; repair it.
        """
        return self._executor.get(run_id)

    def acquire(
        self,
        run_id: str,
        *,
        labels: Mapping[str, str] | None = None,
        max_attempts: int | None = None,
        expected_version: ExpectedVersion = None,
        wait: float = 0.0,
    ) -> RunLeaseHandle:
        """Take the lease, making the run when there is none.

        Args:
            run_id: The run.
            labels: Given to the run when it is made.
            max_attempts: How many workers may try it, given to the run when it is made.
            expected_version: Acquire only this version of the run.
            wait: For how many seconds to wait while another owner's lease is live.

        Raises:
            RunLeaseHeldError: RUN_LEASE_HELD, to the end of the wait; try again after it expires,
                or cancel or revoke.
            RunAlreadyTerminalError: RUN_ALREADY_TERMINAL, also when the attempts are used up;
                dispatch nothing.
            RunSuspendedError: RUN_SUSPENDED; request the resume once the decision is recorded.
            RunConflictError: RUN_CONFLICT; read the run again, then decide anew.
        """
        command = self._acquire(run_id, labels, max_attempts, expected_version)
        waiting = WaitForLease(wait)
        while True:
            sent_at_seconds = self._clock.seconds()
            try:
                record = standing(self._executor.execute(command, wait_seconds=self._wait_seconds))
                break
            except RunLeaseHeldError as error:
                time.sleep(waiting.seconds(error))
        handle, lease = self._handle(run_id, command.owner, record.fencing_token)
        lease.keep(record, sent_at_seconds)
        self._note(lease, handle)
        if self._closed:
            handle.release()
            self._check_not_closed()
        return handle

    def adopt(self, run_id: str, fencing_token: int) -> RunLeaseHandle:
        """A handle for a token that this owner was granted earlier, as before a restart.

        Asks nobody: it is not held, and not renewed, before its first command succeeds. Needs the
        `owner` of the earlier grant.
        """
        self._check_not_closed()
        return self._handle(run_id, self.owner, fencing_token)[0]

    def enqueue(
        self,
        run_id: str,
        *,
        labels: Mapping[str, str] | None = None,
        max_attempts: int | None = None,
        expected_version: ExpectedVersion = None,
    ) -> RunRecord:
        """Make a queued run; one that exists and is not finished is left as it is.

        Raises:
            RunAlreadyTerminalError: RUN_ALREADY_TERMINAL; use another run id.
        """
        return standing(
            self._executor.execute(enqueue_command(run_id, labels, max_attempts, expected_version))
        )

    def cancel(
        self,
        run_id: str,
        message: str | None = None,
        *,
        expected_version: ExpectedVersion = None,
    ) -> RunRecord:
        """End the run as cancelled and fence its worker, whoever that is.

        Raises:
            RunNotFoundError: RUN_NOT_FOUND; nothing was cancelled, and a run made later will run.
            RunAlreadyTerminalError: RUN_ALREADY_TERMINAL, it completed or failed; too late.
            RunConflictError: RUN_CONFLICT; read the run again, then decide anew.
        """
        return standing(
            self._executor.execute(
                Cancel(run_id=run_id, message=message, expected_version=expected_version)
            )
        )

    def request_resume(
        self,
        run_id: str,
        *,
        pending_approval_ids: Iterable[str] | None = None,
        expected_version: ExpectedVersion = None,
    ) -> RunRecord:
        """Make a suspended or abandoned run eligible for a new lease.

        Args:
            run_id: The run.
            pending_approval_ids: The approvals that were decided; others than the suspension's
                refuse the command, so that an old decision resumes no later suspension.
            expected_version: Resume only this version of the run.

        Raises:
            RunNotFoundError: RUN_NOT_FOUND; there is nothing to resume.
            RunLeaseHeldError: RUN_LEASE_HELD; somebody works on it, leave it alone.
            RunAlreadyTerminalError: RUN_ALREADY_TERMINAL; it is finished for ever.
            RunInvalidTransitionError: RUN_INVALID_TRANSITION, it waits for other approvals.
            RunConflictError: RUN_CONFLICT; read the run again, then decide anew.
        """
        return standing(
            self._executor.execute(resume_command(run_id, pending_approval_ids, expected_version))
        )

    def revoke(
        self,
        run_id: str,
        message: str | None = None,
        *,
        expected_version: ExpectedVersion = None,
    ) -> RunRecord:
        """Take the lease from a stuck worker and queue the run again.

        Raises:
            RunNotFoundError: RUN_NOT_FOUND; there is no such run.
            RunAlreadyTerminalError: RUN_ALREADY_TERMINAL; it is finished for ever.
            RunInvalidTransitionError: RUN_INVALID_TRANSITION, it is suspended: no lease to take.
            RunConflictError: RUN_CONFLICT; read the run again, then decide anew.
        """
        return standing(
            self._executor.execute(
                Revoke(run_id=run_id, message=message, expected_version=expected_version)
            )
        )

    def delete(self, run_id: str, *, force: bool = False) -> None:
        """Remove the run; its last token stays behind. Nothing when there is none.

        Raises:
            RunLeaseHeldError: RUN_LEASE_HELD; cancel it first, or delete with `force=True`.
        """
        self._executor.execute(Delete(run_id=run_id, force=force))

    def close(self) -> None:
        """Release every open lease, each on its own, and stop the heartbeat.

        Raises:
            ExceptionGroup: what kept leases from being released; they expire by themselves.
        """
        self._close(None)

    def _close(self, error: BaseException | None) -> None:
        handles = self._take_open()
        self._heartbeat.stop()
        failures: list[Exception] = []
        for handle in handles:
            try:
                handle.release()
            except RunLeaseLostError:
                continue  # Somebody else has it: there is nothing to release.
            except Exception as failure:  # noqa: BLE001 (the others are released all the same)
                failures.append(failure)
        raise_failures(failures, error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close(error)

    def _handle(
        self, run_id: str, owner: str, fencing_token: int
    ) -> tuple[RunLeaseHandle, LocalLease]:
        lost_event = threading.Event()
        loss = Loss(lost_event.set, self._on_lost)
        lease = self._lease(run_id, owner, fencing_token, loss)
        loss.handle = RunLeaseHandle(lease, self._executor, lost_event, self._note)
        return loss.handle, lease

    def _note(self, lease: LocalLease, handle: RunLeaseHandle) -> None:
        self._here()
        if self._settle(lease, handle) and self._beats:
            self._heartbeat.add(lease)
        else:
            self._heartbeat.discard(lease)
