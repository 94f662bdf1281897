"""What goes wrong elsewhere, tried on the in-process ledger. B01 and so on name them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from threading import Barrier
from typing import TypeVar

import pytest

from runlease_core import (
    CheckpointRef,
    MemoryRunStore,
    MemoryStoreRunStore,
    RunAlreadyTerminalError,
    RunLeaseHandle,
    RunLeaseHeldError,
    RunLeaseLostError,
    RunLedger,
    RunNotFoundError,
    RunRecord,
    RunStatus,
    RunStoreError,
    format_instant,
    parse_instant,
)
from tests.clock import START_MS, ManualClock
from tests.key_values import DictStore

T = TypeVar("T")


@pytest.fixture
def store() -> MemoryRunStore:
    return MemoryRunStore()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


Ledgers = Callable[[str], RunLedger]


@pytest.fixture
def ledger(store: MemoryRunStore, clock: ManualClock) -> Ledgers:
    def make(owner: str) -> RunLedger:
        return RunLedger(store, owner=owner, lease_ttl_ms=300, heartbeat=False, now=clock)

    return make


def ref(clock: ManualClock) -> CheckpointRef:
    return CheckpointRef("snapshots/1", 1, clock())


def stands(run: RunLeaseHandle) -> tuple[bool, bool]:
    """Held and lost, asked now."""
    return run.held, run.lost


def fenced_commands(clock: ManualClock) -> list[Callable[[RunLeaseHandle], RunRecord]]:
    return [
        lambda run: run.renew(),
        lambda run: run.record_checkpoint(ref(clock)),
        lambda run: run.complete(),
        lambda run: run.fail(),
        lambda run: run.cancel(),
        lambda run: run.release(),
        lambda run: run.suspend(),
    ]


def together(commands: list[Callable[[], T]]) -> list[T | RunStoreError]:
    start = Barrier(len(commands))

    def run(command: Callable[[], T]) -> T | RunStoreError:
        start.wait(20)
        try:
            return command()
        except RunStoreError as error:
            return error

    with ThreadPoolExecutor(len(commands)) as pool:
        return list(pool.map(run, commands))


def test_b01_a_stale_owner_is_refused_every_write_under_its_own_and_the_new_name(
    store: MemoryRunStore, clock: ManualClock, ledger: Ledgers
) -> None:
    stale = ledger("a").acquire("run-1")
    clock.advance(ms=400)
    fresh = ledger("b").acquire("run-1")

    for owner in ("a", "b"):
        for command in fenced_commands(clock):
            run = ledger(owner).adopt("run-1", stale.fencing_token)
            with pytest.raises(RunLeaseLostError) as lost:
                command(run)
            assert lost.value.record == fresh.record
            assert run.lost

    assert store.get("run-1") == fresh.record


def test_b04_an_expired_lease_that_nobody_took_is_renewed_by_its_token(
    clock: ManualClock, ledger: Ledgers
) -> None:
    run = ledger("a").acquire("run-1")
    clock.advance(ms=1_000)
    assert stands(run) == (False, False)

    renewed = run.renew()

    assert (renewed.fencing_token, renewed.attempt) == (1, 1)
    assert stands(run) == (True, False)
    assert run.record_checkpoint(ref(clock)).checkpoint_ref == ref(clock)


def test_b04_an_expired_lease_that_was_resumed_is_lost(
    store: MemoryRunStore, clock: ManualClock, ledger: Ledgers
) -> None:
    run = ledger("a").acquire("run-1")
    clock.advance(ms=1_000)
    resumed = ledger("operator").request_resume("run-1")

    with pytest.raises(RunLeaseLostError):
        run.renew()

    assert run.lost
    assert store.get("run-1") == resumed


@pytest.mark.parametrize("index", range(7))
def test_b11_a_cancelled_run_stays_cancelled_whatever_its_worker_does(
    store: MemoryRunStore, clock: ManualClock, ledger: Ledgers, index: int
) -> None:
    run = ledger("a").acquire("run-1")
    cancelled = ledger("operator").cancel("run-1", "superseded")

    with pytest.raises(RunLeaseLostError) as lost:
        fenced_commands(clock)[index](run)

    assert lost.value.record == cancelled == store.get("run-1")
    assert cancelled.fencing_token == run.fencing_token + 1
    assert cancelled.outcome is not None
    assert cancelled.outcome.message == "superseded"


def test_b11_the_block_of_a_cancelled_run_raises_instead_of_reporting_success(
    store: MemoryRunStore, ledger: Ledgers
) -> None:
    with pytest.raises(RunLeaseLostError), ledger("a").acquire("run-1"):
        cancelled = ledger("operator").cancel("run-1")

    assert store.get("run-1") == cancelled


def test_b12_a_finished_run_is_not_ended_again_by_what_happens_after(
    store: MemoryRunStore, ledger: Ledgers
) -> None:
    for interruption in (ValueError, KeyboardInterrupt, SystemExit):
        run = ledger("a").acquire(interruption.__name__)

        with pytest.raises(interruption), run:  # noqa: PT012 (the block's end is tested)
            completed = run.complete()
            raise interruption

        assert store.get(run.run_id) == completed


def test_b13_a_run_whose_worker_died_is_cancelled_at_once(
    store: MemoryRunStore, ledger: Ledgers
) -> None:
    ledger("dead").acquire("run-1")
    operator = ledger("operator")

    cancelled = operator.cancel("run-1")

    assert cancelled.status is RunStatus.CANCELLED
    assert cancelled.lease is None
    with pytest.raises(RunAlreadyTerminalError):
        ledger("b").acquire("run-1")
    assert operator.cancel("run-1") == cancelled
    operator.delete("run-1")
    assert store.get("run-1") is None


def test_b15_a_cancel_of_an_unknown_run_is_refused(ledger: Ledgers) -> None:
    with pytest.raises(RunNotFoundError):
        ledger("operator").cancel("run-1")


def test_b15_a_run_cancelled_in_the_queue_is_never_acquired(ledger: Ledgers) -> None:
    ledger("operator").enqueue("run-1")
    ledger("operator").cancel("run-1")

    with pytest.raises(RunAlreadyTerminalError):
        ledger("a").acquire("run-1")


def test_b15_a_cancel_that_succeeded_leaves_no_run_running(
    store: MemoryRunStore, ledger: Ledgers
) -> None:
    for number in range(200):
        run_id = f"run-{number}"
        worker, operator = ledger("a"), ledger("operator")

        commands: list[Callable[[], object]] = [
            partial(worker.acquire, run_id),
            partial(operator.cancel, run_id),
        ]
        _, cancelled = together(commands)

        record = store.get(run_id)
        assert record is not None
        if isinstance(cancelled, RunRecord):
            assert record.status is RunStatus.CANCELLED
        else:
            assert isinstance(cancelled, RunNotFoundError)
            assert record.status is RunStatus.RUNNING


def test_b16_one_suspension_is_resumed_once_and_acquired_once(
    store: MemoryRunStore, ledger: Ledgers
) -> None:
    suspended = ledger("a").acquire("run-1").suspend(["approval-1"])
    operator = ledger("operator")

    resumed = together([lambda: operator.request_resume("run-1")] * 20)
    acquired = together(
        [partial(ledger(f"worker-{number}").acquire, "run-1") for number in range(20)]
    )

    assert {answer.version for answer in resumed if isinstance(answer, RunRecord)} == {
        suspended.version + 1
    }
    assert len(acquired) == 20
    granted = [answer for answer in acquired if isinstance(answer, RunLeaseHandle)]
    assert len(granted) == 1
    assert sum(isinstance(answer, RunLeaseHeldError) for answer in acquired) == 19
    assert granted[0].attempt == 1
    with pytest.raises(RunLeaseHeldError):
        operator.request_resume("run-1")
    assert store.get("run-1") == granted[0].record


def test_b18_a_handle_never_picks_up_another_grants_token(
    store: MemoryRunStore, clock: ManualClock, ledger: Ledgers
) -> None:
    stale_ledger = ledger("a")
    stale = stale_ledger.acquire("run-1")
    clock.advance(ms=400)
    fresh = ledger("b").acquire("run-1")

    with pytest.raises(RunLeaseLostError):
        stale.renew()
    assert stale_ledger.get("run-1") == fresh.record
    assert stale.fencing_token == 1
    with pytest.raises(RunLeaseLostError):
        stale_ledger.adopt("run-1", fresh.fencing_token).renew()
    with pytest.raises(RunLeaseLostError):
        stale_ledger.adopt("run-1", fresh.fencing_token).record_checkpoint(ref(clock))

    assert store.get("run-1") == fresh.record


def test_b25_a_repeated_enqueue_finds_the_run_that_the_first_one_made(
    store: MemoryRunStore, ledger: Ledgers
) -> None:
    submitter = ledger("submitter")

    first = submitter.enqueue("run-1", labels={"made": "first"})

    assert submitter.enqueue("run-1", labels={"made": "second"}) == first
    assert not store.create(replace(first, labels={"made": "third"}))
    run = ledger("a").acquire("run-1")
    assert submitter.enqueue("run-1") == run.record
    run.complete()
    with pytest.raises(RunAlreadyTerminalError):
        submitter.enqueue("run-1")


def test_b25_of_fifty_first_acquires_and_enqueues_one_makes_the_run(
    store: MemoryRunStore, ledger: Ledgers
) -> None:
    def enqueue() -> RunRecord:
        return ledger("submitter").enqueue("run-1")

    def acquire(number: int) -> Callable[[], RunRecord | None]:
        return lambda: ledger(f"worker-{number}").acquire("run-1").record

    commands: list[Callable[[], object]] = [enqueue] * 25

    answers = together([*commands, *(acquire(number) for number in range(25))])

    refused = [answer for answer in answers if isinstance(answer, RunStoreError)]
    assert len(refused) == 24
    assert all(isinstance(answer, RunLeaseHeldError) for answer in refused)
    record = store.get("run-1")
    assert record is not None
    assert (record.fencing_token, record.attempt) == (1, 1)


@pytest.mark.parametrize(("ms", "end"), [(0, ".000Z"), (700, ".700Z")])
def test_b38_instants_on_a_whole_second_keep_their_fraction(ms: int, end: str) -> None:
    values, clock = DictStore(), ManualClock(START_MS + ms)
    ledger = RunLedger(MemoryStoreRunStore(values), owner="a", heartbeat=False, now=clock)

    record = ledger.acquire("run-1").record

    assert record is not None
    assert record.to_json()["createdAt"].endswith(end)
    assert ledger.get("run-1") == record
    assert format_instant(record.created_at) in values.values["run:run-1"]


def test_b38_instants_sort_by_time_as_text_and_are_read_with_any_digits() -> None:
    whole, later = ManualClock(START_MS)(), ManualClock(START_MS + 700)()

    assert format_instant(whole) < format_instant(later)
    for digits in ("", ".0", ".000", ".000000", ".000000000"):
        assert parse_instant(f"2026-09-01T00:00:00{digits}Z") == whole
