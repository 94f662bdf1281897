"""Migrations: made once however many try, whole or not at all; the same tables as the code's."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import httpx
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, create_engine, inspect
from sqlalchemy.ext.asyncio import create_async_engine

from runlease_service.database import migrations
from runlease_service.database.migrate import ADVISORY_LOCK, migrate
from runlease_service.database.schema import (
    FENCE_COLUMNS,
    SCHEMA_REVISION,
    metadata,
    run_labels,
    runs,
)
from tests.chaos.server import wait_until
from tests.postgres_server import PostgresServer, Session, run_sql, sql
from tests.service.api import record_of, refused
from tests.service.databases import on_database
from tests.service.in_process import is_ready, service_at, until

START_S_MAX: Final = 30.0
COMMAND: Final = (sys.executable, "-m", "runlease_service.cli")
AT_ONCE: Final = 4
OPTIONS: Final = ("max_connections=200",)
_NUMBERS: Final = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer(options=OPTIONS) as one:
        yield one


@pytest.fixture
def empty(server: PostgresServer) -> str:
    """The URL of a database without a schema."""
    name = f"migrated_{next(_NUMBERS)}"
    run_sql(server.url(), f'CREATE DATABASE "{name}"')
    return on_database(server.url(), name)


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("RUNLEASE_")}


def run_migrate(url: str, *, s_max: float = START_S_MAX) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "migrate", "--database", url],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=s_max,
    )


class Served:
    """`runlease serve` that need not be ready."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self._lines: list[str] = []
        deadline = threading.Timer(START_S_MAX, process.kill)
        deadline.start()
        try:
            for line in process.stdout:
                self._lines.append(line)
                if "listening" in line and (found := re.search(r"http://[0-9.:]+", line)):
                    self.url = found[0]
                    return
        finally:
            deadline.cancel()
        raise AssertionError("".join(self._lines))

    def ready(self) -> int:
        return httpx.get(f"{self.url}/readyz", timeout=10, trust_env=False).status_code

    def end(self) -> list[dict[str, Any]]:
        """What it logged."""
        self.process.send_signal(signal.SIGTERM)
        output, _ = self.process.communicate(timeout=START_S_MAX)
        assert self.process.returncode == 0
        return [json.loads(line) for line in [*self._lines, *output.splitlines()]]


