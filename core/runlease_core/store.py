"""Where records live: the `RunStore` seam and the stores that need nothing but Python.

A store keeps records, one per run, and swaps them by version. Leases, lifecycle and who may do
what live above the seam, in the ledger. The stores here ask `decide` all the same, so that no raw
write breaks what is always true of a run (design, section 7), and they keep the token of a deleted
run, so that it never comes back.

`atomicity` is a claim, not a hint: `cross-process` says that `compare_and_set` excludes writers in
other processes. Nothing here can check that, so an adapter claims it only when told to.
"""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from operator import methodcaller
from typing import Any, Final, Literal, Protocol, TypeAlias, runtime_checkable

from runlease_core.commands import CompareAndSet, Create, Delete
from runlease_core.decide import Converged, Decision, Refused, State, Write, decide
from runlease_core.errors import (
    Code,
    RunConflictError,
    RunIntegrityError,
    RunStoreAtomicRequiredError,
    RunStoreError,
    error_for,
)
from runlease_core.fields import check_counter, check_run_id, check_text, malformed
from runlease_core.parsing import record_from_text, strict_json
from runlease_core.record import RunRecord, Tombstone, record_to_text
from runlease_core.steps import Steps, run_steps, run_steps_async

Atomicity: TypeAlias = Literal["process", "cross-process"]

ATOMICITIES: Final = ("process", "cross-process")
SWAP_TRIES_MAX: Final = 64
"""How often a lost compare-and-set is decided anew. Each loss is somebody else's progress."""

KEY_PREFIX_LENGTH_MAX: Final = 255
_ANY_INSTANT: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The seam's commands are judged without a clock: only a ledger knows whether a lease is live."""


class RunStore(Protocol):
    """One authoritative record per run, inserted when absent and swapped by version."""

    @property
    def atomicity(self) -> Atomicity:
        """Among whom `compare_and_set` is atomic: an honest claim, not a hint."""
        ...

    def get(self, run_id: str) -> RunRecord | None:
        """The record, or None when there is none.

        Raises:
            RunIntegrityError: RUN_INTEGRITY_ERROR, the stored value is no record of this run;
                repair it. It is never reported as absent.
        """
        ...

    def create(self, record: RunRecord) -> bool:
        """Insert the record when the run does not exist; False when it does."""
        ...

    def compare_and_set(
        self, run_id: str, expected_version: int, next_record: RunRecord
    ) -> bool:
        """Swap the record in when the stored version is the expected one, else False.

        `next_record.version` must be `expected_version + 1`.
        """
        ...


class AsyncRunStore(Protocol):
    """`RunStore` with awaitable methods."""

    @property
    def atomicity(self) -> Atomicity:
        """As `RunStore.atomicity`."""
        ...

    async def get(self, run_id: str) -> RunRecord | None:
        """As `RunStore.get`."""
        ...

    async def create(self, record: RunRecord) -> bool:
        """As `RunStore.create`."""
        ...

    async def compare_and_set(
        self, run_id: str, expected_version: int, next_record: RunRecord
    ) -> bool:
        """As `RunStore.compare_and_set`."""
        ...


@runtime_checkable
class DeletingRunStore(Protocol):
    """The optional part of the seam: a store that deletes also keeps the last token."""

    def delete(self, run_id: str) -> None:
        """Remove the run, whoever holds it; nothing when there is none."""
        ...

    def tombstone(self, run_id: str) -> Tombstone | None:
        """What a deleted run left behind, when no run stands in its place."""
        ...


@runtime_checkable
class AsyncDeletingRunStore(Protocol):
    """`DeletingRunStore` with awaitable methods."""

    async def delete(self, run_id: str) -> None:
        """As `DeletingRunStore.delete`."""
        ...

    async def tombstone(self, run_id: str) -> Tombstone | None:
        """As `DeletingRunStore.tombstone`."""
        ...


def check_run_store(store: object, name: str = "store") -> None:
    """Refuse what cannot be a run store.

    Raises:
        RunStoreAtomicRequiredError: RUN_STORE_ATOMIC_REQUIRED, it has no `compare_and_set`; use
            a store that swaps atomically.
        RunValidationError: RUN_VALIDATION_ERROR, something else is missing; name a real store.
    """
    for method in ("get", "create"):
        if not callable(getattr(store, method, None)):
            raise malformed(name, f"must be a run store, and has no {method}")
    if not callable(getattr(store, "compare_and_set", None)):
        raise RunStoreAtomicRequiredError(
            f"{name}: {type(store).__name__} has no compare_and_set, so it cannot hold leases"
        )
    check_atomicity(getattr(store, "atomicity", None), f"{name}.atomicity")


