"""The heartbeat: its schedule by hand, its thread and task by events."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from datetime import timedelta

import pytest

from runlease_core import (
    AsyncRunLedger,
    LossReason,
    MemoryRunStore,
    RunLeaseHandle,
    RunLeaseHeldError,
    RunLeaseLostError,
    RunLedger,
    RunRecord,
    RunStatus,
)
from runlease_core.clock import Clock
from runlease_core.heartbeat import WAIT_SECONDS_MAX, RenewalSchedule
from runlease_core.local_lease import LocalLease
from tests.clock import ManualClock
from tests.run_stores import AsyncTroubledStore, LostAnswerError, TroubledStore

TTL_MS = 300


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def proved_lease(ttl_ms: int = 48_000) -> LocalLease:
    lease = LocalLease(
        run_id="run-1",
        owner="a",
        fencing_token=1,
        lease_ttl_ms=ttl_ms,
        clock=Clock(ManualClock()),
        lost_event=threading.Event(),
    )
    lease.renewed_at_seconds = 1_000.0
    return lease


class TestSchedule:
    def test_a_lease_is_due_at_a_third_of_its_length(self) -> None:
        schedule: RenewalSchedule = RenewalSchedule(chance=lambda: 0.0)
        lease = proved_lease()
        schedule.add(lease)

        assert schedule.due(1_015.9) == []
        assert schedule.due(1_016.0) == [lease]

    def test_what_is_due_soon_goes_with_what_is_due(self) -> None:
        schedule: RenewalSchedule = RenewalSchedule(chance=lambda: 0.0)
        first, soon, later = proved_lease(), proved_lease(), proved_lease()
        soon.renewed_at_seconds, later.renewed_at_seconds = 1_007.9, 1_008.1
        for lease in (first, soon, later):
            schedule.add(lease)

        assert schedule.due(1_015.9) == []
        assert schedule.due(1_016.0) == [first, soon]

    def test_jitter_makes_a_renewal_earlier_and_never_later(self) -> None:
        schedule: RenewalSchedule = RenewalSchedule(chance=lambda: 1.0)
        schedule.add(proved_lease())

        assert schedule.due(1_012.7) == []
        assert len(schedule.due(1_012.8)) == 1

    def test_a_command_that_renewed_puts_the_renewal_off(self) -> None:
        schedule: RenewalSchedule = RenewalSchedule(chance=lambda: 0.0)
        lease = proved_lease()
        schedule.add(lease)
        assert schedule.due(1_016.0) != []

        lease.renewed_at_seconds = 1_010.0

        assert schedule.due(1_025.9) == []
        assert schedule.due(1_026.0) != []

    def test_failures_are_tried_again_ever_later_up_to_the_interval(self) -> None:
        schedule: RenewalSchedule = RenewalSchedule(chance=lambda: 0.0)
        lease = proved_lease()
        schedule.add(lease)
        schedule.due(1_000.0)

        delays = []
        for _ in range(8):
            schedule.failed(lease, 2_000.0)
            delays.append(next(s for s in range(1, 100) if schedule.due(2_000.0 + s)))

        assert delays == [1, 2, 4, 8, 16, 16, 16, 16]

    def test_a_success_ends_the_back_off(self) -> None:
        schedule: RenewalSchedule = RenewalSchedule(chance=lambda: 0.0)
        lease = proved_lease()
        schedule.add(lease)
        for _ in range(5):
            schedule.failed(lease, 1_016.0)

        lease.renewed_at_seconds = 1_030.0

        assert schedule.due(1_046.0) != []
        schedule.failed(lease, 1_046.0)
        assert schedule.due(1_047.0) != []

    def test_no_wait_is_longer_than_its_bound(self) -> None:
        schedule: RenewalSchedule = RenewalSchedule(chance=lambda: 0.0)
        assert schedule.wait_seconds(1_000.0) == WAIT_SECONDS_MAX
        schedule.add(proved_lease())

        assert schedule.wait_seconds(1_000.0) == WAIT_SECONDS_MAX
        assert schedule.wait_seconds(1_015.5) == 0.5
        assert schedule.wait_seconds(2_000.0) == 0.0


def heartbeats() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "runlease-heartbeat"]


class TestThread:
    def test_a_lease_outlives_its_length_while_the_heartbeat_renews_it(self) -> None:
        store = TroubledStore()
        with RunLedger(store, lease_ttl_ms=TTL_MS) as ledger:
            run = ledger.acquire("run-1")
            first = run.record

            store.wait_for_swaps(6)

            assert first is not None
            record = store.get("run-1")
            assert record is not None
            assert record.updated_at - first.created_at >= timedelta(milliseconds=TTL_MS)
            assert (record.fencing_token, record.attempt) == (1, 1)
            assert not run.lost
        assert heartbeats() == []

    def test_the_thread_ends_with_the_last_lease_and_starts_with_the_next(self) -> None:
        store = TroubledStore()
        ledger = RunLedger(store, lease_ttl_ms=TTL_MS)
        for number in range(2):
            run = ledger.acquire(f"run-{number}")
            (thread,) = heartbeats()
            store.wait_for_swaps(store.swaps + 1)

            run.complete()

            thread.join(20)
            assert not thread.is_alive()
        ledger.close()

    def test_every_error_but_a_loss_is_logged_and_tried_again(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        store, errors = TroubledStore(), iter([LostAnswerError("a"), TimeoutError(), ValueError()])

        def trouble(_: RunRecord) -> None:
            if error := next(errors, None):
                raise error

        store.before_swap = trouble
        with (
            caplog.at_level(logging.WARNING, "runlease.heartbeat"),
            RunLedger(store, lease_ttl_ms=TTL_MS) as ledger,
        ):
            run = ledger.acquire("run-1")

            store.wait_for_swaps(2)

            assert not run.lost
        assert [message.split("again: ")[1] for message in caplog.messages] == [
            "LostAnswerError: a",
            "TimeoutError: ",
            "ValueError: ",
        ]

    def test_a_cancel_by_an_operator_is_noticed_and_latched(self) -> None:
        store = TroubledStore()
        with RunLedger(store, lease_ttl_ms=TTL_MS) as ledger:
            run = ledger.acquire("run-1")
            kept = ledger.acquire("run-2")
            cancelled = RunLedger(store).cancel("run-1", "superseded")

            assert run.lost_event.wait(20)

            assert isinstance(run.loss, RunLeaseLostError)
            assert run.loss.record == cancelled
            assert not run.held
            store.wait_for_swaps(store.swaps + 2)
            assert not kept.lost

    def test_a_lease_that_is_being_ended_is_left_alone(self) -> None:
        store, entered, leave = TroubledStore(), threading.Event(), threading.Event()
        with RunLedger(store, lease_ttl_ms=TTL_MS) as ledger:
            run, kept = ledger.acquire("run-1"), ledger.acquire("run-2")
            renewed: list[str] = []

            def hang(record: RunRecord) -> None:
                if record.status is RunStatus.COMPLETED:
                    entered.set()
                    assert leave.wait(20)
                elif entered.is_set():
                    renewed.append(record.run_id)

            store.before_swap = hang
            worker = threading.Thread(target=run.complete)
            worker.start()
            assert entered.wait(20)

            store.wait_for_swaps(store.swaps + 4)

            leave.set()
            worker.join(20)
            assert set(renewed) == {"run-2"}
            assert not run.lost
            assert not kept.lost

    def test_endings_that_race_with_the_heartbeat_are_no_losses(self) -> None:
        store = TroubledStore()
        with RunLedger(store, lease_ttl_ms=100) as ledger:
            ends: list[Callable[[RunLeaseHandle], object]] = [
                lambda run: run.complete(),
                lambda run: run.suspend(),
                lambda run: run.release(),
            ]
            kept = ledger.acquire("kept")
            ended = []
            for number in range(300):
                run = ledger.acquire(f"run-{number}")
                ends[number % 3](run)
                ended.append(run)
            store.wait_for_swaps(store.swaps + 3)

            assert not any(run.lost or run.held for run in ended)
            assert not kept.lost

    def test_heartbeats_never_make_the_handles_own_writes_conflict(self) -> None:
        store = TroubledStore()
        with RunLedger(store, lease_ttl_ms=100) as ledger:
            run = ledger.acquire("run-1")
            while store.swaps < 500:
                run.renew()

            assert run.complete().status is RunStatus.COMPLETED

    def test_a_store_that_hangs_loses_the_lease_at_the_local_deadline(self) -> None:
        store, clock, hanging = TroubledStore(), ManualClock(), threading.Event()
        leave = threading.Event()
        lost: list[RunLeaseHandle] = []

        def hang(_: RunRecord) -> None:
            hanging.set()
            assert leave.wait(20)

        with RunLedger(store, lease_ttl_ms=60_000, now=clock, on_lost=lost.append) as ledger:
            run = ledger.acquire("run-1")
            store.before_swap = hang
            clock.advance(ms=59_999)
            assert hanging.wait(20)

            held = [run.held]
            clock.advance(ms=1)
            held.append(run.held)
            leave.set()

            assert held == [True, False]
            assert run.loss_reason is LossReason.UNPROVED
            assert lost == [run]
            with pytest.raises(RunLeaseLostError, match="no renewal of run 'run-1' succeeded"):
                run.check()

    def test_a_lease_that_could_not_be_proved_stays_lost_though_a_renewal_comes_through(
        self,
    ) -> None:
        store, clock = TroubledStore(), ManualClock()
        with RunLedger(store, owner="a", now=clock) as ledger:
            run = ledger.acquire("run-1")
            clock.advance(ms=60_000)

            assert not run.held
            with pytest.raises(RunLeaseLostError):
                run.complete()

            record = store.get("run-1")
            assert record is not None
            assert record.status is RunStatus.RUNNING
            assert not run.held

    @pytest.mark.parametrize(
        ("happen", "reason"),
        [
            (lambda other: other.cancel("run-1"), LossReason.CANCELLED),
            (lambda other: other.revoke("run-1"), LossReason.REVOKED),
            (lambda other: other.delete("run-1", force=True), LossReason.DELETED),
            (
                lambda other: (other.revoke("run-1"), other.acquire("run-1")),
                LossReason.TAKEN_OVER,
            ),
        ],
    )
    def test_a_loss_says_why(
        self, happen: Callable[[RunLedger], object], reason: LossReason
    ) -> None:
        store, heard = MemoryRunStore(), threading.Event()
        with RunLedger(
            store, owner="a", lease_ttl_ms=TTL_MS, on_lost=lambda _: heard.set()
        ) as ledger:
            run = ledger.acquire("run-1")
            happen(RunLedger(store, owner="b", heartbeat=False))

            assert run.lost_event.wait(20)
            assert heard.wait(20)

            assert run.loss_reason is reason
            assert not run.held

    def test_an_acquire_waits_for_a_held_lease_and_no_longer_than_asked(self) -> None:
        store = MemoryRunStore()
        RunLedger(store, owner="a", lease_ttl_ms=TTL_MS, heartbeat=False).acquire("run-1")
        other = RunLedger(store, owner="b", heartbeat=False)

        with pytest.raises(RunLeaseHeldError) as refused:
            other.acquire("run-1", wait=0.05)
        taken = other.acquire("run-1", wait=20)

        assert refused.value.retry_after_seconds is not None
        assert 0 < refused.value.retry_after_seconds <= TTL_MS / 1000
        assert (taken.attempt, taken.fencing_token) == (2, 2)


class TestTask:
    async def test_a_lease_outlives_its_length_while_the_heartbeat_renews_it(self) -> None:
        store = AsyncTroubledStore()
        async with AsyncRunLedger(store, lease_ttl_ms=TTL_MS) as ledger:
            run = await ledger.acquire("run-1")
            first = run.record

            await asyncio.to_thread(store.sync.wait_for_swaps, 6)

            assert first is not None
            record = await store.get("run-1")
            assert record is not None
            assert record.updated_at - first.created_at >= timedelta(milliseconds=TTL_MS)
            assert record.fencing_token == 1
            assert not run.lost
        assert [task for task in asyncio.all_tasks() if task.get_name().startswith("runl")] == []

    async def test_every_error_but_a_loss_is_tried_again(self) -> None:
        store, errors = AsyncTroubledStore(), iter([LostAnswerError(), TimeoutError()])

        def trouble(_: RunRecord) -> None:
            if error := next(errors, None):
                raise error

        store.sync.before_swap = trouble
        async with AsyncRunLedger(store, lease_ttl_ms=TTL_MS) as ledger:
            run = await ledger.acquire("run-1")

            await asyncio.to_thread(store.sync.wait_for_swaps, 2)

            assert not run.lost

    async def test_a_cancel_by_an_operator_is_noticed_and_latched(self) -> None:
        store = AsyncTroubledStore()
        async with AsyncRunLedger(store, lease_ttl_ms=TTL_MS) as ledger:
            run = await ledger.acquire("run-1")
            cancelled = await AsyncRunLedger(store).cancel("run-1")

            await asyncio.wait_for(run.lost_event.wait(), 20)

            assert run.loss is not None
            assert run.loss.record == cancelled

    async def test_the_task_ends_with_the_last_lease_and_starts_with_the_next(self) -> None:
        store = AsyncTroubledStore()
        async with AsyncRunLedger(store, lease_ttl_ms=TTL_MS) as ledger:
            for number in range(2):
                run = await ledger.acquire(f"run-{number}")
                (task,) = (t for t in asyncio.all_tasks() if t.get_name() == "runlease-heartbeat")
                await asyncio.to_thread(store.sync.wait_for_swaps, store.sync.swaps + 1)

                await run.release()

                await asyncio.wait_for(task, 20)
