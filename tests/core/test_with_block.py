"""What the end of a `with` block records, and what it lets through."""

# ruff: noqa: PT012 (what a whole block raises at its end is what is tested here)

from __future__ import annotations

import pytest

from runlease_core import (
    Outcome,
    RunLeaseLostError,
    RunLedger,
    RunRecord,
    RunStatus,
)
from runlease_core.fields import MESSAGE_LENGTH_MAX, check_message
from runlease_core.local_lease import describe
from tests.clock import ManualClock
from tests.run_stores import LostAnswerError, TroubledStore, lose_the_answer


@pytest.fixture
def store() -> TroubledStore:
    return TroubledStore()


@pytest.fixture
def ledger(store: TroubledStore) -> RunLedger:
    return RunLedger(store, owner="a", heartbeat=False, now=ManualClock())


def stored(store: TroubledStore) -> RunRecord:
    record = store.get("run-1")
    assert record is not None
    return record


def test_success_completes_the_run(store: TroubledStore, ledger: RunLedger) -> None:
    with ledger.acquire("run-1") as run:
        assert run.held

    assert stored(store).status is RunStatus.COMPLETED
    assert stored(store).outcome == Outcome("ok")
    assert not run.held


def test_an_exception_fails_the_run_and_goes_through(
    store: TroubledStore, ledger: RunLedger
) -> None:
    with pytest.raises(ValueError, match="no such table"), ledger.acquire("run-1"):
        raise ValueError("no such table\x00")

    assert stored(store).status is RunStatus.FAILED
    assert stored(store).outcome == Outcome("error", "ValueError: no such table\ufffd")


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interruption_releases_the_run_and_goes_through(
    store: TroubledStore, ledger: RunLedger, interruption: type[BaseException]
) -> None:
    with pytest.raises(interruption), ledger.acquire("run-1"):
        raise interruption

    assert stored(store).status is RunStatus.QUEUED
    assert stored(store).lease is None


@pytest.mark.parametrize("finish", ["complete", "fail", "cancel", "suspend", "release"])
def test_what_the_body_ended_stays_so(store: TroubledStore, ledger: RunLedger, finish: str) -> None:
    with pytest.raises(ValueError, match="late"), ledger.acquire("run-1") as run:
        ended = getattr(run, finish)()
        raise ValueError("late")

    assert stored(store) == ended


def test_after_a_loss_nothing_is_written_and_the_loss_is_raised_from_the_bodys_exception(
    store: TroubledStore, ledger: RunLedger
) -> None:
    with pytest.raises(RunLeaseLostError) as lost, ledger.acquire("run-1") as run:
        cancelled = ledger.cancel("run-1")
        with pytest.raises(RunLeaseLostError):
            run.renew()
        store.answers = False
        raise ValueError("the body's own")

    assert lost.value is run.loss
    assert isinstance(lost.value.__cause__, ValueError)
    assert store.inner.get("run-1") == cancelled


def test_a_loss_that_leaves_the_body_goes_through_as_it_is(ledger: RunLedger) -> None:
    with pytest.raises(RunLeaseLostError) as lost, ledger.acquire("run-1") as run:
        ledger.cancel("run-1")
        run.renew()

    assert lost.value is run.loss
    assert lost.value.__cause__ is None


def test_a_loss_found_while_failing_is_raised_from_the_bodys_exception(
    ledger: RunLedger,
) -> None:
    with pytest.raises(RunLeaseLostError) as lost, ledger.acquire("run-1"):
        ledger.cancel("run-1")
        raise ValueError("the body's own")

    assert isinstance(lost.value.__cause__, ValueError)


def test_an_interruption_after_a_loss_goes_through_and_writes_nothing(
    store: TroubledStore, ledger: RunLedger
) -> None:
    with pytest.raises(KeyboardInterrupt), ledger.acquire("run-1") as run:
        cancelled = ledger.cancel("run-1")
        with pytest.raises(RunLeaseLostError):
            run.renew()
        raise KeyboardInterrupt

    assert stored(store) == cancelled


def test_a_completion_that_cannot_be_written_raises(
    store: TroubledStore, ledger: RunLedger
) -> None:
    with pytest.raises(LostAnswerError), ledger.acquire("run-1"):
        store.before_swap = lose_the_answer

    assert stored(store).status is RunStatus.RUNNING


def test_a_failure_that_cannot_be_written_is_noted_on_the_bodys_exception(
    store: TroubledStore, ledger: RunLedger
) -> None:
    with pytest.raises(ValueError, match="body") as raised, ledger.acquire("run-1"):
        store.before_swap = lose_the_answer
        raise ValueError("body")

    assert raised.value.__notes__ == [
        "run 'run-1' could not be recorded as failed: LostAnswerError: connection reset"
    ]


def test_a_completion_whose_answer_was_lost_is_sent_again_and_not_made_a_failure(
    store: TroubledStore, ledger: RunLedger
) -> None:
    def lose_one(_: RunRecord) -> None:
        store.before_swap = lambda _: None
        raise LostAnswerError

    with pytest.raises(LostAnswerError), ledger.acquire("run-1") as run:
        store.before_swap = lose_one
        run.complete("done")

    assert stored(store).outcome == Outcome("done")
    assert not run.lost


def test_any_exception_becomes_a_message_that_a_record_may_hold() -> None:
    class RudeError(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    every_character = "".join(map(chr, range(0x11000))) + "\U0001f600"
    for error in (RudeError(), ValueError("x" * 10_000), KeyError("\ud800")):
        assert check_message(describe(error), "message") == describe(error)
    for start in range(0, len(every_character), 4_000):
        check_message(describe(ValueError(every_character[start : start + 4_000])), "message")
    assert describe(RudeError()) == "RudeError"
    assert len(describe(ValueError("x" * 10_000))) == MESSAGE_LENGTH_MAX
