"""What a handle says of its lease: held, lost, ended."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from runlease_core import (
    CheckpointRef,
    MemoryRunStore,
    Outcome,
    RunLeaseHandle,
    RunLeaseLostError,
    RunLedger,
    RunRecord,
    RunStatus,
    RunValidationError,
)
from tests.clock import ManualClock
from tests.run_stores import LostAnswerError, TroubledStore, lose_the_answer

TTL_MS = 1_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store() -> TroubledStore:
    return TroubledStore()


def make_ledger(store: TroubledStore, clock: ManualClock, owner: str = "a") -> RunLedger:
    return RunLedger(store, owner=owner, lease_ttl_ms=TTL_MS, heartbeat=False, now=clock)


@pytest.fixture
def ledger(store: TroubledStore, clock: ManualClock) -> RunLedger:
    return make_ledger(store, clock)


@pytest.fixture
def rival(store: TroubledStore, clock: ManualClock) -> RunLedger:
    return make_ledger(store, clock, "b")


def stands(run: RunLeaseHandle) -> tuple[bool, bool]:
    """Held and lost, asked now."""
    return run.held, run.lost


class TestHeld:
    def test_a_lease_is_held_up_to_its_local_deadline_and_not_at_it(
        self, ledger: RunLedger, clock: ManualClock
    ) -> None:
        run = ledger.acquire("run-1")

        clock.advance(ms=TTL_MS - 1)
        assert stands(run) == (True, False)
        clock.advance(ms=1)
        assert stands(run) == (False, False)
        run.renew()
        assert stands(run) == (True, False)

    def test_the_deadline_counts_from_before_the_request_was_sent(
        self, store: TroubledStore, ledger: RunLedger, clock: ManualClock
    ) -> None:
        run = ledger.acquire("run-1")
        store.after_swap = lambda _: clock.advance(ms=600)

        run.renew()

        clock.advance(ms=TTL_MS - 601)
        assert stands(run) == (True, False)
        clock.advance(ms=1)
        assert stands(run) == (False, False)

    def test_a_renewal_that_failed_moves_no_deadline(
        self, store: TroubledStore, ledger: RunLedger, clock: ManualClock
    ) -> None:
        run = ledger.acquire("run-1")
        clock.advance(ms=TTL_MS - 1)
        store.after_swap = lose_the_answer

        with pytest.raises(LostAnswerError):
            run.renew()

        assert stands(run) == (True, False)
        clock.advance(ms=1)
        assert stands(run) == (False, False)

    def test_a_checkpoint_renews(self, ledger: RunLedger, clock: ManualClock) -> None:
        run = ledger.acquire("run-1")
        clock.advance(ms=TTL_MS - 1)

        record = run.record_checkpoint(CheckpointRef("key", 1, clock()))

        clock.advance(ms=1)
        assert stands(run) == (True, False)
        assert run.record == record

    def test_an_adopted_handle_proves_nothing_before_its_first_command(
        self, ledger: RunLedger
    ) -> None:
        ledger.acquire("run-1")

        run = ledger.adopt("run-1", 1)

        assert stands(run) == (False, False)
        assert (run.record, run.attempt) == (None, 0)
        run.renew()
        assert stands(run) == (True, False)
        assert run.attempt == 1

    def test_without_an_injected_clock_the_lease_is_held_on_the_systems(self) -> None:
        ledger = RunLedger(MemoryRunStore(), heartbeat=False)

        assert ledger.acquire("run-1").held


class TestLoss:
    def test_a_loss_is_latched_and_asks_the_store_no_more(
        self, store: TroubledStore, ledger: RunLedger, rival: RunLedger, clock: ManualClock
    ) -> None:
        run = ledger.acquire("run-1")
        clock.advance(ms=TTL_MS)
        rival.acquire("run-1")
        with pytest.raises(RunLeaseLostError) as first:
            run.renew()
        store.answers = False

        for command in (run.renew, run.complete, run.fail, run.suspend, run.release, run.check):
            with pytest.raises(RunLeaseLostError) as again:
                command()
            assert again.value is first.value

        assert (run.held, run.lost, run.loss) == (False, True, first.value)
        assert run.lost_event.is_set()

    def test_an_ended_handle_is_neither_held_nor_lost(self, ledger: RunLedger) -> None:
        ends: list[Callable[[RunLeaseHandle], RunRecord]] = [
            lambda run: run.complete(),
            lambda run: run.fail(),
            lambda run: run.cancel("enough"),
            lambda run: run.suspend(["approval"]),
            lambda run: run.release(),
        ]
        for number, end in enumerate(ends):
            run = ledger.acquire(f"run-{number}")

            ended = end(run)

            assert end(run) == ended == run.record == ledger.get(run.run_id)
            assert (run.held, run.lost) == (False, False)
            with pytest.raises(RunLeaseLostError):
                run.renew()
            run.check()
            assert stands(run) == (False, False)

    def test_a_second_and_different_ending_is_refused_and_is_no_loss(
        self, ledger: RunLedger
    ) -> None:
        run = ledger.acquire("run-1")
        completed = run.complete("partial", "9 of 10")
        assert completed.outcome == Outcome("partial", "9 of 10")

        with pytest.raises(RunLeaseLostError):
            run.fail()

        assert not run.lost
        assert run.record == completed == ledger.get("run-1")

    def test_an_ending_whose_answer_was_lost_converges_when_it_is_sent_again(
        self, store: TroubledStore, ledger: RunLedger
    ) -> None:
        run = ledger.acquire("run-1")
        store.after_swap = lose_the_answer
        with pytest.raises(LostAnswerError):
            run.complete()
        assert stands(run) == (False, False)

        completed = run.complete()

        assert completed.status is RunStatus.COMPLETED
        assert (run.held, run.lost) == (False, False)

    def test_a_renewal_refused_by_the_handles_own_lost_ending_is_no_loss(
        self, store: TroubledStore, ledger: RunLedger
    ) -> None:
        run = ledger.acquire("run-1")
        store.after_swap = lose_the_answer
        with pytest.raises(LostAnswerError):
            run.complete()

        with pytest.raises(RunLeaseLostError):
            run.renew()

        assert not run.lost
        assert run.record == ledger.get("run-1")
        assert run.complete() == run.record

    def test_a_renewal_refused_while_the_handles_own_ending_is_under_way_is_no_loss(
        self, store: TroubledStore, ledger: RunLedger
    ) -> None:
        run = ledger.acquire("run-1")

        def renew_late(record: RunRecord) -> None:
            if record.status is RunStatus.COMPLETED:
                with pytest.raises(RunLeaseLostError):
                    run.renew()

        store.after_swap = renew_late

        completed = run.complete()

        assert stands(run) == (False, False)
        assert run.record == completed == ledger.get("run-1")

    def test_a_whole_outcome_leaves_no_place_for_a_message(self, ledger: RunLedger) -> None:
        run = ledger.acquire("run-1")

        with pytest.raises(RunValidationError):
            run.complete(Outcome("ok"), "again")

        assert stands(run) == (True, False)


def test_commands_of_many_threads_on_one_handle_never_conflict(ledger: RunLedger) -> None:
    run = ledger.acquire("run-1")
    start = threading.Barrier(4)
    failures: list[Exception] = []

    def renew() -> None:
        start.wait(20)
        try:
            for _ in range(100):
                run.renew()
        except Exception as error:  # noqa: BLE001 (told below)
            failures.append(error)

    threads = [threading.Thread(target=renew) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)

    assert failures == []
    assert run.complete().version == 402
