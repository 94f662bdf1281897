"""decide: raw swaps, counters at their end, and time."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from runlease_core.commands import (
    Acquire,
    Cancel,
    Delete,
    Renew,
    Transition,
)
from runlease_core.decide import Converged, Refused, Write, decide
from runlease_core.errors import Code
from runlease_core.fields import COUNTER_MAX
from runlease_core.lifecycle import RunStatus
from runlease_core.record import RunRecord, Suspension, Tombstone
from tests.core.examples import (
    BORN,
    CANCELLED,
    CHECKPOINT,
    ENDED,
    EXPIRED,
    FENCED,
    LIVE,
    MS,
    NOW,
    OUTCOME,
    QUEUED,
    RUN,
    SUSPENDED,
    TOKEN,
    UNLEASED,
    command_named,
    lease,
    refusal,
    swap,
    written,
)

# Raw swaps


@pytest.mark.parametrize(
    ("stored", "changes"),
    [
        pytest.param(LIVE, {"fencing_token": TOKEN - 1}, id="token falls"),
        pytest.param(LIVE, {"attempt": 1}, id="attempt falls"),
        pytest.param(LIVE, {"created_at": BORN + MS}, id="createdAt later"),
        pytest.param(LIVE, {"created_at": BORN - MS}, id="createdAt earlier"),
        pytest.param(LIVE, {"lease": lease("b", 100)}, id="other owner at the same token"),
        pytest.param(EXPIRED, {"lease": lease("b", 100)}, id="takeover at the same token"),
        pytest.param(UNLEASED, {"lease": lease("a", 100)}, id="lease from nothing, same token"),
        pytest.param(
            QUEUED,
            {"status": RunStatus.RUNNING, "lease": lease("a", 100)},
            id="grant of a queued run at the same token",
        ),
        pytest.param(QUEUED, {"status": RunStatus.SUSPENDED}, id="queued to suspended"),
        pytest.param(QUEUED, {"status": RunStatus.COMPLETED}, id="queued to completed"),
        pytest.param(SUSPENDED, {"status": RunStatus.COMPLETED}, id="suspended to completed"),
    ],
)
def test_a_raw_swap_that_breaks_a_promise_is_an_invalid_transition(
    stored: RunRecord, changes: dict[str, Any]
) -> None:
    assert refusal(decide(stored, swap(stored, **changes), NOW)) is Code.RUN_INVALID_TRANSITION


@pytest.mark.parametrize(
    ("stored", "changes"),
    [
        pytest.param(LIVE, {"lease": lease("a", 100)}, id="renewal at the same token"),
        pytest.param(
            EXPIRED,
            {"lease": lease("b", 100), "fencing_token": TOKEN + 1, "attempt": 3},
            id="takeover",
        ),
        pytest.param(
            QUEUED,
            {"status": RunStatus.RUNNING, "lease": lease("a", 100), "fencing_token": TOKEN + 1},
            id="grant",
        ),
        pytest.param(LIVE, {"status": RunStatus.QUEUED, "lease": None}, id="release"),
        pytest.param(
            LIVE,
            {"status": RunStatus.SUSPENDED, "lease": None, "suspension": Suspension(NOW)},
            id="suspend",
        ),
        pytest.param(
            LIVE,
            {"status": RunStatus.COMPLETED, "lease": None, "outcome": OUTCOME},
            id="complete",
        ),
        pytest.param(SUSPENDED, {"status": RunStatus.QUEUED, "suspension": None}, id="resume"),
        pytest.param(
            QUEUED, {"status": RunStatus.CANCELLED, "fencing_token": TOKEN + 1}, id="cancel"
        ),
        pytest.param(LIVE, {"updated_at": BORN}, id="updatedAt as given"),
    ],
)
def test_a_raw_swap_that_keeps_the_promises_stands_as_given(
    stored: RunRecord, changes: dict[str, Any]
) -> None:
    command = swap(stored, **changes)

    assert decide(stored, command, NOW) == Write(command.record)


@pytest.mark.parametrize("ended", ENDED)
@pytest.mark.parametrize("status", list(RunStatus))
def test_a_raw_swap_never_reopens_a_finished_run(ended: RunRecord, status: RunStatus) -> None:
    command = swap(ended, status=status, outcome=None)

    assert refusal(decide(ended, command, NOW)) is Code.RUN_ALREADY_TERMINAL


@pytest.mark.parametrize("stored", [QUEUED, LIVE, *ENDED])
@pytest.mark.parametrize("step", [-1, 1])
def test_a_raw_swap_at_another_version_is_not_swapped(stored: RunRecord, step: int) -> None:
    command = swap(replace(stored, version=stored.version + step))

    assert refusal(decide(stored, command, NOW)) is Code.RUN_CONFLICT


# Counters at their end


def at(record: RunRecord, counter: str, value: int) -> RunRecord:
    changes: dict[str, Any] = {counter: value}
    return replace(record, **changes)


@pytest.mark.parametrize("counter", ["version", "attempt", "fencing_token"])
@pytest.mark.parametrize("name", ["acquire", "renew", "to completed", "cancel", "revoke"])
def test_a_counter_at_its_end_is_never_passed(counter: str, name: str) -> None:
    stored = at(LIVE, counter, COUNTER_MAX)
    command = command_named(name, LIVE)
    if isinstance(command, Renew | Transition):
        command = replace(command, fencing_token=stored.fencing_token)

    assert refusal(decide(stored, command, NOW)) is Code.RUN_INVALID_TRANSITION


@pytest.mark.parametrize("counter", ["version", "fencing_token"])
def test_a_counter_may_reach_its_end(counter: str) -> None:
    stored = at(QUEUED, counter, COUNTER_MAX - 1)

    new = written(decide(stored, Acquire(run_id=RUN, owner="a"), NOW))

    assert getattr(new, counter) == COUNTER_MAX


def test_a_tombstone_at_the_last_token_lets_no_run_back() -> None:
    last = Tombstone(RUN, COUNTER_MAX)

    for name in ("acquire", "enqueue", "create"):
        decision = decide(last, command_named(name, last), NOW)

        assert isinstance(decision, Refused)
    assert decide(last, Delete(run_id=RUN), NOW) == Converged(None)


@pytest.mark.parametrize("counter", ["version", "attempt", "fencing_token"])
def test_a_finished_run_answers_as_ever_with_a_counter_at_its_end(counter: str) -> None:
    cancelled = at(CANCELLED, counter, COUNTER_MAX)

    assert decide(cancelled, Cancel(run_id=RUN), NOW) == Converged(cancelled)
    acquire = Acquire(run_id=RUN, owner="a")
    assert refusal(decide(cancelled, acquire, NOW)) is Code.RUN_ALREADY_TERMINAL
    assert refusal(decide(cancelled, Renew(**FENCED), NOW)) is Code.RUN_LEASE_LOST


def test_a_run_with_a_counter_at_its_end_can_be_deleted() -> None:
    stored = replace(QUEUED, version=COUNTER_MAX)

    assert decide(stored, Delete(run_id=RUN), NOW) == Write(Tombstone(RUN, TOKEN))


# Time


def test_created_at_stays_and_updated_at_follows_the_clock_even_backwards() -> None:
    earlier = BORN - timedelta(days=1)

    new = written(decide(LIVE, Renew(**FENCED), earlier))

    assert (new.created_at, new.updated_at) == (BORN, earlier)
    assert new.checkpoint_ref == CHECKPOINT
