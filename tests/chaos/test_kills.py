"""kill -9 under load: what was answered is there after the crash, and nothing is there by half."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.chaos.checker import counts, summary, violations
from tests.chaos.history import UNANSWERED, UNAVAILABLE
from tests.chaos.load import DELETED_PREFIX, Plan, load
from tests.chaos.server import parameter, serving
from tests.chaos.stored import read_file

ANSWERS_BETWEEN: Final = parameter("KILL_ANSWERS", 300)
"""How many requests are carried out between a start and the next kill."""


@pytest.mark.parametrize(
    ("kills", "threads"),
    [
        pytest.param(parameter("SHORT_KILLS", 2), 16, id="short"),
        pytest.param(
            parameter("KILLS", 20),
            parameter("KILL_THREADS", 25),
            id="full",
            marks=[pytest.mark.long, pytest.mark.timeout(600)],
        ),
    ],
)
def test_what_was_answered_survives_a_kill(kills: int, threads: int, tmp_path: Path) -> None:
    database = tmp_path / "runs.db"
    found: list[str] = []
    snapshots = []
    with serving(database) as served:
        plan = Plan((served.port,), threads, seed=0, operators_every=4, deletes=True)
        with load(plan, 2) as running:
            for number in range(kills):
                # Now and then so soon that the file has hardly been opened again.
                running.wait_for_more(ANSWERS_BETWEEN if number % 4 else 1)
                served.kill()
                snapshot, wrong = read_file(database)
                snapshots.append(snapshot)
                found += wrong
                served.start()
            running.wait_for_more(ANSWERS_BETWEEN)
            history = running.stop()
        ended = served.terminate()
    snapshot, wrong = read_file(database)
    snapshots.append(snapshot)

    tombstones = [len(one.tombstones) for one in snapshots]
    print(counts(history), f"\ntombstones in the files: {tombstones}")
    found += wrong + violations(
        history, snapshots, tokens_only=lambda run_id: run_id.startswith(DELETED_PREFIX)
    )
    assert not found, summary(found)
    assert ended == 0
    assert not [call for call in history if call.status == UNAVAILABLE]
    # The kills hit requests that were on their way, and there were deletions to be remembered.
    assert [call for call in history if call.status == UNANSWERED]
    assert [call for call in history if (call.verb, call.status) == ("delete", 204)]
