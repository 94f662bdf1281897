"""B35: two services on one file, and a stranger that holds its write lock."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from tests.chaos.checker import counts, summary, violations
from tests.chaos.history import UNAVAILABLE, History
from tests.chaos.load import Load, Plan, load
from tests.chaos.server import ServedProcess, get, parameter, serving, wait_until
from tests.chaos.stored import read_file

HEALTH_EVERY_S: Final = 0.1
ANSWER_MARGIN_S: Final = 3.0
"""What a loaded machine may add to a bound."""
LONG: Final = [pytest.mark.long, pytest.mark.timeout(400)]


@pytest.mark.parametrize(
    ("seconds", "writers"),
    [
        pytest.param(parameter("SHORT_SECONDS", 2), 20, id="short"),
        pytest.param(
            parameter("SHARED_SECONDS", 60), parameter("SHARED_WRITERS", 50), id="full", marks=LONG
        ),
    ],
)
def test_b35_no_caller_sees_that_two_services_share_a_file(
    seconds: int, writers: int, tmp_path: Path
) -> None:
    database = tmp_path / "runs.db"
    with serving(database) as first, serving(database) as second:
        plan = Plan((first.port, second.port), writers, seed=0)
        with load(plan, 2) as running:
            running.run_for(seconds)
            history = running.stop()
        log_bytes = Path(f"{database}-wal").stat().st_size
        ended = first.terminate(), second.terminate()

    print(counts(history), f"\nwrite-ahead log: {log_bytes} bytes")
    snapshot, found = read_file(database)
    found += violations(history, [snapshot])
    assert not found, summary(found)
    assert ended == (0, 0)
    assert not [call for call in history if call.status in (-1, 0, UNAVAILABLE)]


@pytest.mark.parametrize(
    ("held_s", "database_wait_ms", "request_wait_ms"),
    [
        pytest.param(2, 300, 1000, id="short"),
        pytest.param(parameter("HELD_SECONDS", 10), 5000, 10_000, id="full", marks=LONG),
    ],
)
def test_b35_a_stranger_that_holds_the_lock_makes_it_unavailable_not_dead(
    held_s: int, database_wait_ms: int, request_wait_ms: int, tmp_path: Path
) -> None:
    database = tmp_path / "runs.db"
    waits: dict[str, Any] = {
        "database_wait_ms_max": database_wait_ms,
        "request_wait_ms_max": request_wait_ms,
    }
    with serving(database, **waits) as first, serving(database, **waits) as second:
        with load(Plan((first.port, second.port), 20, seed=0), 2) as running:
            running.wait_for_more(200)
            locked_at, unlocked_at, health = _hold_the_lock(database, held_s, (first, second))
            history = _until_normal(running)
        ended = first.terminate(), second.terminate()

    print(counts(history), f"\nlocked for {unlocked_at - locked_at:.1f} s; health {health}")
    snapshot, found = read_file(database)
    found += violations(history, [snapshot])
    assert not found, summary(found)
    assert ended == (0, 0)
    # Alive all the time, and for as long as nothing can be written, not ready.
    assert set(health["/healthz"]) == {200}
    assert 503 in health["/readyz"]
    told = [call for call in history if call.status == UNAVAILABLE]
    assert told, "nobody was told that the service is unavailable"
    assert all(call.retry_after for call in told)
    assert json.loads(told[0].body)["code"] == "UNAVAILABLE"
    bound_s = max(database_wait_ms, request_wait_ms) / 1000 + ANSWER_MARGIN_S
    assert max(call.end - call.start for call in history) < bound_s
    # Nothing is refused for what is over: a command sent after the lock was gone is carried out.
    late = [call for call in told if call.start > unlocked_at + ANSWER_MARGIN_S]
    assert not late


def _hold_the_lock(
    database: Path, held_s: int, services: tuple[ServedProcess, ...]
) -> tuple[float, float, dict[str, list[int]]]:
    """Hold the write lock as a third process would; when, and what the probes said meanwhile."""
    health: dict[str, list[int]] = {"/healthz": [], "/readyz": []}
    unlocked = threading.Event()

    def probe(served: ServedProcess, path: str) -> None:
        while not unlocked.wait(HEALTH_EVERY_S):
            health[path].append(get(served.port, path)[0])

    probes = [
        threading.Thread(target=probe, args=(served, path))
        for served in services
        for path in health
    ]
    with closing(sqlite3.connect(database, isolation_level=None, timeout=30)) as stranger:
        stranger.execute("BEGIN IMMEDIATE")
        locked_at = time.monotonic()
        for thread in probes:
            thread.start()
        wait_until(lambda: time.monotonic() >= locked_at + held_s, "the stranger", s_max=held_s + 1)
        unlocked_at = time.monotonic()
        unlocked.set()
        stranger.execute("ROLLBACK")
    for thread in probes:
        thread.join()
    return locked_at, unlocked_at, health


def _until_normal(running: Load) -> History:
    running.wait_for_more(500)
    return running.stop()
