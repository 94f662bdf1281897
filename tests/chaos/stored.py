"""What lies in a database: a SQLite file, read from a copy, with nothing of the service running on
it, or PostgreSQL.

The file's copy is made of it and its write-ahead log as a crash left them, so that looking changes
nothing that the next start will find.
"""

from __future__ import annotations

import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from runlease_core.errors import RunIntegrityError
from runlease_core.record import RunRecord
from runlease_service.database.schema import COLUMNS, label_rows, state_from_row
from tests.chaos.checker import Snapshot
from tests.postgres_server import run_sql


def read_file(path: Path) -> tuple[Snapshot, list[str]]:
    """The records and tombstones in the file, and whatever is wrong with it."""
    at = time.monotonic()
    copy = path.with_name("copy.db")
    for suffix in ("", "-wal"):
        source, target = Path(f"{path}{suffix}"), Path(f"{copy}{suffix}")
        target.unlink(missing_ok=True)
        if source.exists():
            shutil.copyfile(source, target)
    Path(f"{copy}-shm").unlink(missing_ok=True)
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute("PRAGMA query_only=ON")
        found = [
            f"integrity_check: {line}"
            for (line,) in connection.execute("PRAGMA integrity_check")
            if line != "ok"
        ]
        rows = connection.execute(f"SELECT {', '.join(COLUMNS)} FROM runs").fetchall()  # noqa: S608 (our columns)
        labels = set(connection.execute("SELECT run_id, label, created_at FROM run_labels"))
    return _read(at, rows, labels, found)


def read_postgres(url: str) -> tuple[Snapshot, list[str]]:
    """The same for PostgreSQL, when nobody writes any more."""
    at = time.monotonic()
    rows = run_sql(url, f"SELECT {', '.join(COLUMNS)} FROM runs")  # noqa: S608 (our columns)
    labels = run_sql(url, "SELECT run_id, label, created_at FROM run_labels")
    return _read(at, [tuple(row) for row in rows], {tuple(row) for row in labels}, [])


def _read(
    at: float, rows: list[Any], labels: set[tuple[str, str, int]], found: list[str]
) -> tuple[Snapshot, list[str]]:
    records: dict[str, dict[str, Any]] = {}
    tombstones: dict[str, int] = {}
    expected: set[tuple[str, str, int]] = set()
    for row in rows:
        try:
            state = state_from_row(row)
        except RunIntegrityError as error:
            found.append(f"a row that is no record: {row}: {error.detail}")
            continue
        if isinstance(state, RunRecord):
            records[state.run_id] = state.to_json()
            expected.update(label_rows(state))
        else:
            tombstones[state.run_id] = state.fencing_token
    found += [f"a label row without its record: {row}" for row in sorted(labels - expected)]
    found += [f"a record without its label row: {row}" for row in sorted(expected - labels)]
    return Snapshot(at, records, tombstones), found
