"""A real pgbouncer in transaction mode between four replicas and the database: whatever server
connection a statement meets, it neither misses nor finds something of the session before."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from runlease_service.database.migrate import migrate
from tests.postgres_server import PostgresServer, free_port, run_sql
from tests.service.api import record_of
from tests.service.in_process import is_ready, service_at, until

PGBOUNCER: Final = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
REPLICAS: Final = 4
SERVER_CONNECTIONS: Final = 2
"""Fewer than the replicas' lanes, so that every session is shared."""
ROUNDS: Final = 25
RUNS: Final = 20
READY_S_MAX: Final = 10.0

pytestmark = [
    pytest.mark.usefixtures("quiet_log"),
    pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer is not installed (Debian: pgbouncer)"),
]


@contextmanager
def pooled(server: PostgresServer) -> Iterator[str]:
    """The URL, through a pooler, of a fresh database."""
    run_sql(server.url(), "CREATE DATABASE pooled")
    port = free_port()
    folder = Path(tempfile.mkdtemp(prefix="runlease-pgbouncer-", dir="/tmp"))
    settings = folder / "pgbouncer.ini"
    settings.write_text(
        "[databases]\n"
        f"pooled = host=127.0.0.1 port={server.port} dbname=pooled user=postgres\n"
        "[pgbouncer]\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        f"auth_type = any\npool_mode = transaction\ndefault_pool_size = {SERVER_CONNECTIONS}\n"
        "log_connections = 0\nlog_disconnections = 0\n"
    )
    as_user: dict[str, Any] = {}
    if os.geteuid() == 0:  # which it refuses
        nobody = pwd.getpwnam("nobody")
        as_user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        for part in (settings, folder):
            os.chown(part, nobody.pw_uid, nobody.pw_gid)
    assert PGBOUNCER is not None, "the test is skipped without it"
    with subprocess.Popen(
        [PGBOUNCER, settings], stderr=subprocess.PIPE, text=True, cwd=folder, **as_user
    ) as process:
        try:
            assert process.stderr is not None, "it was asked for"
            said = []
            for line in process.stderr:
                said.append(line)
                if "process up" in line:
                    break
            else:
                raise AssertionError("".join(said))
            yield f"postgresql://postgres@127.0.0.1:{port}/pooled?sslmode=disable"
        finally:
            process.terminate()
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as one:
        yield one


async def test_four_replicas_behind_pgbouncer_meet_no_session_of_others(
    server: PostgresServer,
) -> None:
    run_ids = [f"run-{number}" for number in range(RUNS)]
    async with AsyncExitStack() as stack:
        url = stack.enter_context(pooled(server))
        await asyncio.to_thread(migrate, url, pooled=True)
        replicas = [
            await stack.enter_async_context(service_at(url, database_pooled=True))
            for _ in range(REPLICAS)
        ]
        for one in replicas:
            await until(lambda api=one: is_ready(api), "ready", s_max=READY_S_MAX)  # type: ignore[misc]
        first = [record_of(await replicas[0].acquire(run_id), 201) for run_id in run_ids]

        statuses: Counter[int] = Counter()
        leases = [{"runId": run_id, "fencingToken": 1} for run_id in run_ids]
        for number in range(ROUNDS):
            answers = await asyncio.gather(
                *(api.renew(run_id, 1) for api in replicas for run_id in run_ids),
                *(api.get(run_ids[number % RUNS]) for api in replicas),
                *(api.page() for api in replicas),
                *(api.enqueue(f"new-{number}-{at}") for at, api in enumerate(replicas)),
                *(api.renew_all(leases) for api in replicas),
            )
            statuses.update(answer.status_code for answer in answers)
            assert all("problem" not in one for one in answers[-1].json()["results"])

        last = [record_of(await replicas[1].get(run_id)) for run_id in run_ids]
        sessions = run_sql(
            server.url(), "SELECT count(*) FROM pg_stat_activity WHERE datname = 'pooled'"
        )[0][0]

    assert set(statuses) == {200, 201}, statuses
    renewals = 2 * ROUNDS * REPLICAS
    assert [one["version"] for one in last] == [one["version"] + renewals for one in first]
    assert {one["fencingToken"] for one in last} == {1}
    assert sessions <= SERVER_CONNECTIONS
