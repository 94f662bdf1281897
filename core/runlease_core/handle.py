"""The handles that workers hold while they own a run.

A handle is the capability: its fencing token goes with every write, and the rules judge it. What
it knows and promises is in `local_lease`; here are the two shells around it, one with a thread's
lock and one with a task's, so that of all commands on one handle only one is under way.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self, TypeVar

from runlease_core.errors import RunStoreError
from runlease_core.execution import AsyncCommandExecutor, CommandExecutor
from runlease_core.local_lease import LocalLease, LossReason
from runlease_core.record import CheckpointRef, Outcome, RunRecord
from runlease_core.steps import Steps, run_steps, run_steps_async

T = TypeVar("T")


class _Lease:
    """What can be read of a lease, the same for both handles."""

    _lease: LocalLease

    @property
    def run_id(self) -> str:
        """The run."""
        return self._lease.run_id

    @property
    def owner(self) -> str:
        """Who holds it: the ledger's owner when it was acquired."""
        return self._lease.owner

    @property
    def fencing_token(self) -> int:
        """The token of this grant. It never changes; hand it to whatever the worker writes to."""
        return self._lease.fencing_token

    @property
    def record(self) -> RunRecord | None:
        """The newest record this handle was shown; None for an adopted one before its first."""
        return self._lease.record

    @property
    def attempt(self) -> int:
        """The run's attempt; 0 for an adopted handle before its first command."""
        return self._lease.record.attempt if self._lease.record else 0

    @property
    def held(self) -> bool:
        """Whether this process can prove, right now, that it may advance the run.

        False past the local deadline, and for ever after a loss or an ending. Without a heartbeat a
        later renewal may make it true again. Ask it before every side effect.
        """
        return self._lease.held

    @property
    def lost(self) -> bool:
        """Whether the run was taken over, cancelled, revoked or deleted; where a heartbeat renews,
        also whether it could not be proved in time. For ever."""
        return self._lease.loss is not None

    @property
    def loss(self) -> RunStoreError | None:
        """The refusal that latched the loss, with the record it was judged against."""
        return self._lease.loss

    @property
    def loss_reason(self) -> LossReason | None:
        """Why the lease was lost, None as long as it is not."""
        return self._lease.loss_reason

    def check(self) -> None:
        """Raise the loss, if there is one; asks nobody.

        Raises:
            RunLeaseLostError: RUN_LEASE_LOST; stop working, write nothing.
        """
        self._lease.check()

    def __repr__(self) -> str:
        """The run, the token and where it stands."""
        state = "lost" if self.lost else "held" if self.held else "not held"
        return f"<{type(self).__name__} {self.run_id!r} token {self.fencing_token} {state}>"


