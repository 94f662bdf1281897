"""A primary is killed under load and its synchronous standby promoted: nothing that was
acknowledged is lost, no token is granted twice, and the service finds the new primary by itself."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from runlease_service.database.migrate import migrate
from tests.chaos.checker import counts, summary, violations
from tests.chaos.history import GRANTS, READS, UNAVAILABLE, Cut, History
from tests.chaos.load import Plan, loads
from tests.chaos.server import ServedProcess, ended, get, parameter
from tests.chaos.stored import read_postgres
from tests.postgres_server import PostgresServer, run_sql

REPLICAS: Final = 2
GAP_S_MAX: Final = 5.0
"""How long nobody is served at most; most of it is the promotion's."""


@contextmanager
def pair() -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """A migrated primary and its synchronous standby."""
    with ExitStack() as stack:
        primary = stack.enter_context(PostgresServer(durable=True))
        migrate(primary.url())
        options = ["wal_retrieve_retry_interval=100ms"]
        standby = stack.enter_context(
            PostgresServer(durable=True, primary=primary, name="s1", options=options)
        )
        run_sql(
            primary.url(),
            "SET synchronous_commit = local",
            "ALTER SYSTEM SET synchronous_standby_names = 'FIRST 1 (s1)'",
            "SELECT pg_reload_conf()",
        )
        yield primary, standby


def gap_s(history: History, killed: float) -> float:
    """How long no write was acknowledged, around the kill."""
    writes = [call for call in history if 200 <= call.status < 300 and call.verb not in READS]
    before = max(call.end for call in writes if call.end <= killed)
    after = min(call.end for call in writes if call.start > killed)
    return after - before


@pytest.mark.parametrize(
    ("seconds", "threads"),
    [
        pytest.param(parameter("FAILOVER_SHORT_SECONDS", 2), 8, id="short"),
        pytest.param(
            parameter("FAILOVER_SECONDS", 10),
            20,
            id="full",
            marks=[pytest.mark.long, pytest.mark.timeout(300)],
        ),
    ],
)
def test_a_failover_loses_nothing_that_was_acknowledged(
    seconds: int, threads: int, tmp_path: Path
) -> None:
    seed = parameter("FAILOVER_SEED", random.randrange(1_000_000))
    with pair() as (primary, standby), ExitStack() as stack:
        url = (
            f"postgresql://postgres@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/postgres"
            "?sslmode=disable&target_session_attrs=read-write"
        )
        replicas = [
            ServedProcess(
                url, tmp_path, settings={"require_durable": True, "database_wait_ms_max": 1_000}
            )
            for _ in range(REPLICAS)
        ]
        for served in replicas:
            stack.enter_context(ended(served))
            served.launch()
        for served in replicas:
            served.wait()
        ports = tuple(served.port for served in replicas)
        plans = [Plan(ports, threads, seed + number, operators_every=8) for number in range(2)]

        with loads(plans) as running:
            running.run_for(seconds / 2)
            killed = time.monotonic()
            primary.stop(signal.SIGKILL)
            standby.promote()
            promoted = time.monotonic()
            running.wait_for_more(200)
            running.run_for(seconds / 2)
            ready = [get(port, "/readyz")[0] for port in ports]
            history = running.stop()
        codes = [served.terminate() for served in replicas]
        snapshot, found = read_postgres(standby.url())

    gap = gap_s(history, killed)
    grants = sum(call.verb in GRANTS and 200 <= call.status < 300 for call in history)
    print(
        f"seed {seed}: {sum(200 <= call.status < 300 for call in history)} acknowledged, "
        f"{grants} grants, {sum(call.status == UNAVAILABLE for call in history)} times 503; "
        f"promoted {(promoted - killed) * 1000:.0f} ms after the kill, "
        f"without service for {gap * 1000:.0f} ms"
    )
    print(counts(history))
    # What was in flight is repeated on the new primary, so it may be carried out twice.
    found += violations(history, [snapshot], cuts=[Cut(killed, promoted + GAP_S_MAX)])
    assert not found, summary(found)
    assert ready == [200] * REPLICAS
    assert codes == [0] * REPLICAS
    assert gap < GAP_S_MAX
    assert grants > 50
    assert [call for call in history if call.status == UNAVAILABLE]
