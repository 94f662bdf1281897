"""SIGTERM under load: what was begun is finished and answered, the rest is not begun."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.chaos.checker import counts, summary, violations
from tests.chaos.history import NOT_SENT, UNANSWERED, UNAVAILABLE, Call
from tests.chaos.load import Plan, load
from tests.chaos.server import parameter, serving
from tests.chaos.stored import read_file

ANSWERS: Final = parameter("SIGTERM_ANSWERS", 300)


@pytest.mark.parametrize(
    ("stops", "threads", "workers"),
    [
        pytest.param(2, 20, 1, id="short"),
        pytest.param(1, 20, 2, id="short-workers"),
        pytest.param(
            parameter("SIGTERMS", 10),
            50,
            1,
            id="full",
            marks=[pytest.mark.long, pytest.mark.timeout(400)],
        ),
        pytest.param(
            parameter("SIGTERMS", 10),
            50,
            2,
            id="full-workers",
            marks=[pytest.mark.long, pytest.mark.timeout(400)],
        ),
    ],
)
def test_sigterm_loses_no_answer_and_does_nothing_in_silence(
    stops: int, threads: int, workers: int, tmp_path: Path
) -> None:
    database = tmp_path / "runs.db"
    snapshots, ended = [], []
    found: list[str] = []
    with (
        serving(database, "--workers", str(workers)) as served,
        load(Plan((served.port,), threads, seed=0), 2) as running,
    ):
        for _ in range(stops):
            running.wait_for_more(ANSWERS)
            ended.append(served.terminate())
            snapshot, wrong = read_file(database)
            snapshots.append(snapshot)
            found += wrong
            served.start()
        running.wait_for_more(ANSWERS)
        history = running.stop()

    print(counts(history))
    found += violations(history, snapshots)
    assert not found, summary(found)
    assert ended == [0] * stops
    assert not [call for call in history if call.status == UNAVAILABLE]
    # A request on a kept connection may cross with the end of that connection. It is then neither
    # answered nor done: every write in the file was answered to somebody.
    unanswered = [_as_never_done(call) for call in history if call.status == UNANSWERED]
    answered = [call for call in history if call.status != UNANSWERED]
    done_in_silence = violations([*answered, *unanswered], snapshots)
    assert not done_in_silence, summary(done_in_silence)


def _as_never_done(call: Call) -> Call:
    return call._replace(status=NOT_SENT)