@contextmanager
def serving(url: str) -> Iterator[Served]:
    with subprocess.Popen(
        [*COMMAND, "serve", "--port", "0", "--database", url, "--log-format", "json"],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield Served(process)
        finally:
            process.kill()


# The tables.


async def on_postgres(url: str, look: Any) -> Any:  # noqa: ANN401 (whatever is looked for)
    engine = create_async_engine(
        url.replace("postgresql://", "postgresql+asyncpg://").partition("?")[0]
    )
    try:
        async with engine.connect() as connection:
            return await connection.run_sync(look)
    finally:
        await engine.dispose()


def differences(connection: Connection) -> list[Any]:
    context = MigrationContext.configure(connection, opts={"compare_server_default": True})
    found: list[Any] = compare_metadata(context, metadata)
    return found


def make_fresh(connection: Connection) -> None:
    metadata.create_all(connection)
    connection.commit()


async def test_migrated_tables_are_those_of_the_code(server: PostgresServer, empty: str) -> None:
    """Also what Alembic does not compare: checks, conditions of indexes, collations, options."""
    run_sql(server.url(), "CREATE DATABASE fresh")
    fresh = on_database(server.url(), "fresh")
    await on_postgres(fresh, make_fresh)
    assert run_migrate(empty).returncode == 0

    assert await on_postgres(empty, differences) == []
    assert await described(empty) == await described(fresh)
    assert len((await described(empty))["checks"]) >= 12


async def described(url: str) -> dict[str, list[Any]]:
    queries = {
        "checks": "SELECT conrelid::regclass::text, conname, contype, pg_get_constraintdef(oid)"
        " FROM pg_constraint WHERE conrelid = ANY('{runs,run_labels}'::regclass[]) ORDER BY 1, 2",
        "indexes": "SELECT tablename, indexname, indexdef FROM pg_indexes"
        " WHERE tablename IN ('runs', 'run_labels') ORDER BY 1, 2",
        "columns": "SELECT table_name, ordinal_position, column_name, data_type, is_nullable,"
        " collation_name, column_default FROM information_schema.columns"
        " WHERE table_name IN ('runs', 'run_labels') ORDER BY 1, 2",
        "options": "SELECT relname, reloptions FROM pg_class"
        " WHERE relname IN ('runs', 'run_labels') ORDER BY 1",
    }
    return {name: [tuple(row) for row in await sql(url, query)] for name, query in queries.items()}


def test_the_migrated_file_is_that_of_the_code() -> None:
    made: list[dict[str, str]] = []
    for how in (migrations.upgrade, make_fresh):
        engine = create_engine("sqlite://")
        with engine.connect() as connection:
            how(connection)
            if how is migrations.upgrade:
                assert differences(connection) == []
            rows = connection.exec_driver_sql(
                "SELECT name, sql FROM sqlite_master"
                " WHERE sql IS NOT NULL AND tbl_name IN ('runs', 'run_labels')"
            )
            made.append({name: " ".join(text.split()) for name, text in rows})
            assert inspect(connection).get_check_constraints("runs")
        engine.dispose()
    migrated, fresh = made
    assert migrated.keys() == fresh.keys()
    for name, text in fresh.items():
        assert as_parts(migrated[name]) == as_parts(text), name


def as_parts(text: str) -> list[str]:
    """A CREATE's parts in any order; Alembic writes a table's constraints in its own."""
    return sorted(part.strip(" ()") for part in re.split(r", (?=[A-Za-z_]+ )", text))


def test_no_index_holds_a_column_that_a_renewal_changes() -> None:
    for table in (runs, run_labels):
        for index in table.indexes:
            assert not {column.name for column in index.columns} & set(FENCE_COLUMNS)


# Races.


def test_four_migrations_and_four_replicas_start_at_once_on_an_empty_database(empty: str) -> None:
    start = time.monotonic()
    with ExitStack() as stack, ThreadPoolExecutor(2 * AT_ONCE) as threads:
        migrating = [threads.submit(run_migrate, empty) for _ in range(AT_ONCE)]
        starting = [threads.submit(stack.enter_context, serving(empty)) for _ in range(AT_ONCE)]
        migrated = [one.result() for one in migrating]
        replicas = [one.result() for one in starting]

        assert [one.returncode for one in migrated] == [0] * AT_ONCE, migrated
        lines = sorted(one.stdout for one in migrated)
        went = f"the schema went from nothing to {SCHEMA_REVISION}\n"
        assert lines.count(went) == 1, lines
        assert lines.count(f"the schema is at {SCHEMA_REVISION} already\n") == AT_ONCE - 1
        wait_until(lambda: all(one.ready() == 200 for one in replicas), "ready", s_max=START_S_MAX)
        print(f"all ready {time.monotonic() - start:.1f} s after the start of eight processes")
        for replica in replicas:
            replica.end()


def test_a_migration_that_is_killed_half_way_leaves_nothing(empty: str) -> None:
    with Session(empty) as held:
        # Half way: its first tables are made, and the next statement waits for a stranger's.
        held.run("BEGIN")
        held.run("CREATE TABLE run_labels (stranger int)")
        half_way = subprocess.Popen(
            [*COMMAND, "migrate", "--database", empty],
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        with half_way:
            waits = (
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                " AND datname = current_database()"
            )
            wait_until(lambda: run_sql(empty, waits) == [(1,)], "it waits", s_max=START_S_MAX)
            half_way.kill()
        held.run("ROLLBACK")

    none = "SELECT count(*) FROM pg_class WHERE relname IN ('runs', 'run_labels')"
    gone = (
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    wait_until(lambda: run_sql(empty, gone) == [(0,)], "its lock is gone", s_max=START_S_MAX)
    assert run_sql(empty, none) == [(0,)]
    again = run_migrate(empty)
    assert (again.returncode, again.stderr) == (0, "")
    assert again.stdout == f"the schema went from nothing to {SCHEMA_REVISION}\n"


def test_a_migration_that_fails_says_so_in_a_line_and_leaves_nothing(empty: str) -> None:
    run_sql(empty, "CREATE TABLE run_labels (stranger int)")

    failed = run_migrate(empty)

    assert failed.returncode == 1
    assert failed.stderr.count("\n") == 1
    assert 'relation "run_labels" already exists' in failed.stderr
    assert run_sql(empty, "SELECT to_regclass('runs')::text") == [(None,)]


def test_a_second_migration_waits_for_the_first(empty: str) -> None:
    with Session(empty) as first:
        first.run("BEGIN")
        first.run(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK})")
        with ThreadPoolExecutor(1) as thread:
            second = thread.submit(run_migrate, empty)
            waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            wait_until(lambda: run_sql(empty, waits) == [(1,)], "it waits", s_max=START_S_MAX)
            first.run("COMMIT")
            assert second.result().returncode == 0


async def test_no_lock_is_taken_at_head(empty: str) -> None:
    assert run_migrate(empty).returncode == 0
    with Session(empty) as held:
        held.run("BEGIN")
        held.run(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK})")
        # All but a plain read waits for this one.
        held.run("LOCK TABLE alembic_version IN EXCLUSIVE MODE")

        again = run_migrate(empty, s_max=10)
        assert again.stdout == f"the schema is at {SCHEMA_REVISION} already\n"
        async with service_at(empty) as api:
            assert await is_ready(api)
            record_of(await api.acquire("x"), 201)

        held.run("LOCK TABLE runs, run_labels IN ACCESS EXCLUSIVE MODE")
        assert run_migrate(empty, s_max=10).returncode == 0
        # It starts and lives; ready it is only while the table can be written.
        with serving(empty) as served:
            assert served.ready() == 503
            held.run("ROLLBACK")
            wait_until(lambda: served.ready() == 200, "ready", s_max=START_S_MAX)


# Other schemas.


@pytest.mark.parametrize(
    ("version", "advice"),
    [
        (None, "there is no schema yet; run: runlease migrate"),
        ("0000", "run: runlease migrate"),
        ("9999", "run a newer runlease"),
    ],
)
async def test_on_another_schema_it_is_not_ready_and_says_what_to_run(
    empty: str, version: str | None, advice: str
) -> None:
    if version is not None:
        await sql(
            empty,
            "CREATE TABLE alembic_version (version_num varchar(32) NOT NULL)",
            f"INSERT INTO alembic_version VALUES ('{version}')",  # noqa: S608 (a test's own)
        )
    with serving(empty) as served:
        assert served.ready() == 503
        async with httpx.AsyncClient(base_url=served.url, trust_env=False) as http:
            answer = await http.post("/v1/runs/x/acquire", json={"owner": "a"})
            refused(answer, 503, "UNAVAILABLE")
            assert answer.headers["retry-after"] == "1"
            assert (await http.get("/healthz")).status_code == 200
        said = [line for line in served.end() if advice in json.dumps(line)]

    assert len(said) == 1, said
    assert said[0]["level"] == "error"


async def test_a_replica_is_served_as_soon_as_the_schema_is_there(
    empty: str, quiet_log: None
) -> None:
    async with service_at(empty) as api:
        assert not await is_ready(api)

        assert (await asyncio.to_thread(run_migrate, empty)).returncode == 0

        await until(lambda: is_ready(api), "ready", s_max=2)
        record_of(await api.acquire("x"), 201)


def test_migrate_refuses_a_newer_schema_in_a_line(empty: str) -> None:
    migrate(empty)
    run_sql(empty, "UPDATE alembic_version SET version_num = '9999'")

    failed = run_migrate(empty)

    assert failed.returncode == 1
    assert failed.stdout == ""
    assert failed.stderr == (
        "runlease migrate: the schema is at 9999, newer than "
        f"{SCHEMA_REVISION} that this version knows; run a newer runlease\n"
    )
    assert run_sql(empty, "SELECT version_num FROM alembic_version") == [("9999",)]


def test_migrate_says_in_a_line_that_a_server_is_away_or_a_standby(
    server: PostgresServer,
) -> None:
    away = run_migrate("postgresql://u:secret@127.0.0.1:1/runs")
    with PostgresServer(primary=server, options=OPTIONS) as standby:
        refused_by_standby = run_migrate(standby.url())

    for failed in (away, refused_by_standby):
        assert failed.returncode == 1
        assert failed.stderr.count("\n") == 1
        assert "secret" not in failed.stderr
    assert "standby" in refused_by_standby.stderr
