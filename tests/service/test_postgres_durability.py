"""Whether an acknowledged write can vanish: looked at, said, and never acknowledged in doubt."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Final

import httpx
import pytest
from structlog.testing import capture_logs

from runlease_service.database.migrate import migrate
from tests.postgres_server import PostgresServer, run_sql
from tests.service.api import record_of
from tests.service.in_process import is_ready, is_unavailable, service_at, status, until
from tests.service.test_postgres_migrate import COMMAND, environment

START_S_MAX: Final = 30.0
BACK_S_MAX: Final = 3.0


@contextmanager
def pair(*, synchronous: bool) -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """A migrated primary and its standby, which is streaming."""
    with ExitStack() as stack:
        primary = stack.enter_context(PostgresServer(durable=True))
        with ThreadPoolExecutor(1) as thread:  # the caller may run an event loop
            thread.submit(migrate, primary.url()).result()
        standby = stack.enter_context(PostgresServer(durable=True, primary=primary, name="s1"))
        if synchronous:
            name_standby(primary, "FIRST 1 (s1)")
        yield primary, standby


def name_standby(primary: PostgresServer, names: str) -> None:
    run_sql(
        primary.url(),
        "SET synchronous_commit = local",
        f"ALTER SYSTEM SET synchronous_standby_names = '{names}'",
        "SELECT pg_reload_conf()",
    )


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer(durable=True) as one:
        migrate(one.url())
        yield one


def set_up(server: PostgresServer, setting: str) -> str:
    """The URL of a role for which the setting is another."""
    name = "".join(letter if letter.isalpha() else "_" for letter in setting)
    run_sql(
        server.url(),
        f"CREATE ROLE {name} LOGIN",
        f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {name}",
        f"ALTER ROLE {name} SET {setting}",
    )
    return server.url().replace("postgres@", f"{name}@")


def serve_durable(url: str) -> subprocess.CompletedProcess[str]:
    """`runlease serve --require-durable`, when it does not start."""
    return subprocess.run(
        [*COMMAND, "serve", "--port", "0", "--database", url, "--require-durable"],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=START_S_MAX,
    )


async def warned(url: str) -> list[str]:
    """What the service warns of, with lanes and readers open, when it may serve all the same."""
    with capture_logs() as logs:
        async with service_at(url) as api:
            for number in range(10):
                assert (await api.acquire(f"x-{number}")).status_code in (200, 201)
                assert await is_ready(api)
    return [line["risk"] for line in logs if line["event"] == "database_not_durable"]


async def refused_and_warned(url: str, risk: str) -> None:
    refused = await asyncio.to_thread(serve_durable, url)
    assert refused.returncode == 1
    said = refused.stdout + refused.stderr
    assert [risk in line for line in said.splitlines()] == [True], said
    assert "--require-durable" in said

    assert [risk in line for line in await warned(url)] == [True]


async def test_a_server_that_does_not_wait_for_the_disk() -> None:
    with PostgresServer(durable=True, options=["fsync=off"]) as server:
        await asyncio.to_thread(migrate, server.url())
        await refused_and_warned(server.url(), "fsync is off")


async def test_a_role_that_does_not_wait_for_its_commits(server: PostgresServer) -> None:
    url = set_up(server, "synchronous_commit = off")
    await refused_and_warned(url, "synchronous_commit is off")


async def test_a_standby_that_no_commit_waits_for() -> None:
    with pair(synchronous=False) as (primary, _):
        await refused_and_warned(primary.url(), "synchronous_standby_names is empty")


async def test_a_durable_server_is_served_without_a_word(server: PostgresServer) -> None:
    with capture_logs() as logs:
        async with service_at(server.url(), require_durable=True) as api:
            record_of(await api.acquire("durable"), 201)
    assert "database_not_durable" not in [line["event"] for line in logs]


# A commit whose wait for the standby is cut short.


@pytest.mark.parametrize("pooled", [False, True], ids=["direct", "pooled"])
async def test_nobody_is_told_of_a_write_that_the_standby_does_not_have(
    quiet_log: None, *, pooled: bool
) -> None:
    """The standby is paused and the wait for it cancelled: the server commits and merely warns."""
    with pair(synchronous=True) as (primary, standby):
        async with service_at(
            primary.url(), database_pooled=pooled, database_wait_ms_max=10_000
        ) as api:
            await until(lambda: is_ready(api), "ready", s_max=BACK_S_MAX)
            record_of(await api.acquire("held", key="k"), 201)
            standby.signal(signal.SIGSTOP)
            try:
                writes = [
                    asyncio.create_task(request)
                    for request in (
                        api.renew("held", 1),
                        api.acquire("made", key="k"),
                        api.enqueue("queued", labels={"a": "b"}),
                    )
                ]
                await cancel_until(primary, writes)
                for answer in writes:
                    is_unavailable(await answer)
                # What is there now can be seen and may vanish: nothing is answered from it.
                # At first there was one run of version 1.
                seen = run_sql(primary.url(), "SELECT count(*) + sum(version) FROM runs")
                assert seen[0][0] > 2
                is_unavailable(await api.acquire("made", key="k"))
                is_unavailable(await api.get("held"))
                assert await status(api, "/readyz") == 503
                assert await status(api, "/healthz") == 200
            finally:
                standby.signal(signal.SIGCONT)

            back_s = await until(lambda: is_ready(api), "ready", s_max=BACK_S_MAX)
            print(f"pooled {pooled}: back {back_s * 1000:.0f} ms after the standby")
            record_of(await api.renew("held", 1))
            assert (await api.acquire("made", key="k")).status_code in (200, 201)


async def cancel_until(primary: PostgresServer, writes: list[asyncio.Task[httpx.Response]]) -> None:
    """Cancel every wait for the standby until all requests are answered."""

    async def are_answered() -> bool:
        await asyncio.to_thread(
            run_sql,
            primary.url(),
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'",
        )
        return all(write.done() for write in writes)

    await until(are_answered, "the waits are cancelled", s_max=START_S_MAX)


async def test_a_standby_that_hangs_leaves_few_sessions_and_no_false_answer(
    quiet_log: None,
) -> None:
    """Nobody cancels: the service gives up by itself, and does not cut the server's wait short."""
    with pair(synchronous=True) as (primary, standby):
        async with service_at(primary.url(), database_wait_ms_max=500) as api:
            await until(lambda: is_ready(api), "ready", s_max=BACK_S_MAX)
            record_of(await api.acquire("held"), 201)
            standby.signal(signal.SIGSTOP)
            try:
                for _ in range(20):
                    is_unavailable(await api.renew("held", 1))
                is_unavailable(await api.acquire("new"))
                ((sessions, version),) = run_sql(
                    primary.url(),
                    "SELECT (SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'),"
                    " version FROM runs WHERE run_id = 'held'",
                )
            finally:
                standby.signal(signal.SIGCONT)
            await until(lambda: is_ready(api), "ready", s_max=BACK_S_MAX)

            print(f"{sessions} sessions wait for the standby")
            assert 1 <= sessions <= 4
            assert version == 1, "an unconfirmed write was made visible"
            assert record_of(await api.renew("held", 1))["version"] >= 2
