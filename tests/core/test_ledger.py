"""The ledger's commands and what a handle says of its lease."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from runlease_core import (
    AnyCommand,
    AsyncMemoryStoreRunStore,
    MemoryRunStore,
    MemoryStoreRunStore,
    RunAlreadyTerminalError,
    RunConflictError,
    RunIntegrityError,
    RunInvalidTransitionError,
    RunLeaseHeldError,
    RunLeaseLostError,
    RunLedger,
    RunNotFoundError,
    RunRecord,
    RunStatus,
    RunStoreAtomicRequiredError,
    RunSuspendedError,
    RunValidationError,
    StoreExecutor,
)
from runlease_core.clock import Clock
from tests.clock import ManualClock
from tests.key_values import AsyncDictStore, DictStore
from tests.run_stores import LostAnswerError, TroubledStore, lose_the_answer

TTL_MS = 1_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store() -> TroubledStore:
    return TroubledStore()


def make_ledger(store: Any, clock: ManualClock, owner: str = "a") -> RunLedger:  # noqa: ANN401
    return RunLedger(store, owner=owner, lease_ttl_ms=TTL_MS, heartbeat=False, now=clock)


@pytest.fixture
def ledger(store: TroubledStore, clock: ManualClock) -> RunLedger:
    return make_ledger(store, clock)


@pytest.fixture
def rival(store: TroubledStore, clock: ManualClock) -> RunLedger:
    return make_ledger(store, clock, "b")


def naive() -> datetime:
    return ManualClock()().replace(tzinfo=None)


class TestCommands:
    def test_an_acquire_makes_the_run_with_its_labels_and_attempts(self, ledger: RunLedger) -> None:
        run = ledger.acquire("run-1", labels={"team": "x"}, max_attempts=3)

        record = ledger.get("run-1")
        assert record == run.record
        assert record is not None
        assert (record.labels, record.max_attempts) == ({"team": "x"}, 3)
        assert (run.run_id, run.owner, run.fencing_token, run.attempt) == ("run-1", "a", 1, 1)
        assert run.held
        assert not run.lost

    def test_an_acquire_that_loses_the_creation_goes_round_again(self, clock: ManualClock) -> None:
        class OvertakenStore(MemoryRunStore):
            def create(self, record: RunRecord) -> bool:
                make_ledger(super(), clock, "b").enqueue(record.run_id)
                return super().create(record)

        run = make_ledger(OvertakenStore(), clock).acquire("run-1")

        assert run.record is not None
        assert run.record.version == 2

    def test_a_command_that_never_wins_its_swap_is_a_conflict(self, clock: ManualClock) -> None:
        class RestlessStore(MemoryRunStore):
            def create(self, record: RunRecord) -> bool:
                return False

        with pytest.raises(RunConflictError, match="changed 64 times"):
            make_ledger(RestlessStore(), clock).enqueue("run-1")

    def test_the_attempts_that_are_used_up_end_the_run_and_refuse_the_acquire(
        self, ledger: RunLedger, rival: RunLedger, clock: ManualClock
    ) -> None:
        ledger.acquire("run-1", max_attempts=1)
        clock.advance(ms=TTL_MS)

        with pytest.raises(RunAlreadyTerminalError) as refused:
            rival.acquire("run-1")

        record = ledger.get("run-1")
        assert record == refused.value.record
        assert record is not None
        assert record.status is RunStatus.FAILED
        assert record.outcome is not None
        assert record.outcome.code == "attempts_exhausted"

    def test_a_command_for_another_version_changes_nothing(self, ledger: RunLedger) -> None:
        queued = ledger.enqueue("run-1")
        for command in (ledger.cancel, ledger.revoke, ledger.request_resume, ledger.acquire):
            with pytest.raises(RunConflictError):
                command("run-1", expected_version=7)

        assert ledger.get("run-1") == queued

    def test_a_resume_names_the_approvals_that_it_answers(
        self, ledger: RunLedger, rival: RunLedger
    ) -> None:
        ledger.acquire("run-1").suspend(iter(["one", "two"]))

        with pytest.raises(RunSuspendedError):
            rival.acquire("run-1")
        with pytest.raises(RunInvalidTransitionError):
            rival.request_resume("run-1", pending_approval_ids=["one"])
        resumed = rival.request_resume("run-1", pending_approval_ids=iter(["two", "one"]))

        assert resumed.status is RunStatus.QUEUED

    def test_a_revoke_takes_the_lease_from_its_worker(
        self, ledger: RunLedger, rival: RunLedger
    ) -> None:
        run = ledger.acquire("run-1")

        revoked = rival.revoke("run-1", "stuck")

        assert (revoked.status, revoked.fencing_token) == (RunStatus.QUEUED, 2)
        with pytest.raises(RunLeaseLostError):
            run.renew()

    def test_a_run_made_again_after_its_deletion_starts_above_its_last_token(
        self, clock: ManualClock
    ) -> None:
        for store in (MemoryRunStore(), MemoryStoreRunStore(DictStore())):
            ledger = make_ledger(store, clock)
            old = ledger.acquire("run-1")
            with pytest.raises(RunLeaseHeldError):
                ledger.delete("run-1")
            ledger.delete("run-1", force=True)
            assert ledger.get("run-1") is None

            assert ledger.acquire("run-1").fencing_token == 2
            with pytest.raises(RunLeaseLostError):
                old.complete()

    def test_a_store_without_a_delete_says_so(self, ledger: RunLedger) -> None:
        queued = ledger.enqueue("run-1")

        with pytest.raises(RunValidationError, match="offers no delete"):
            ledger.delete("run-1")

        assert ledger.get("run-1") == queued

    def test_a_run_deleted_and_made_again_under_a_swap_is_judged_anew(
        self, store: TroubledStore, ledger: RunLedger, rival: RunLedger
    ) -> None:
        run = ledger.acquire("run-1")

        def make_again(_: RunRecord) -> None:
            store.before_swap = lambda _: None
            store.inner.delete("run-1")
            store.inner.create(replace(run.record or queued(), fencing_token=9))

        store.before_swap = make_again

        with pytest.raises(RunLeaseLostError):
            run.renew()

    def test_what_a_store_misfiles_is_never_used(self, clock: ManualClock) -> None:
        class MisfilingStore(MemoryRunStore):
            def get(self, run_id: str) -> Any:  # noqa: ANN401
                return queued("another") if run_id == "run-1" else {"runId": run_id}

        ledger = make_ledger(MisfilingStore(), clock)

        with pytest.raises(RunIntegrityError, match="'another' in the place of 'run-1'"):
            ledger.get("run-1")
        with pytest.raises(RunIntegrityError, match="holds a dict"):
            ledger.acquire("run-2")

    def test_the_ledger_sends_its_commands_to_any_executor(
        self, store: TroubledStore, clock: ManualClock
    ) -> None:
        sent: list[str] = []

        class Recorder(StoreExecutor):
            def execute(
                self, command: AnyCommand, *, wait_seconds: float | None = None
            ) -> RunRecord | None:
                sent.append(type(command).__name__)
                return super().execute(command, wait_seconds=wait_seconds)

        ledger = make_ledger(Recorder(store, Clock(clock)), clock)
        run = ledger.acquire("run-1")
        run.renew()
        run.suspend()
        ledger.request_resume("run-1")
        ledger.cancel("run-1")

        assert sent == ["Acquire", "Renew", "Transition", "Resume", "Cancel"]

    @pytest.mark.parametrize(
        "settings",
        [{"owner": ""}, {"lease_ttl_ms": 10}, {"heartbeat": 1}, {"now": naive}],
    )
    def test_a_malformed_setting_is_refused(self, settings: dict[str, Any]) -> None:
        with pytest.raises(RunValidationError):
            RunLedger(MemoryRunStore(), **{"heartbeat": False, **settings}).acquire("run-1")

    def test_what_is_no_synchronous_run_store_is_refused(self) -> None:
        no_store: Any = object()
        asynchronous: Any = AsyncMemoryStoreRunStore(AsyncDictStore())
        unable: Any = type("Unable", (), {"get": print, "create": print})()

        with pytest.raises(RunValidationError):
            RunLedger(no_store)
        with pytest.raises(RunValidationError, match="AsyncRunLedger"):
            RunLedger(asynchronous)
        with pytest.raises(RunStoreAtomicRequiredError):
            RunLedger(unable)

    def test_default_owners_differ_between_ledgers(self) -> None:
        first, second = RunLedger(MemoryRunStore()), RunLedger(MemoryRunStore())

        assert first.owner == first.owner != second.owner
        assert f":{os.getpid()}:" in first.owner

    def test_a_resume_or_revoke_of_nothing_is_not_found(self, ledger: RunLedger) -> None:
        for command in (ledger.request_resume, ledger.revoke):
            with pytest.raises(RunNotFoundError):
                command("run-1")


class TestClose:
    def test_closing_releases_every_open_lease_and_no_other(
        self, ledger: RunLedger, rival: RunLedger, clock: ManualClock
    ) -> None:
        with ledger:
            done, kept, taken = (ledger.acquire(f"run-{number}") for number in range(3))
            done.complete()
            clock.advance(ms=TTL_MS)
            rival.acquire("run-2")
            adopted = ledger.adopt("run-9", 1)

        statuses = [record.status for n in range(3) if (record := ledger.get(f"run-{n}"))]
        assert statuses == [RunStatus.COMPLETED, RunStatus.QUEUED, RunStatus.RUNNING]
        assert not kept.held
        assert taken.lost
        assert not adopted.lost
        with pytest.raises(RuntimeError, match="closed"):
            ledger.acquire("run-3")

    def test_one_lease_that_cannot_be_released_keeps_no_other(
        self, store: TroubledStore, ledger: RunLedger
    ) -> None:
        ledger.acquire("run-0")
        ledger.acquire("run-1")

        def break_one(record: RunRecord) -> None:
            if record.run_id == "run-0":
                raise LostAnswerError

        store.before_swap = break_one

        with pytest.raises(ExceptionGroup) as failed:
            ledger.close()

        assert [type(error) for error in failed.value.exceptions] == [LostAnswerError]
        record = ledger.get("run-1")
        assert record is not None
        assert record.status is RunStatus.QUEUED

    def test_a_grant_that_comes_after_the_closing_is_released_at_once(
        self, clock: ManualClock
    ) -> None:
        closing: list[RunLedger] = []

        class ClosingStore(MemoryRunStore):
            def create(self, record: RunRecord) -> bool:
                closing[0].close()
                return super().create(record)

        ledger = make_ledger(ClosingStore(), clock)
        closing.append(ledger)

        with pytest.raises(RuntimeError, match="closed"):
            ledger.acquire("run-1")

        record = ledger.get("run-1")
        assert record is not None
        assert record.status is RunStatus.QUEUED

    def test_what_fails_in_closing_is_noted_on_the_bodys_exception(
        self, store: TroubledStore, ledger: RunLedger
    ) -> None:
        with pytest.raises(ValueError, match="body") as raised, ledger:  # noqa: PT012 (the end)
            ledger.acquire("run-1")
            store.before_swap = lose_the_answer
            raise ValueError("body")

        assert "LostAnswerError" in raised.value.__notes__[0]


def test_a_forked_child_has_another_owner_and_holds_nothing(store: TroubledStore) -> None:
    ledger = RunLedger(store, heartbeat=False)
    run = ledger.acquire("run-1")
    read, write = os.pipe()
    with warnings.catch_warnings():
        # Another test's daemon thread may still live; the child touches none of its locks.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            with run:
                refused = False
                try:
                    run.renew()
                except RuntimeError:
                    refused = True
            facts = (ledger.owner != run.owner, not run.held, refused)
            os.write(write, repr(facts).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)

    assert os.read(read, 100) == b"(True, True, True)"
    assert run.held
    os.close(read)
    os.close(write)


def queued(run_id: str = "run-1") -> RunRecord:
    now = ManualClock()()
    return RunRecord(
        run_id=run_id,
        version=1,
        status=RunStatus.QUEUED,
        attempt=1,
        fencing_token=1,
        created_at=now,
        updated_at=now,
    )
