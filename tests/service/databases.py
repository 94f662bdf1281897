"""The databases that service tests run on, and what a test does to one behind the service's back.

One class for each kind. A test asks for `database` or `new_database` and names no kind.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, Protocol


class OwnDatabase(Protocol):
    """A database of one test's own."""

    url: str

    def locked(self) -> AbstractContextManager[None]:
        """Let every command wait for a lock that a stranger holds."""

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


KINDS: Final[dict[str, Callable[[Path], OwnDatabase]]] = {"sqlite": SQLiteFile}
"""Each kind, and how a new, empty database of it is made; the path is the test's own."""
