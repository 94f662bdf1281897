"""The ledger for asyncio: `RunLedger` with awaitable methods.

It belongs to one event loop at a time. Its heartbeat is a task on that loop: a coroutine that
blocks the loop for longer than a lease also stops the renewals, and `held` says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from inspect import isawaitable
from types import TracebackType
from typing import Self

from runlease_core.clock import Clock
from runlease_core.commands import AnyCommand, Cancel, Delete, ExpectedVersion, Revoke
from runlease_core.errors import RunLeaseLostError
from runlease_core.execution import (
    AsyncCommandExecutor,
    AsyncStoreExecutor,
    CommandExecutor,
)
from runlease_core.fields import LEASE_TTL_MS_DEFAULT
from runlease_core.handle import AsyncRunLeaseHandle
from runlease_core.heartbeat import TaskHeartbeat
from runlease_core.holder import (
    LeaseHolder,
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

    Arguments and errors are those of `RunLedger`.
    """

    def __init__(
        self,
        store: AsyncRunStore | RunStore | AsyncCommandExecutor | CommandExecutor,
        *,
        owner: str | None = None,
        lease_ttl_ms: int = LEASE_TTL_MS_DEFAULT,
        heartbeat: bool = True,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        super().__init__(owner, lease_ttl_ms, heartbeat=heartbeat, clock=Clock(now))
        self._executor: AsyncCommandExecutor | CommandExecutor = (
            store
            if isinstance(store, AsyncCommandExecutor | CommandExecutor)
            else AsyncStoreExecutor(store, self._clock)
        )

    def _begin(self) -> None:
        super()._begin()
        self._heartbeat = TaskHeartbeat(self._clock)

    async def get(self, run_id: str) -> RunRecord | None:
        """As `RunLedger.get`."""
        answer = self._executor.get(run_id)
        return await answer if isawaitable(answer) else answer

    async def acquire(
        self,
        run_id: str,
        *,
        labels: Mapping[str, str] | None = None,
        max_attempts: int | None = None,
        expected_version: ExpectedVersion = None,
    ) -> AsyncRunLeaseHandle:
        """As `RunLedger.acquire`: `async with await ledger.acquire(run_id) as run:`."""
        command = self._acquire(run_id, labels, max_attempts, expected_version)
        sent_at_seconds = self._clock.seconds()
        record = standing(await self._execute(command))
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

    async def _execute(self, command: AnyCommand) -> RunRecord | None:
        answer = self._executor.execute(command)
        return await answer if isawaitable(answer) else answer

    def _handle(
        self, run_id: str, owner: str, fencing_token: int
    ) -> tuple[AsyncRunLeaseHandle, LocalLease]:
        lost_event = asyncio.Event()
        lease = self._lease(run_id, owner, fencing_token, lost_event)
        return AsyncRunLeaseHandle(lease, self._executor, lost_event, self._note), lease

    def _note(self, lease: LocalLease, handle: AsyncRunLeaseHandle) -> None:
        self._here()
        if self._settle(lease, handle) and self._beats:
            self._heartbeat.add(lease, handle.beat)
        else:
            self._heartbeat.discard(lease)
