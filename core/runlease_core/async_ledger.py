"""The ledger for asyncio: `RunLedger` with awaitable methods.

It belongs to one event loop at a time. Its heartbeat is a thread where there is a synchronous way
to the store, so that a coroutine that blocks the loop stops no renewal; else it is a task on the
loop, and `held` says what a blocked loop did.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from inspect import isawaitable, iscoroutinefunction
from types import TracebackType
from typing import Any, Self, cast

from runlease_core.clock import Clock
from runlease_core.commands import AnyCommand, Cancel, Delete, ExpectedVersion, Revoke
from runlease_core.errors import RunLeaseHeldError, RunLeaseLostError
from runlease_core.execution import (
    AsyncCommandExecutor,
    AsyncStoreExecutor,
    CommandExecutor,
    LeaseRenewer,
    StoreExecutor,
    renewer_over,
)
from runlease_core.fields import LEASE_TTL_MS_DEFAULT
from runlease_core.handle import AsyncRunLeaseHandle
from runlease_core.heartbeat import TaskHeartbeat, ThreadHeartbeat
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
from runlease_core.store import AsyncRunStore, RunStore


class AsyncRunLedger(LeaseHolder[AsyncRunLeaseHandle]):
    """`RunLedger` for asyncio, over an `AsyncRunStore` or a synchronous one that answers quickly.

    Arguments and errors are those of `RunLedger`. `on_lost` may be called in the heartbeat's
    thread.

    Args:
        renewer: A synchronous way to renew, for the heartbeat's thread.
    """

    def __init__(
        self,
        store: AsyncRunStore | RunStore | AsyncCommandExecutor | CommandExecutor,
        *,
        owner: str | None = None,
        lease_ttl_ms: int = LEASE_TTL_MS_DEFAULT,
        heartbeat: bool = True,
        renewer: LeaseRenewer | None = None,
        on_lost: Callable[[AsyncRunLeaseHandle], object] | None = None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        clock = Clock(now)
        self._executor: Any
        if isinstance(store, AsyncCommandExecutor | CommandExecutor):
            self._executor = store
        elif iscoroutinefunction(getattr(store, "get", None)):
            self._executor = AsyncStoreExecutor(store, clock)
        else:
            self._executor = StoreExecutor(cast("RunStore", store), clock)
        if renewer is None and not iscoroutinefunction(self._executor.execute):
            renewer = renewer_over(self._executor)
        self._renewer = renewer
        super().__init__(owner, lease_ttl_ms, heartbeat=heartbeat, clock=clock, on_lost=on_lost)

    def _begin(self) -> None:
        super()._begin()
        self._heartbeat: ThreadHeartbeat | TaskHeartbeat = (
            TaskHeartbeat(self._clock, self._executor)
            if self._renewer is None
            else ThreadHeartbeat(self._clock, self._renewer)
        )

    async def get(self, run_id: str) -> RunRecord | None:
        """As `RunLedger.get`."""
        answer = self._executor.get(run_id)
        record: RunRecord | None = await answer if isawaitable(answer) else answer
        return record

    async def acquire(
        self,
        run_id: str,
        *,
        labels: Mapping[str, str] | None = None,
        max_attempts: int | None = None,
        expected_version: ExpectedVersion = None,
        wait: float = 0.0,
    ) -> AsyncRunLeaseHandle:
        """As `RunLedger.acquire`: `async with await ledger.acquire(run_id) as run:`."""
        command = self._acquire(run_id, labels, max_attempts, expected_version)
        waiting = WaitForLease(wait)
        while True:
            sent_at_seconds = self._clock.seconds()
            try:
                record = standing(await self._execute(command, self._wait_seconds))
                break
            except RunLeaseHeldError as error:
                await asyncio.sleep(waiting.seconds(error))
        handle, lease = self._handle(run_id, command.owner, record.fencing_token)
        lease.keep(record, sent_at_seconds)
        self._note(lease, handle)
        if self._closed:
            await handle.release()
            self._check_not_closed()
        return handle

    def adopt(self, run_id: str, fencing_token: int) -> AsyncRunLeaseHandle:
        """As `RunLedger.adopt`; asks nobody, so there is nothing to await."""
        self._check_not_closed()
        return self._handle(run_id, self.owner, fencing_token)[0]

    async def enqueue(
        self,
        run_id: str,
        *,
        labels: Mapping[str, str] | None = None,
        max_attempts: int | None = None,
        expected_version: ExpectedVersion = None,
    ) -> RunRecord:
        """As `RunLedger.enqueue`."""
        return standing(
            await self._execute(enqueue_command(run_id, labels, max_attempts, expected_version))
        )

    async def cancel(
        self,
        run_id: str,
        message: str | None = None,
        *,
        expected_version: ExpectedVersion = None,
    ) -> RunRecord:
        """As `RunLedger.cancel`."""
        return standing(
            await self._execute(
                Cancel(run_id=run_id, message=message, expected_version=expected_version)
            )
        )

    async def request_resume(
        self,
        run_id: str,
        *,
        pending_approval_ids: Iterable[str] | None = None,
        expected_version: ExpectedVersion = None,
    ) -> RunRecord:
        """As `RunLedger.request_resume`."""
        return standing(
            await self._execute(resume_command(run_id, pending_approval_ids, expected_version))
        )

    async def revoke(
        self,
        run_id: str,
        message: str | None = None,
        *,
        expected_version: ExpectedVersion = None,
    ) -> RunRecord:
        """As `RunLedger.revoke`."""
        return standing(
            await self._execute(
                Revoke(run_id=run_id, message=message, expected_version=expected_version)
            )
        )

    async def delete(self, run_id: str, *, force: bool = False) -> None:
        """As `RunLedger.delete`."""
        await self._execute(Delete(run_id=run_id, force=force))

    async def close(self) -> None:
        """As `RunLedger.close`."""
        await self._close(None)

    async def _close(self, error: BaseException | None) -> None:
        handles = self._take_open()
        if isinstance(self._heartbeat, ThreadHeartbeat):
            await asyncio.to_thread(self._heartbeat.stop)
        else:
            await self._heartbeat.stop()
        failures: list[Exception] = []
        for handle in handles:
            try:
                await handle.release()
            except RunLeaseLostError:
                continue  # Somebody else has it: there is nothing to release.
            except Exception as failure:  # noqa: BLE001 (the others are released all the same)
                failures.append(failure)
        raise_failures(failures, error)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._close(error)

    async def _execute(
        self, command: AnyCommand, wait_seconds: float | None = None
    ) -> RunRecord | None:
        answer = self._executor.execute(command, wait_seconds=wait_seconds)
        record: RunRecord | None = await answer if isawaitable(answer) else answer
        return record

    def _handle(
        self, run_id: str, owner: str, fencing_token: int
    ) -> tuple[AsyncRunLeaseHandle, LocalLease]:
        lost_event = asyncio.Event()
        loss = Loss(_setter(lost_event), self._on_lost)
        lease = self._lease(run_id, owner, fencing_token, loss)
        loss.handle = AsyncRunLeaseHandle(lease, self._executor, lost_event, self._note)
        return loss.handle, lease

    def _note(self, lease: LocalLease, handle: AsyncRunLeaseHandle) -> None:
        self._here()
        if self._settle(lease, handle) and self._beats:
            self._heartbeat.add(lease)
        else:
            self._heartbeat.discard(lease)


def _setter(event: asyncio.Event) -> Callable[[], object]:
    """Sets the event from any thread: an `asyncio.Event` belongs to its loop."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return event.set

    thread = threading.get_ident()

    def set_in_loop() -> None:
        if threading.get_ident() == thread:
            event.set()
            return
        with suppress(RuntimeError):  # the loop is closed, and nobody waits there
            loop.call_soon_threadsafe(event.set)

    return set_in_loop
