"""Two hundred clients fight over twenty runs, on one process and on two workers of one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.chaos.checker import counts, summary, violations
from tests.chaos.history import UNAVAILABLE
from tests.chaos.load import Plan, load
from tests.chaos.server import parameter, serving
from tests.chaos.stored import read_file

SHORT: Final = (parameter("SHORT_SECONDS", 2), 2, 20)
FULL: Final = (
    parameter("FIGHT_SECONDS", 20),
    parameter("FIGHT_PROCESSES", 4),
    parameter("FIGHT_THREADS", 50),
)
SLOTS: Final = parameter("FIGHT_RUNS", 20)
SCALES: Final = [
    pytest.param(*SHORT, id="short"),
    pytest.param(*FULL, id="full", marks=[pytest.mark.long, pytest.mark.timeout(300)]),
]


@pytest.mark.parametrize(("seconds", "processes", "threads"), SCALES)
def test_one_process_gives_a_run_to_one_worker_at_a_time(
    seconds: int, processes: int, threads: int, tmp_path: Path
) -> None:
    fight(tmp_path, seconds, processes, threads)


@pytest.mark.parametrize(("seconds", "processes", "threads"), SCALES)
def test_two_workers_give_a_run_to_one_worker_at_a_time(
    seconds: int, processes: int, threads: int, tmp_path: Path
) -> None:
    fight(tmp_path, seconds, processes, threads, "--workers", "2")


def fight(folder: Path, seconds: int, processes: int, threads: int, *arguments: str) -> None:
    database = folder / "runs.db"
    with serving(database, *arguments) as served:
        with load(Plan((served.port,), threads, seed=0, slots=SLOTS), processes) as running:
            running.run_for(seconds)
            history = running.stop()
        ended = served.terminate()

    print(counts(history))
    snapshot, found = read_file(database)
    found += violations(history, [snapshot])
    assert not found, summary(found)
    assert ended == 0
    assert not [call for call in history if call.status in (-1, 0, UNAVAILABLE)]
    told = {(call.verb, call.status) for call in history}
    # What makes it a fight: leases were taken over, and stale workers were sent away.
    assert {("acquire", 200), ("acquire", 409), ("renew", 409), ("revoke", 200)} <= told
    assert max(snapshot.token(run_id) for run_id in snapshot.records) > 2
