"""The databases that service tests run on, and what a test does to one behind the service's back.

One class for each kind. A test asks for `database` or `new_database` and names no kind.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import os
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

from runlease_service.database.migrate import migrate
from tests.postgres_server import PostgresServer, Session, free_port, run_sql, sql


class OwnDatabase(Protocol):
    """A database of one test's own."""

    url: str

    def locked(self) -> AbstractContextManager[None]:
        """Let every command wait for a lock that a stranger holds; who only reads need not."""

    def away(self) -> None:
        """From now on the URL leads nowhere."""

    def spoil(self, run_id: str, column: str, value: str) -> None:
        """Write a value (an SQL expression) into a row, past every check."""


class SQLiteFile:
    """A file in the test's folder."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.url = f"sqlite:///{path}"

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self._path, isolation_level=None, timeout=5)
        try:
            yield connection
        finally:
            connection.close()

    def away(self) -> None:
        self.url = f"sqlite:///{self._path.parent}/no-such-folder/runs.db"

    @contextmanager
    def locked(self) -> Iterator[None]:
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("ROLLBACK")

    def spoil(self, run_id: str, column: str, value: str) -> None:
        with self._connection() as connection:
            connection.execute("PRAGMA ignore_check_constraints=ON")
            changed = connection.execute(
                f"UPDATE runs SET {column} = {value} WHERE run_id = ?",  # noqa: S608 (a test's own)
                (run_id,),
            )
            assert changed.rowcount == 1


class PostgresDatabase:
    """A database of its own on the one server, made from a migrated template."""

    def __init__(self, path: Path) -> None:
        del path
        server = postgres_server()
        name = f"runs_{os.getpid()}_{next(_NUMBERS)}"
        run_sql(server, f'CREATE DATABASE "{name}" TEMPLATE "{_template()}"')
        self.url = on_database(server, name)
        atexit.register(_drop, name)

    def away(self) -> None:
        self.url = f"postgresql://postgres@127.0.0.1:{free_port()}/runs"

    @contextmanager
    def locked(self) -> Iterator[None]:
        with ExitStack() as stack:
            held = stack.enter_context(Session(self.url))
            held.run("BEGIN")
            held.run("LOCK TABLE runs IN EXCLUSIVE MODE")
            yield
            held.run("ROLLBACK")

    def spoil(self, run_id: str, column: str, value: str) -> None:
        checks = run_sql(
            self.url,
            "SELECT conname FROM pg_constraint WHERE conrelid = 'runs'::regclass AND contype = 'c'",
        )
        dropped = [f'ALTER TABLE runs DROP CONSTRAINT "{row[0]}"' for row in checks]
        text = run_id.replace("'", "''")
        update = f"UPDATE runs SET {column} = {value} WHERE run_id = '{text}' RETURNING 1"  # noqa: S608
        assert run_sql(self.url, *dropped, update) == [(1,)]


_NUMBERS = itertools.count()


@cache
def postgres_server() -> str:
    """The URL of the server that tests share: the one that is named, or one of our own."""
    named = os.environ.get("RUNLEASE_TEST_DATABASE_URL")
    if named:
        return named
    server = PostgresServer(options=["max_connections=300"]).start()
    atexit.register(server.close)
    return server.url()


@cache
def _template() -> str:
    name = f"template_{os.getpid()}"
    run_sql(postgres_server(), f'CREATE DATABASE "{name}"')
    atexit.register(_drop, name)
    with ThreadPoolExecutor(1) as thread:
        thread.submit(migrate, on_database(postgres_server(), name)).result()
    return name


def on_database(url: str, name: str) -> str:
    """The same server's database of that name."""
    parts = urlsplit(url)
    return parts._replace(path=f"/{name}").geturl()


def _drop(name: str) -> None:
    """A named server is left as it was found; one of our own goes with its folder."""
    if named := os.environ.get("RUNLEASE_TEST_DATABASE_URL"):
        asyncio.run(sql(named, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'))


_SPOILT: Final = (
    ("labels", "'no json'"),
    ("labels", "'[1]'"),
    ("labels", "'{\"k\":1}'"),
    ("status", "'done'"),
    ("status", "'queued'"),
    ("version", "0"),
    ("fencing_token", "-1"),
    ("lease_owner", "' '"),
    ("lease_expires_at", "9000000000000000000"),
    ("checkpoint_key", "'k'"),
    ("outcome_code", "'ok'"),
    ("suspended_at", "1"),
    ("max_attempts", "0"),
    ("created_at", "-9000000000000000000"),
)
SPOILT: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "postgres": (
        *_SPOILT,
        ("labels", "repeat('[', 200000)"),
        ("attempt", "9223372036854775807"),
        ("updated_at", "9223372036854775807"),
    ),
    # A column there holds a value of any type.
    "sqlite": (
        *_SPOILT,
        ("labels", "x'ff'"),
        ("labels", "CAST(x'ff' AS TEXT)"),
        ("labels", "printf('%.*c', 200000, '[')"),
        ("version", "'x'"),
        ("attempt", "1.5"),
        ("lease_expires_at", "'soon'"),
        ("updated_at", "x'00'"),
    ),
}
"""What a stranger can write into a column of each kind: column, and the value in SQL."""


KINDS: Final[dict[str, Callable[[Path], OwnDatabase]]] = {
    "postgres": PostgresDatabase,
    "sqlite": SQLiteFile,
}
"""Each kind, and how a new, empty database of it is made; the path is the test's own."""
