"""A database in the worker's own process: the ledger's commands without a service between.

The same executor and the same database as the service's, on an event loop in a thread of its own,
for notebooks and single machines. Several processes may share the file, and a service as well.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar

from runlease_core.commands import AnyCommand, Renew
from runlease_core.decide import Converged, Refused, Write
from runlease_core.errors import Code, RunStoreError, error_for
from runlease_core.fields import check_run_id
from runlease_core.record import RunRecord
from runlease_service.database import connect
from runlease_service.database.base import Database
from runlease_service.database.clock import Clock
from runlease_service.executor import Answer, Executor

WAIT_MS_MAX: Final = 10_000
READ_CONNECTIONS_MAX: Final = 4

T = TypeVar("T")


def open_store(url: str, *, clock: Clock | None = None) -> DatabaseStore:
    """The database that the URL names, open.

    Raises:
        DatabaseSetupError: It cannot be used; the message says what to do.
    """
    database = connect(
        url,
        clock=clock,
        wait_ms_max=WAIT_MS_MAX // 2,
        read_connections_max=READ_CONNECTIONS_MAX,
        lanes=1,
        pooled=False,
        require_durable=False,
    )
    return DatabaseStore(database)


class DatabaseStore:
    """Carries out commands on an open database; thread-safe.

    Raises, besides refusals:
        DatabaseUnavailableError: The outcome is unknown; every command is safe to send again.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="runlease-database", daemon=True
        )
        self._thread.start()
        try:
            self._executor: Executor = self._run(self._open())
        except BaseException:
            self._end()
            raise

    def get(self, run_id: str) -> RunRecord | None:
        """The record, or None when there is none."""
        return self._run(self._database.get(check_run_id(run_id)))[0]

    def execute(
        self, command: AnyCommand, *, wait_seconds: float | None = None
    ) -> RunRecord | None:
        """The record after the command, None after a delete; a refusal is raised by its code."""
        del wait_seconds  # the executor's own bound holds
        return _record(self._run(self._executor.execute(command)))

    def renew_all(
        self, renewals: Sequence[Renew], *, wait_seconds: float
    ) -> Sequence[RunRecord | Exception]:
        """For each lease its record or why it was not renewed, in one transaction."""
        del wait_seconds
        return [_renewed(answer) for answer in self._run(self._executor.execute_all(renewals))]

    def in_threads(self) -> AsyncDatabaseStore:
        """The same for asyncio."""
        return AsyncDatabaseStore(self)

    def close(self) -> None:
        """Finish what is queued and close the database."""
        self._run(self._stop())
        self._end()

    async def _open(self) -> Executor:
        await self._database.open()
        executor = Executor(self._database, wait_ms_max=WAIT_MS_MAX)
        executor.start()
        return executor

    async def _stop(self) -> None:
        await self._executor.stop()
        await self._database.close()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, doing: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(doing, self._loop).result()


class AsyncDatabaseStore:
    """`DatabaseStore` with awaitable methods, each of which waits in a thread."""

    def __init__(self, store: DatabaseStore) -> None:
        self._store = store

    async def get(self, run_id: str) -> RunRecord | None:
        """As `DatabaseStore.get`."""
        return await asyncio.to_thread(self._store.get, run_id)

    async def execute(
        self, command: AnyCommand, *, wait_seconds: float | None = None
    ) -> RunRecord | None:
        """As `DatabaseStore.execute`."""
        return await asyncio.to_thread(self._store.execute, command, wait_seconds=wait_seconds)


def _record(answer: Answer) -> RunRecord | None:
    match answer.decision:
        case Refused() as refused:
            raise _error(refused, answer)
        case Write(refusal=Refused() as refused):
            raise _error(refused, answer)
        case Write(next=RunRecord() as record) | Converged(record=RunRecord() as record):
            return record
        case _:
            return None


def _error(refused: Refused, answer: Answer) -> RunStoreError:
    error = error_for(refused.code, refused.detail, refused.record)
    if refused.code is Code.RUN_LEASE_HELD and refused.record and refused.record.lease:
        lasts = refused.record.lease.expires_at - answer.now
        error.retry_after_seconds = lasts.total_seconds()
    return error


def _renewed(answer: Answer | Exception) -> RunRecord | Exception:
    if isinstance(answer, Exception):
        return answer
    try:
        record = _record(answer)
    except RunStoreError as error:
        return error
    assert record is not None, "a renewal leaves a record"
    return record
