"""Three replicas on one PostgreSQL, under workers that ask now this one, now that one, while
replicas are killed and stopped, connections are cut and a clock is stepped.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from runlease_service.database.migrate import migrate
from tests.chaos.checker import counts, summary, violations
from tests.chaos.faults import FAKETIME, Faults, SteppedClock
from tests.chaos.history import GRANTS, UNANSWERED, UNAVAILABLE, Event, History
from tests.chaos.load import Plan, loads
from tests.chaos.server import ServedProcess, ended, get, parameter
from tests.chaos.stored import read_postgres
from tests.postgres_server import PostgresServer, run_sql

REPLICAS: Final = 3
RUNS: Final = parameter("REPLICA_RUNS", 50)
OPERATORS: Final = 3
ANSWER_S_MAX: Final = 1.0
"""How long a client waits until it asks another replica. A stopped one is stopped for longer, and
carries out late what it was asked."""
ANSWERS_AFTER: Final = 300
"""How many requests are carried out when the faults are over."""
DATABASE: Final = "runs"


@contextmanager
def replicas_on(
    url: str, folder: Path, clock: SteppedClock | None
) -> Iterator[list[ServedProcess]]:
    """Three ready ones; the first lives by the clock."""
    with ExitStack() as stack:
        replicas = []
        for number in range(REPLICAS):
            environment = clock.environment if clock is not None and number == 0 else {}
            served = ServedProcess(url, folder, environment=environment)
            stack.enter_context(ended(served))
            served.launch()
            replicas.append(served)
        for served in replicas:
            served.wait()
        yield replicas


def takeovers(history: History) -> int:
    """Grants that took a run from a lease that had run out: each raises the attempt."""
    granted = [Event(call) for call in history if call.verb in GRANTS and call.status == 200]
    attempts = {(one.call.run_id, one.record["attempt"]) for one in granted if one.record}
    return sum(attempt > 1 for _, attempt in attempts)


@pytest.mark.parametrize(
    ("seconds", "processes", "threads", "least"),
    [
        pytest.param(parameter("SHORT_REPLICA_SECONDS", 5), 6, 5, (100, 10, 1), id="short"),
        # Thirty processes, each of which is one worker.
        pytest.param(
            parameter("REPLICA_SECONDS", 60),
            parameter("REPLICA_WORKERS", 30),
            1,
            (200, 20, 3),
            id="full",
            marks=[pytest.mark.long, pytest.mark.timeout(400)],
        ),
    ],
)
def test_replicas_keep_every_promise_whatever_becomes_of_them(
    seconds: int, processes: int, threads: int, least: tuple[int, int, int], tmp_path: Path
) -> None:
    seed = parameter("REPLICA_SEED", random.randrange(1_000_000))
    clock = SteppedClock(tmp_path) if FAKETIME.exists() else None
    with PostgresServer(durable=True) as postgres:
        run_sql(postgres.url(), f"CREATE DATABASE {DATABASE}")
        url = postgres.url(DATABASE)
        migrate(url)
        with replicas_on(url, tmp_path, clock) as replicas:
            faults = Faults(replicas, postgres.url(), DATABASE, clock, seed)
            ports = tuple(served.port for served in replicas)
            # An operator is every `operators_every`th thread: here none, then all.
            worker = Plan(
                *(ports, threads, seed, RUNS),
                operators_every=threads + 1,
                roams=True,
                answer_s_max=ANSWER_S_MAX,
            )
            plans = [replace(worker, seed=seed + number) for number in range(processes)]
            operators = replace(worker, seed=seed + processes, threads=OPERATORS, operators_every=1)
            with loads([*plans, operators]) as running:
                faults.happen(running, seconds)
                running.wait_for_more(ANSWERS_AFTER)
                ready = [get(port, "/readyz")[0] for port in ports]
                history = running.stop()
            codes = [served.terminate() for served in replicas]
        snapshot, found = read_postgres(url)

    grants = sum(call.verb in GRANTS and 200 <= call.status < 300 for call in history)
    taken_over = takeovers(history)
    print(
        f"seed {seed}: {sum(200 <= call.status < 300 for call in history)} acknowledged,"
        f" {grants} grants, {taken_over} takeovers,"
        f" {sum(call.status == UNAVAILABLE for call in history)} times 503,"
        f" {sum(call.status == UNANSWERED for call in history)} unanswered;"
        f" {faults.done['kill']} kills, {len(faults.cuts)} cuts"
        f" of {faults.connections_cut} connections, {faults.done['pause']} pauses,"
        f" {faults.done['step'] if clock else 'no (libfaketime is not installed)'} steps"
    )
    print(counts(history))
    found += violations(history, [snapshot], cuts=faults.cuts)
    assert not found, summary(found)
    assert codes == [0] * REPLICAS
    assert ready == [200] * REPLICAS
    # It cannot pass by standing still.
    grants_min, takeovers_min, faults_min = least
    assert grants > grants_min
    assert taken_over > takeovers_min
    assert all(faults.done[kind] >= faults_min for kind in faults.kinds), faults.done
    assert faults.connections_cut >= len(faults.cuts)
    told = {(call.verb, call.status) for call in history}
    assert {("acquire", 409), ("renew", 409), ("revoke", 200), ("resume", 200)} <= told