def check_atomicity(value: object, name: str = "atomicity") -> None:
    """Refuse anything but the two claims that a store may make."""
    if value not in ATOMICITIES:
        raise malformed(name, "must be 'process' or 'cross-process'")


class MemoryRunStore:
    """Records in this process's memory, for tests and single-process work; thread-safe.

    It lives and dies with the process, and keeps one tombstone for every run ever deleted.
    """

    atomicity: Final[Literal["process"]] = "process"

    def __init__(self) -> None:
        self._states: dict[str, RunRecord | Tombstone] = {}
        self._lock = threading.Lock()

    def get(self, run_id: str) -> RunRecord | None:
        """The record, or None when there is none."""
        state = self._states.get(check_run_id(run_id))
        return state if isinstance(state, RunRecord) else None

    def tombstone(self, run_id: str) -> Tombstone | None:
        """What a deleted run left behind, when no run stands in its place."""
        state = self._states.get(check_run_id(run_id))
        return state if isinstance(state, Tombstone) else None

    def create(self, record: RunRecord) -> bool:
        """Insert the record when the run does not exist; False when it does.

        Raises:
            RunValidationError: RUN_VALIDATION_ERROR, its token is not above the last one of a
                deleted run; make the run through a ledger, or give it a higher token.
        """
        return self._write(Create(run_id=record.run_id, record=record))

    def compare_and_set(
        self, run_id: str, expected_version: int, next_record: RunRecord
    ) -> bool:
        """Swap the record in when the stored version is the expected one, else False.

        Raises:
            RunValidationError: RUN_VALIDATION_ERROR, the record is another run's or its version
                is not the next; mend it.
            RunAlreadyTerminalError: RUN_ALREADY_TERMINAL, the run is finished for ever.
            RunInvalidTransitionError: RUN_INVALID_TRANSITION, the swap breaks what is always
                true of a run; read again and change less.
        """
        return self._write(
            CompareAndSet(run_id=run_id, expected_version=expected_version, record=next_record)
        )

    def delete(self, run_id: str) -> None:
        """Remove the run, whoever holds it; its last token stays behind."""
        self._write(Delete(run_id=run_id, force=True))

    def _write(self, command: Create | CompareAndSet | Delete) -> bool:
        with self._lock:
            decision = decide(self._states.get(command.run_id), command, _ANY_INSTANT)
            if (write := _swap_in(decision)) is None:
                return False
            self._states[command.run_id] = write
            return True


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
    """Run records in a key-value store: which key, which text, and the steps of every call.

    A tombstone takes the record's place under the same key by the same compare-and-set, so that
    deletion races with nothing and a token never comes back. The key-value store's own `delete`
    is not used. An acquire's idempotency key is not kept.
    """

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
            if (write := _swap_in(decide(state, command, _ANY_INSTANT))) is None:
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

    def compare_and_set(
        self, run_id: str, expected_version: int, next_record: RunRecord
    ) -> bool:
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


def _swap_in(decision: Decision) -> RunRecord | Tombstone | None:
    """What a raw write stores, or None for "not swapped"; every other refusal is raised."""
    match decision:
        case Write(next=state):
            return state
        case Converged() | Refused(code=Code.RUN_CONFLICT | Code.RUN_NOT_FOUND):
            return None
        case Refused(code, detail, record):
            raise error_for(code, detail, record)


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
        state = _tombstone_from_text(text) or record_from_text(text)
    except (RunStoreError, ValueError, OverflowError) as error:
        raise RunIntegrityError(
            f"the value under {key!r} is no run record: {error}; repair it"
        ) from error
    if state.run_id != run_id:
        raise RunIntegrityError(
            f"the value under {key!r} belongs to run {state.run_id!r}; repair it"
        )
    return state


def _tombstone_from_text(text: str) -> Tombstone | None:
    match strict_json(text):
        case {"tombstone": {"runId": run_id, "fencingToken": fencing_token, **more}, **others}:
            if more or others:
                raise malformed("tombstone", "holds an unknown field")
            return Tombstone(check_run_id(run_id), check_counter(fencing_token, "fencingToken"))
        case _:
            return None
