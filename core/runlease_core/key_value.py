"""Run records in a key-value store that the application has already.

Each record is JSON text under one key, swapped in by the store's own compare-and-set, which is
trusted to be atomic among the writers that `atomicity` names. A value that is no record of the run
it is filed under is RUN_INTEGRITY_ERROR: never "empty", and never written over.

A tombstone takes the record's place under the same key by the same compare-and-set, so that
deletion races with nothing and a token never comes back. The key-value store's own `delete` is
not used. What the seed leaves out of a record, the idempotency key of its grant, is not kept.
"""

from __future__ import annotations

import json
from operator import methodcaller
from typing import Any, Final, Protocol

from runlease_core.commands import CompareAndSet, Create, Delete
from runlease_core.decide import State, decide
from runlease_core.errors import (
    RunConflictError,
    RunIntegrityError,
    RunStoreAtomicRequiredError,
    RunStoreError,
)
from runlease_core.fields import check_counter, check_run_id, check_text, malformed
from runlease_core.parsing import parse_record, strict_json
from runlease_core.record import RunRecord, Tombstone, record_to_text
from runlease_core.steps import Steps, run_steps, run_steps_async
from runlease_core.store import (
    ANY_INSTANT,
    SWAP_TRIES_MAX,
    Atomicity,
    check_atomicity,
    swapped_in,
)

KEY_PREFIX_LENGTH_MAX: Final = 255


class KeyValueStore(Protocol):
    """The memory that an application has already: text by key, swapped by comparison."""

    def get(self, key: str) -> str | None:
        """The text, or None when there is none."""
        ...

    def compare_and_set(self, key: str, expected: str | None, value: str) -> bool:
        """Put the text when the key holds exactly `expected`; None expects no value."""
        ...


class AsyncKeyValueStore(Protocol):
    """`KeyValueStore` with awaitable methods."""

    async def get(self, key: str) -> str | None:
        """As `KeyValueStore.get`."""
        ...

    async def compare_and_set(self, key: str, expected: str | None, value: str) -> bool:
        """As `KeyValueStore.compare_and_set`."""
        ...


class _KeyedRecords:
    """Which key, which text, and the steps of every call."""

    def __init__(self, store: object, atomicity: Atomicity, key_prefix: str) -> None:
        for method in ("compare_and_set", "get"):
            if not callable(getattr(store, method, None)):
                raise RunStoreAtomicRequiredError(
                    f"{type(store).__name__} has no {method}, so it cannot hold run records"
                )
        check_atomicity(atomicity)
        check_text(key_prefix, "key_prefix", length_min=0, length_max=KEY_PREFIX_LENGTH_MAX)
        self._store: Any = store
        self._atomicity: Atomicity = atomicity
        self._key_prefix = key_prefix

    @property
    def atomicity(self) -> Atomicity:
        """Among whom the backing store's `compare_and_set` is atomic, as declared."""
        return self._atomicity

    def _key(self, run_id: str) -> str:
        return self._key_prefix + check_run_id(run_id)

    def _read(self, run_id: str) -> Steps[State]:
        key = self._key(run_id)
        return _state_from_text((yield methodcaller("get", key)), run_id, key)

    def _get(self, run_id: str) -> Steps[RunRecord | None]:
        state = yield from self._read(run_id)
        return state if isinstance(state, RunRecord) else None

    def _tombstone(self, run_id: str) -> Steps[Tombstone | None]:
        state = yield from self._read(run_id)
        return state if isinstance(state, Tombstone) else None

    def _write(self, command: Create | CompareAndSet | Delete) -> Steps[bool]:
        key = self._key(command.run_id)
        for _ in range(SWAP_TRIES_MAX):
            text = yield methodcaller("get", key)
            state = _state_from_text(text, command.run_id, key)
            if (write := swapped_in(decide(state, command, ANY_INSTANT))) is None:
                return False
            if (yield methodcaller("compare_and_set", key, text, _state_to_text(write))):
                return True
        raise RunConflictError(
            f"{key!r} changed {SWAP_TRIES_MAX} times between read and write; try again"
        )

    def _create(self, record: RunRecord) -> Steps[bool]:
        return (yield from self._write(Create(run_id=record.run_id, record=record)))

    def _compare_and_set(
        self, run_id: str, expected_version: int, next_record: RunRecord
    ) -> Steps[bool]:
        command = CompareAndSet(
            run_id=run_id, expected_version=expected_version, record=next_record
        )
        return (yield from self._write(command))

    def _delete(self, run_id: str) -> Steps[None]:
        yield from self._write(Delete(run_id=run_id, force=True))


