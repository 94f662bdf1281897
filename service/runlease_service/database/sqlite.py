"""SQLite: one file, one writer thread, as many processes on the host as share the file.

Promises kept here: an answered write is on the disk (WAL, `synchronous=FULL`, and nothing answers
before COMMIT returns); what is judged cannot change under the judge (`BEGIN IMMEDIATE` takes the
write lock before the read, so no other process is between); the clock is read after the lock is
held. Another process that holds the lock is waited for, boundedly; then the database counts as
unavailable and every command is safe to send again.

Not promised: anything on a network file system. Its locks cannot be relied on, so one is refused
where the kernel tells.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import structlog
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.pool import StaticPool

from runlease_core.decide import State
from runlease_core.errors import RunIntegrityError
from runlease_core.instant import ms_from_instant
from runlease_core.record import RunRecord
from runlease_service.database import sqlite_statements as statements
from runlease_service.database.base import (
    Change,
    Corrupt,
    DatabaseSetupError,
    DatabaseUnavailableError,
    Judge,
    Page,
    RunQuery,
)
from runlease_service.database.clock import Clock, DatabaseClock, GivenClock, HostClock
from runlease_service.database.file_systems import refuse_network_file_system
from runlease_service.database.queries import page_of, select_page, select_run
from runlease_service.database.rows import Rows
from runlease_service.database.schema import (
    SCHEMA_REVISION,
    record_from_row,
    state_from_row,
)

T = TypeVar("T")
log = structlog.get_logger()

_PRAGMAS: Final = (
    "PRAGMA synchronous=FULL",
    "PRAGMA cache_size=-65536",
    "PRAGMA wal_autocheckpoint=0",  # see _checkpoint
)
CHECKPOINT_WRITES: Final = 4000
"""After how many written rows the write-ahead log is copied back into the file."""


class SQLiteDatabase:
    """One SQLite file. One lane: a file has one writer.

    Args:
        path: The file. A link is followed: all who share the file share the clock beside it.
        clock: For tests; decides in place of the host's.
        wait_ms_max: How long to wait for another process's lock, in milliseconds.
        read_connections_max: How many readers at most.
    """

    def __init__(
        self,
        path: Path,
        *,
        clock: Clock | None = None,
        wait_ms_max: int = 5000,
        read_connections_max: int = 4,
    ) -> None:
        self._path = path.resolve()
        self._given_clock = clock
        self._wait_s_max = wait_ms_max / 1000
        self._writing = ThreadPoolExecutor(1, "runlease-write")
        self._reading = ThreadPoolExecutor(read_connections_max, "runlease-read")
        self._read_connections_max = read_connections_max
        self._written = 0
        self._copying: Future[None] | None = None
        self._connection: sqlite3.Connection | None = None
        self._clock: DatabaseClock | None = None
        self._engine: Engine | None = None

    # The seam.

    @property
    def lanes(self) -> int:
        return 1

    async def open(self) -> None:
        await self._on(self._writing, self._open)

    async def apply(self, run_ids: Sequence[str], judge: Judge, lane: int) -> Collection[str]:
        del lane  # there is one
        await self._on(self._writing, lambda: self._apply(run_ids, judge))
        return ()

    async def get(self, run_id: str) -> tuple[RunRecord | None, datetime]:
        return await self._on(self._reading, lambda: self._get(run_id))

    async def page(self, query: RunQuery) -> Page:
        return await self._on(self._reading, lambda: self._page(query))

    async def ping(self) -> None:
        await self._on(self._writing, lambda: self._apply((), lambda _states, _now: {}))

    async def close(self) -> None:
        await self._on(self._writing, self._close)
        self._writing.shutdown()
        self._reading.shutdown()

    @staticmethod
    async def _on(threads: ThreadPoolExecutor, call: Callable[[], T]) -> T:
        try:
            called = asyncio.get_running_loop().run_in_executor(threads, call)
        except RuntimeError:
            raise DatabaseUnavailableError("the database is closed") from None
        return await called

    # The writer thread.

    def _open(self) -> None:
        refuse_network_file_system(self._path)
        try:
            self._set_up()
        except DatabaseSetupError:
            self._close()
            raise
        except (OSError, sqlite3.Error, DBAPIError) as error:
            self._close()
            reason = error.orig if isinstance(error, DBAPIError) else error
            raise DatabaseSetupError(f"{self._path} cannot be opened: {reason}") from error
        self._engine = self._reading_engine()

    def _set_up(self) -> None:
        given = self._given_clock
        self._clock = clock = GivenClock(given) if given else HostClock(Path(f"{self._path}-clock"))
        self._connection = connection = self._connect()
        if connection.execute("PRAGMA journal_mode=WAL").fetchone() != ("wal",):
            raise DatabaseSetupError(f"{self._path}: the file system offers no shared memory")
        self._make_schema(connection)
        self._settle_leases(connection, clock)
        clock.settled()

    def _connect(self) -> sqlite3.Connection:
        # No implicit transactions: BEGIN IMMEDIATE and COMMIT stand in the code.
        connection = sqlite3.connect(
            self._path, timeout=self._wait_s_max, isolation_level=None, check_same_thread=False
        )
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        connection.text_factory = _text
        return connection

    def _reading_engine(self) -> Engine:
        # The URL object keeps every character of the path; a query would be taken for parameters.
        engine = create_engine(
            URL.create("sqlite", database=str(self._path)),
            pool_size=self._read_connections_max,
            max_overflow=0,
            connect_args={"timeout": self._wait_s_max, "check_same_thread": False},
        )

        @event.listens_for(engine, "connect")
        def only_read(connection: sqlite3.Connection, _: object) -> None:
            connection.execute("PRAGMA query_only=ON")
            connection.text_factory = _text

        return engine

    def _make_schema(self, connection: sqlite3.Connection) -> None:
        found = _revision(connection)
        if found == SCHEMA_REVISION:
            return
        from runlease_service.database import migrations  # noqa: PLC0415 (it takes its time)

        if found is not None and found not in migrations.revisions():
            raise DatabaseSetupError(
                f"{self._path} was made by a newer runlease (schema {found}, this one knows "
                f"{SCHEMA_REVISION}); run that one"
            )
        # Alembic wants a connection of SQLAlchemy's; it is given this one.
        engine = create_engine("sqlite://", creator=lambda: connection, poolclass=StaticPool)

        @event.listens_for(engine, "begin")
        def take_the_write_lock(begun: Connection) -> None:
            begun.exec_driver_sql("BEGIN IMMEDIATE")

        with engine.begin() as migrating:
            migrations.upgrade(migrating)

    @staticmethod
    def _settle_leases(connection: sqlite3.Connection, clock: DatabaseClock) -> None:
        """What a clock that was moved, or wrong before a reboot, left behind: see `clock`."""
        if not clock.alone:
            return
        with _transaction(connection):
            now_ms = ms_from_instant(clock.now())
            if clock.moved_ms:
                connection.execute(statements.MOVE_LEASES, {"moved": clock.moved_ms, "now": now_ms})
            connection.execute(statements.CUT_LEASES, {"now": now_ms})

    def _apply(self, run_ids: Sequence[str], judge: Judge) -> None:
        connection, clock = self._connection, self._clock
        if connection is None or clock is None:
            raise DatabaseUnavailableError("the database is not open")
        with _unavailable(), _transaction(connection):
            changes = judge(self._load(connection, run_ids), clock.now())
            if changes:
                self._save(connection, changes, ms_from_instant(clock.now()))
        self._checkpoint(connection, len(changes))

    def _checkpoint(self, connection: sqlite3.Connection, written: int) -> None:
        """Copy the write-ahead log back beside the writing, not in its way.

        SQLite would do it inside whichever COMMIT passes a bound, which makes one batch in thirty
        wait for it. So a reading thread does, while batches go on; the writer then copies the few
        pages that came meanwhile, after which the log starts again from its beginning."""
        self._written += written
        if self._copying is None:
            if self._written >= CHECKPOINT_WRITES:
                self._written = 0
                self._copying = self._reading.submit(self._copy_log)
        elif self._copying.done():
            self._copying = None
            _copy_log(connection)

    def _copy_log(self) -> None:
        with closing(self._connect()) as connection:
            _copy_log(connection)

    @staticmethod
    def _load(connection: sqlite3.Connection, run_ids: Sequence[str]) -> dict[str, State | Corrupt]:
        states: dict[str, State | Corrupt] = dict.fromkeys(run_ids)
        for row in connection.execute(statements.SELECT_RUNS, (json.dumps(run_ids),)):
            try:
                states[row[0]] = state_from_row(row)
            except RunIntegrityError as error:
                states[row[0]] = Corrupt(error.detail)
        return states

    @staticmethod
    def _save(connection: sqlite3.Connection, changes: Mapping[str, Change], now_ms: int) -> None:
        rows = Rows.of(changes, now_ms)
        whole = [*rows.updates, *rows.relabelled]
        for statement, values in (
            (statements.INSERT_RUN, rows.inserts),
            (statements.UPDATE_RUN, [(*row[1:], *guard) for row, guard in whole]),
            (statements.FENCE_RUN, [(*row, *guard) for row, guard in rows.fences]),
            (statements.RENEW_RUN, [(*row, *guard) for row, guard in rows.renewals]),
        ):
            if values and connection.executemany(statement, values).rowcount != len(values):
                raise AssertionError("a row changed under the write lock")
        if rows.relabelled:
            connection.executemany(
                statements.DELETE_LABELS, [(row[0],) for row, _ in rows.relabelled]
            )
        if rows.labels:
            connection.executemany(statements.INSERT_LABEL, rows.labels)

    def _close(self) -> None:
        if self._engine is not None:
            self._engine.dispose()
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._clock is not None:
            self._clock.close()
            self._clock = None

    # The reading threads.

    def _get(self, run_id: str) -> tuple[RunRecord | None, datetime]:
        with self._read() as (connection, now):
            row = connection.execute(select_run(), {"run_id": run_id}).one_or_none()
        return (None if row is None else record_from_row(row)), now

    def _page(self, query: RunQuery) -> Page:
        with self._read() as (connection, now):
            rows = connection.execute(select_page(query, ms_from_instant(now))).all()
        return page_of(rows, query.limit)

    @contextmanager
    def _read(self) -> Iterator[tuple[Any, datetime]]:
        if self._engine is None or self._clock is None:
            raise DatabaseUnavailableError("the database is not open")
        with _unavailable(), self._engine.connect() as connection:
            yield connection, self._clock.now()


def path_of(url: str) -> Path:
    """The file that a `sqlite:///` URL names."""
    path = url.removeprefix("sqlite:///")
    if path == url or path in ("", ":memory:") or "?" in path:
        raise DatabaseSetupError("name a file: sqlite:///runlease.db, or sqlite:////absolute/path")
    return Path(path).absolute()


def _revision(connection: sqlite3.Connection) -> str | None:
    tables = "SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'"
    if connection.execute(tables).fetchone() is None:
        return None
    found: tuple[str] | None = connection.execute(
        "SELECT version_num FROM alembic_version"
    ).fetchone()
    return found[0] if found else None


def _copy_log(connection: sqlite3.Connection) -> None:
    try:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    except sqlite3.Error as error:
        # The log keeps what was not copied, and the next one tries again.
        log.warning("log_not_copied", error=str(error))


def _text(stored: bytes) -> str:
    """Bytes that are no UTF-8 make their own row malformed, and not the whole batch unreadable."""
    return stored.decode("utf-8", "surrogateescape")


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A failed COMMIT may have ended the transaction itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def _unavailable() -> Iterator[None]:
    """Locked, full, gone or unreadable: the caller may try again; a constraint is our fault."""
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.ProgrammingError):
        raise
    except (sqlite3.Error, DBAPIError, PoolTimeoutError) as error:
        log.warning("database_unavailable", error=str(error))
        raise DatabaseUnavailableError("the database cannot answer now") from error
