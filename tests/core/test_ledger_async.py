"""The asyncio ledger does what the synchronous one does."""

from __future__ import annotations

import asyncio

import pytest

from runlease_core import (
    AsyncMemoryStoreRunStore,
    AsyncRunLedger,
    AsyncRunStore,
    CheckpointRef,
    MemoryRunStore,
    Outcome,
    RunLeaseHeldError,
    RunLeaseLostError,
    RunStatus,
    RunStore,
    RunStoreError,
    StoreExecutor,
)
from runlease_core.clock import Clock
from tests.clock import ManualClock
from tests.key_values import AsyncDictStore
from tests.run_stores import AsyncTroubledStore, LostAnswerError, lose_the_answer

TTL_MS = 1_000


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["asynchronous", "synchronous", "executor"])
def store(
    request: pytest.FixtureRequest, clock: ManualClock
) -> AsyncRunStore | RunStore | StoreExecutor:
    match request.param:
        case "asynchronous":
            return AsyncMemoryStoreRunStore(AsyncDictStore())
        case "synchronous":
            return MemoryRunStore()
        case _:
            return StoreExecutor(MemoryRunStore(), Clock(clock))


AnyStore = AsyncRunStore | RunStore | StoreExecutor


def ledger(store: AnyStore, clock: ManualClock, owner: str = "a") -> AsyncRunLedger:
    return AsyncRunLedger(store, owner=owner, lease_ttl_ms=TTL_MS, heartbeat=False, now=clock)


async def test_a_run_goes_its_whole_way(store: AnyStore, clock: ManualClock) -> None:
    a, b = ledger(store, clock), ledger(store, clock, "b")
    await a.enqueue("run-1", labels={"k": "v"})
    run = await a.acquire("run-1")
    await run.renew()
    await run.record_checkpoint(CheckpointRef("key", 1, clock()))
    await run.suspend(["approval"])
    await b.request_resume("run-1", pending_approval_ids=["approval"])
    run = await b.acquire("run-1")
    with pytest.raises(RunLeaseHeldError):
        await a.acquire("run-1")
    await a.revoke("run-1")
    with pytest.raises(RunLeaseLostError):
        await run.renew()
    assert run.lost_event.is_set()

    again = await a.acquire("run-1")
    await again.release()
    cancelled = await a.cancel("run-1", "enough")

    assert await a.get("run-1") == cancelled
    assert cancelled.status is RunStatus.CANCELLED


async def test_a_deleted_runs_token_never_comes_back(clock: ManualClock) -> None:
    a = ledger(AsyncMemoryStoreRunStore(AsyncDictStore()), clock)
    run = await a.acquire("run-1")
    await a.delete("run-1", force=True)

    assert (await a.acquire("run-1")).fencing_token == 2
    with pytest.raises(RunLeaseLostError):
        await run.complete()


async def test_success_completes_and_an_exception_fails(
    store: AnyStore, clock: ManualClock
) -> None:
    a = ledger(store, clock)
    async with await a.acquire("good") as run:
        assert run.held
    with pytest.raises(ValueError, match="body"):
        async with await a.acquire("bad"):
            raise ValueError("body")

    good, bad = await a.get("good"), await a.get("bad")
    assert good is not None
    assert good.outcome == Outcome("ok")
    assert bad is not None
    assert bad.outcome == Outcome("error", "ValueError: body")


async def test_a_cancelled_task_releases_the_run(store: AnyStore, clock: ManualClock) -> None:
    a, working = ledger(store, clock), asyncio.Event()

    async def work() -> None:
        async with await a.acquire("run-1"):
            working.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await working.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    record = await a.get("run-1")
    assert record is not None
    assert record.status is RunStatus.QUEUED


async def test_an_operators_cancel_makes_the_block_raise(
    store: AnyStore, clock: ManualClock
) -> None:
    a = ledger(store, clock)
    with pytest.raises(RunLeaseLostError):
        async with await a.acquire("run-1") as run:
            cancelled = await a.cancel("run-1")

    assert run.lost
    assert await a.get("run-1") == cancelled


async def test_of_acquires_that_race_one_is_granted(store: AnyStore, clock: ManualClock) -> None:
    ledgers = [ledger(store, clock, f"worker-{number}") for number in range(20)]

    answers = await asyncio.gather(
        *(each.acquire("run-1") for each in ledgers), return_exceptions=True
    )

    assert sum(isinstance(answer, RunStoreError) for answer in answers) == 19
    assert sum(isinstance(answer, RunLeaseHeldError) for answer in answers) == 19


async def test_an_ending_that_was_given_up_converges_when_it_is_sent_again(
    clock: ManualClock,
) -> None:
    store = AsyncTroubledStore()
    a = ledger(store, clock)
    run = await a.acquire("run-1")
    store.sync.after_swap = lose_the_answer
    with pytest.raises(LostAnswerError):
        await run.complete()
    assert not run.held

    assert (await run.complete()).status is RunStatus.COMPLETED
    assert not run.lost


async def test_closing_releases_what_is_open(store: AnyStore, clock: ManualClock) -> None:
    async with ledger(store, clock) as a:
        await a.acquire("run-1")
        await (await a.acquire("run-2")).complete()

    first, second = await a.get("run-1"), await a.get("run-2")
    assert first is not None
    assert first.status is RunStatus.QUEUED
    assert second is not None
    assert second.status is RunStatus.COMPLETED
    with pytest.raises(RuntimeError, match="closed"):
        await a.acquire("run-3")


async def test_closing_collects_what_fails(clock: ManualClock) -> None:
    store = AsyncTroubledStore()
    a = ledger(store, clock)
    await a.acquire("run-1")
    await a.acquire("run-2")
    store.sync.before_swap = lose_the_answer

    with pytest.raises(ExceptionGroup) as failed:
        await a.close()

    assert len(failed.value.exceptions) == 2
