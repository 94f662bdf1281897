"""The memory store and the one over a key-value store."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import Any

import pytest

from runlease_core import (
    AsyncMemoryStoreRunStore,
    AsyncRunLeaseHandle,
    AsyncRunLedger,
    DeletingRunStore,
    MemoryRunStore,
    MemoryStoreRunStore,
    RunAlreadyTerminalError,
    RunConflictError,
    RunIntegrityError,
    RunInvalidTransitionError,
    RunLeaseHandle,
    RunLedger,
    RunRecord,
    RunStatus,
    RunStoreAtomicRequiredError,
    RunValidationError,
    Tombstone,
    record_to_text,
)
from tests.clock import ManualClock
from tests.key_values import AsyncDictStore, DictStore


def queued(run_id: str = "run-1", **fields: Any) -> RunRecord:  # noqa: ANN401 (any field)
    now = ManualClock()()
    known: dict[str, Any] = {
        "run_id": run_id,
        "version": 1,
        "status": RunStatus.QUEUED,
        "attempt": 1,
        "fencing_token": 1,
        "created_at": now,
        "updated_at": now,
    }
    return RunRecord(**{**known, **fields})


@pytest.fixture(params=["memory", "key-value"])
def store(request: pytest.FixtureRequest) -> MemoryRunStore | MemoryStoreRunStore:
    return MemoryRunStore() if request.param == "memory" else MemoryStoreRunStore(DictStore())


class TestBothStores:
    def test_a_raw_write_to_a_finished_run_is_refused(
        self, store: MemoryRunStore | MemoryStoreRunStore
    ) -> None:
        done = queued(status=RunStatus.CANCELLED)
        store.create(done)

        with pytest.raises(RunAlreadyTerminalError) as refused:
            store.compare_and_set("run-1", 1, queued(version=2))

        assert refused.value.record == done == store.get("run-1")

    def test_a_raw_write_that_lowers_the_token_is_refused(
        self, store: MemoryRunStore | MemoryStoreRunStore
    ) -> None:
        store.create(queued(fencing_token=5))

        with pytest.raises(RunInvalidTransitionError):
            store.compare_and_set("run-1", 1, queued(version=2, fencing_token=4))

        assert store.get("run-1") == queued(fencing_token=5)

    def test_a_swap_to_any_version_but_the_next_is_refused(
        self, store: MemoryRunStore | MemoryStoreRunStore
    ) -> None:
        store.create(queued())

        with pytest.raises(RunValidationError, match="must be 2"):
            store.compare_and_set("run-1", 1, queued(version=3))

    def test_a_deleted_run_leaves_its_token_behind(
        self, store: MemoryRunStore | MemoryStoreRunStore
    ) -> None:
        store.create(queued(fencing_token=7))

        store.delete("run-1")

        assert isinstance(store, DeletingRunStore)
        assert store.get("run-1") is None
        assert store.tombstone("run-1") == Tombstone("run-1", 7)
        with pytest.raises(RunValidationError, match="above 7"):
            store.create(queued(fencing_token=7))
        assert store.create(queued(fencing_token=8))
        assert store.tombstone("run-1") is None

    def test_deleting_what_is_not_there_is_quiet(
        self, store: MemoryRunStore | MemoryStoreRunStore
    ) -> None:
        store.delete("run-1")

        assert store.get("run-1") is None
        assert store.tombstone("run-1") is None

    def test_a_malformed_id_is_refused_before_the_store_is_asked(
        self, store: MemoryRunStore | MemoryStoreRunStore
    ) -> None:
        with pytest.raises(RunValidationError):
            store.get("a//b")


class TestKeyValueStore:
    def test_a_record_is_kept_as_its_text_under_the_prefixed_id(self) -> None:
        values = DictStore()
        record = queued("a/ü", labels={"k": "v"})

        MemoryStoreRunStore(values, key_prefix="runs/").create(record)

        assert values.values == {"runs/a/ü": record_to_text(record)}

    def test_what_cannot_compare_and_set_holds_no_leases(self) -> None:
        class PlainStore:
            compare_and_set = None

            def get(self, key: str) -> str | None:
                return None

        with pytest.raises(RunStoreAtomicRequiredError, match="PlainStore has no compare_and_set"):
            MemoryStoreRunStore(PlainStore())  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        "value",
        [
            "",
            "null",
            "{}",
            "not json",
            '{"schema":1}',
            '{"tombstone":{"runId":"run-1"}}',
            '{"tombstone":{"runId":"run-1","fencingToken":-1}}',
            '{"tombstone":{"runId":"run-1","fencingToken":1,"more":1}}',
            '{"tombstone":{"runId":"run-2","fencingToken":1}}',
            record_to_text(queued("run-2")),
            b"bytes",
            5,
        ],
    )
    def test_a_corrupt_or_misfiled_value_is_never_taken_for_none(self, value: object) -> None:
        values: Any = DictStore()
        values.values["run:run-1"] = value
        store = MemoryStoreRunStore(values)

        with pytest.raises(RunIntegrityError, match="'run:run-1'"):
            store.get("run-1")
        with pytest.raises(RunIntegrityError):
            store.create(queued())
        with pytest.raises(RunIntegrityError):
            store.compare_and_set("run-1", 1, queued(version=2))
        with pytest.raises(RunIntegrityError):
            store.delete("run-1")

        assert values.values == {"run:run-1": value}

    def test_a_claim_that_is_neither_process_nor_cross_process_is_refused(self) -> None:
        with pytest.raises(RunValidationError):
            MemoryStoreRunStore(DictStore(), atomicity="global")  # type: ignore[arg-type]

    def test_the_claim_is_what_was_declared(self) -> None:
        assert MemoryStoreRunStore(DictStore()).atomicity == "process"
        store = MemoryStoreRunStore(DictStore(), atomicity="cross-process")
        assert store.atomicity == "cross-process"

    def test_a_swap_that_was_overtaken_is_decided_anew(self) -> None:
        values = DictStore()
        rival = MemoryStoreRunStore(values)

        class OvertakenStore(DictStore):
            overtaken = False

            def get(self, key: str) -> str | None:
                return values.get(key)

            def compare_and_set(self, key: str, expected: str | None, value: str) -> bool:
                if not self.overtaken:
                    self.overtaken = True
                    rival.create(queued(labels={"made": "by the rival"}))
                return values.compare_and_set(key, expected, value)

        created = MemoryStoreRunStore(OvertakenStore()).create(queued())

        assert not created
        assert rival.get("run-1") == queued(labels={"made": "by the rival"})

    def test_a_key_that_never_stands_still_is_a_conflict(self) -> None:
        class RestlessStore(DictStore):
            def compare_and_set(self, key: str, expected: str | None, value: str) -> bool:
                return False

        with pytest.raises(RunConflictError, match="changed 64 times"):
            MemoryStoreRunStore(RestlessStore()).create(queued())

    async def test_the_asynchronous_twin_keeps_the_same_texts(self) -> None:
        values, twin = DictStore(), AsyncDictStore()
        for record in (queued(), queued("run-2")):
            MemoryStoreRunStore(values).create(record)
            await AsyncMemoryStoreRunStore(twin).create(record)
        MemoryStoreRunStore(values).delete("run-2")
        await AsyncMemoryStoreRunStore(twin).delete("run-2")
        later = replace(queued(), version=2)
        MemoryStoreRunStore(values).compare_and_set("run-1", 1, later)
        await AsyncMemoryStoreRunStore(twin).compare_and_set("run-1", 1, later)

        assert twin.values == values.values
        assert await AsyncMemoryStoreRunStore(twin).get("run-1") == later
        assert await AsyncMemoryStoreRunStore(twin).tombstone("run-2") == Tombstone("run-2", 1)


@pytest.mark.parametrize(
    ("sync", "twin"),
    [
        (MemoryStoreRunStore, AsyncMemoryStoreRunStore),
        (RunLedger, AsyncRunLedger),
        (RunLeaseHandle, AsyncRunLeaseHandle),
    ],
)
def test_the_asynchronous_twin_has_the_same_methods_and_arguments(sync: type, twin: type) -> None:
    def signatures(kind: type) -> dict[str, list[str]]:
        return {
            name: [str(p).split(":")[0] for p in inspect.signature(member).parameters.values()]
            for name, member in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_")
        }

    assert signatures(sync) == signatures(twin)