class RunLeaseHandle(_Lease):
    """A lease on one run, made by `RunLedger.acquire` or `adopt`; thread-safe.

    As a context manager it completes the run on success, fails it on an exception and releases it
    on an interruption (`KeyboardInterrupt`, `SystemExit`, `GeneratorExit`). What the body ended
    itself stays so. After a loss nothing is written, and the loss is raised.

    Every command raises the loss once there is one, without asking the store, and whatever a
    store or transport raises. Outcome unknown: send the same command again; it converges. A forked
    child's copy is not held, ends nothing, and its commands are a RuntimeError.
    """

    def __init__(
        self,
        lease: LocalLease,
        executor: CommandExecutor,
        lost_event: threading.Event,
        note: Callable[[LocalLease, RunLeaseHandle], None],
    ) -> None:
        self._lease = lease
        self._executor = executor
        self._note = note
        # Reentrant, so that a signal handler may release what its own thread is just renewing.
        self._lock = threading.RLock()
        self.lost_event = lost_event

    def renew(self) -> RunRecord:
        """Start the lease's length anew. The heartbeat does this in the background.

        Raises:
            RunLeaseLostError: RUN_LEASE_LOST; stop working, write nothing.
        """
        return self._run(self._lease.renew)

    def record_checkpoint(self, ref: CheckpointRef) -> RunRecord:
        """Fence, before the snapshot is written: record where it goes, and renew.

        Raises:
            RunLeaseLostError: RUN_LEASE_LOST; write no snapshot, stop working.
        """
        return self._run(lambda: self._lease.record_checkpoint(ref))

    def suspend(self, pending_approval_ids: Iterable[str] = ()) -> RunRecord:
        """Give the lease up until the approvals are decided and the run is resumed.

        Raises:
            RunLeaseLostError: RUN_LEASE_LOST; stop working, write nothing.
        """
        return self._run(lambda: self._lease.suspend(pending_approval_ids))

    def complete(
        self, outcome: Outcome | str | None = None, message: str | None = None
    ) -> RunRecord:
        """End the run as completed; `outcome` is a whole one or its code, by default `ok`.

        Raises:
            RunLeaseLostError: RUN_LEASE_LOST; the result was not recorded, do not report it.
        """
        return self._run(lambda: self._lease.complete(outcome, message))

    def fail(self, outcome: Outcome | str | None = None, message: str | None = None) -> RunRecord:
        """End the run as failed; `outcome` is a whole one or its code, by default `error`.

        Raises:
            RunLeaseLostError: RUN_LEASE_LOST; the run belongs to somebody else, write nothing.
        """
        return self._run(lambda: self._lease.fail(outcome, message))

    def cancel(
        self, message: str | None = None, *, outcome: Outcome | str | None = None
    ) -> RunRecord:
        """End the run as cancelled, by its own worker; the code is by default `cancelled`.

        Raises:
            RunLeaseLostError: RUN_LEASE_LOST; the run belongs to somebody else, write nothing.
        """
        return self._run(lambda: self._lease.cancel(message, outcome))

    def release(self) -> RunRecord:
        """Give the lease up unfinished: the run is queued for anybody.

        Raises:
            RunLeaseLostError: RUN_LEASE_LOST; there is nothing left to release.
        """
        return self._run(self._lease.release)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._lease.inherited:
            self._run(lambda: self._lease.leave(error))

    def _run(self, steps: Callable[[], Steps[T]]) -> T:
        self._lease.check_here()
        with self._lock:
            try:
                return run_steps(steps(), self._executor)
            finally:
                self._note(self._lease, self)


class AsyncRunLeaseHandle(_Lease):
    """`RunLeaseHandle` with awaitable commands; belongs to one event loop.

    A cancelled task releases the run, as an interruption does.
    """

    def __init__(
        self,
        lease: LocalLease,
        executor: AsyncCommandExecutor | CommandExecutor,
        lost_event: asyncio.Event,
        note: Callable[[LocalLease, AsyncRunLeaseHandle], None],
    ) -> None:
        self._lease = lease
        self._executor = executor
        self._note = note
        self._lock = asyncio.Lock()
        self.lost_event = lost_event

    async def renew(self) -> RunRecord:
        """As `RunLeaseHandle.renew`."""
        return await self._run(self._lease.renew)

    async def record_checkpoint(self, ref: CheckpointRef) -> RunRecord:
        """As `RunLeaseHandle.record_checkpoint`."""
        return await self._run(lambda: self._lease.record_checkpoint(ref))

    async def suspend(self, pending_approval_ids: Iterable[str] = ()) -> RunRecord:
        """As `RunLeaseHandle.suspend`."""
        return await self._run(lambda: self._lease.suspend(pending_approval_ids))

    async def complete(
        self, outcome: Outcome | str | None = None, message: str | None = None
    ) -> RunRecord:
        """As `RunLeaseHandle.complete`."""
        return await self._run(lambda: self._lease.complete(outcome, message))

    async def fail(
        self, outcome: Outcome | str | None = None, message: str | None = None
    ) -> RunRecord:
        """As `RunLeaseHandle.fail`."""
        return await self._run(lambda: self._lease.fail(outcome, message))

    async def cancel(
        self, message: str | None = None, *, outcome: Outcome | str | None = None
    ) -> RunRecord:
        """As `RunLeaseHandle.cancel`."""
        return await self._run(lambda: self._lease.cancel(message, outcome))

    async def release(self) -> RunRecord:
        """As `RunLeaseHandle.release`."""
        return await self._run(self._lease.release)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._lease.inherited:
            await self._run(lambda: self._lease.leave(error))

    async def _run(self, steps: Callable[[], Steps[T]]) -> T:
        self._lease.check_here()
        async with self._lock:
            try:
                return await run_steps_async(steps(), self._executor)
            finally:
                self._note(self._lease, self)
