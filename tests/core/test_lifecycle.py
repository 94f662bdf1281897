"""The life of a run is the seed's table, edge for edge."""

from __future__ import annotations

import pytest

from runlease_core.lifecycle import (
    EDGES,
    TERMINAL,
    RunStatus,
    can_transition_run,
    is_terminal_run_status,
)

SEED = {
    "queued": {"running", "cancelled", "failed"},
    "running": {"suspended", "completed", "failed", "cancelled", "queued"},
    "suspended": {"queued", "running", "cancelled", "failed"},
    "completed": set(),
    "failed": set(),
    "cancelled": set(),
}


def test_the_statuses_are_the_seeds_in_its_order() -> None:
    assert list(RunStatus) == list(SEED)
    assert list(EDGES) == list(SEED)


@pytest.mark.parametrize("start", list(SEED))
@pytest.mark.parametrize("end", list(SEED))
def test_every_edge_and_no_other(start: str, end: str) -> None:
    legal = end in SEED[start]

    assert can_transition_run(start, end) is legal
    assert can_transition_run(RunStatus(start), RunStatus(end)) is legal
    assert (RunStatus(end) in EDGES[RunStatus(start)]) is legal


@pytest.mark.parametrize("status", list(SEED))
def test_a_status_without_an_edge_is_terminal(status: str) -> None:
    terminal = not SEED[status]

    assert is_terminal_run_status(status) is terminal
    assert is_terminal_run_status(RunStatus(status)) is terminal
    assert (RunStatus(status) in TERMINAL) is terminal


@pytest.mark.parametrize("unknown", ["", "QUEUED", "lost", "running "])
def test_an_unknown_status_has_no_edge_and_is_not_terminal(unknown: str) -> None:
    assert not can_transition_run(unknown, "running")
    assert not can_transition_run("running", unknown)
    assert not can_transition_run(unknown, unknown)
    assert not is_terminal_run_status(unknown)