class MemoryStoreRunStore(_KeyedRecords):
    """Run records as JSON text in any key-value store that can compare and set.

    Args:
        store: The backing `KeyValueStore`.
        atomicity: What the backing store honestly gives; `cross-process` only when its
            `compare_and_set` excludes writers in other processes.
        key_prefix: What every key begins with.

    Raises:
        RunStoreAtomicRequiredError: RUN_STORE_ATOMIC_REQUIRED, the store has no
            `compare_and_set`; use one that has.
    """

    def __init__(
        self,
        store: KeyValueStore,
        *,
        atomicity: Atomicity = "process",
        key_prefix: str = "run:",
    ) -> None:
        super().__init__(store, atomicity, key_prefix)

    def get(self, run_id: str) -> RunRecord | None:
        """As `RunStore.get`."""
        return run_steps(self._get(run_id), self._store)

    def tombstone(self, run_id: str) -> Tombstone | None:
        """As `DeletingRunStore.tombstone`."""
        return run_steps(self._tombstone(run_id), self._store)

    def create(self, record: RunRecord) -> bool:
        """As `MemoryRunStore.create`."""
        return run_steps(self._create(record), self._store)

    def compare_and_set(self, run_id: str, expected_version: int, next_record: RunRecord) -> bool:
        """As `MemoryRunStore.compare_and_set`."""
        return run_steps(self._compare_and_set(run_id, expected_version, next_record), self._store)

    def delete(self, run_id: str) -> None:
        """As `MemoryRunStore.delete`."""
        run_steps(self._delete(run_id), self._store)


class AsyncMemoryStoreRunStore(_KeyedRecords):
    """`MemoryStoreRunStore` over a key-value store with awaitable methods."""

    def __init__(
        self,
        store: AsyncKeyValueStore,
        *,
        atomicity: Atomicity = "process",
        key_prefix: str = "run:",
    ) -> None:
        super().__init__(store, atomicity, key_prefix)

    async def get(self, run_id: str) -> RunRecord | None:
        """As `RunStore.get`."""
        return await run_steps_async(self._get(run_id), self._store)

    async def tombstone(self, run_id: str) -> Tombstone | None:
        """As `DeletingRunStore.tombstone`."""
        return await run_steps_async(self._tombstone(run_id), self._store)

    async def create(self, record: RunRecord) -> bool:
        """As `MemoryRunStore.create`."""
        return await run_steps_async(self._create(record), self._store)

    async def compare_and_set(
        self, run_id: str, expected_version: int, next_record: RunRecord
    ) -> bool:
        """As `MemoryRunStore.compare_and_set`."""
        steps = self._compare_and_set(run_id, expected_version, next_record)
        return await run_steps_async(steps, self._store)

    async def delete(self, run_id: str) -> None:
        """As `MemoryRunStore.delete`."""
        await run_steps_async(self._delete(run_id), self._store)


def _state_to_text(state: RunRecord | Tombstone) -> str:
    if isinstance(state, RunRecord):
        return record_to_text(state)
    tombstone = {"runId": state.run_id, "fencingToken": state.fencing_token}
    return json.dumps({"tombstone": tombstone}, ensure_ascii=False, separators=(",", ":"))


def _state_from_text(text: object, run_id: str, key: str) -> State:
    if text is None:
        return None
    try:
        if not isinstance(text, str):
            raise malformed("value", f"must be text, not {type(text).__name__}")
        state = _parse_state(strict_json(text))
    except (RunStoreError, ValueError, OverflowError) as error:
        raise RunIntegrityError(
            f"the value under {key!r} is no run record: {error}; repair it"
        ) from error
    if state.run_id != run_id:
        raise RunIntegrityError(
            f"the value under {key!r} belongs to run {state.run_id!r}; repair it"
        )
    return state


def _parse_state(data: object) -> RunRecord | Tombstone:
    match data:
        case {"tombstone": {"runId": run_id, "fencingToken": fencing_token, **more}, **others}:
            if more or others:
                raise malformed("tombstone", "holds an unknown field")
            return Tombstone(check_run_id(run_id), check_counter(fencing_token, "fencingToken"))
        case _:
            return parse_record(data)
