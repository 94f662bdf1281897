"""Where records live: the `RunStore` seam and the stores that need nothing but Python.

A store keeps records, one per run, and swaps them by version. Leases, lifecycle and who may do
what live above the seam, in the ledger. The stores here ask `decide` all the same, so that no raw
write breaks what is always true of a run (design, section 7), and they keep the token of a deleted
run, so that it never comes back.

`atomicity` is a claim, not a hint: `cross-process` says that `compare_and_set` excludes writers in
other processes. Nothing here can check that, so an adapter claims it only when told to.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import Final, Literal, Protocol, TypeAlias, runtime_checkable

from runlease_core.commands import CompareAndSet, Create, Delete
from runlease_core.decide import Converged, Decision, Forbidden, Refused, Write, decide
from runlease_core.errors import (
    Code,
    RunStoreAtomicRequiredError,
    error_for,
)
from runlease_core.fields import check_run_id, malformed
from runlease_core.record import RunRecord, Tombstone

Atomicity: TypeAlias = Literal["process", "cross-process"]

ATOMICITIES: Final = ("process", "cross-process")
SWAP_TRIES_MAX: Final = 64
"""How often a lost compare-and-set is decided anew. Each loss is somebody else's progress."""

ANY_INSTANT: Final = datetime(1970, 1, 1, tzinfo=UTC)
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

    def compare_and_set(self, run_id: str, expected_version: int, next_record: RunRecord) -> bool:
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

    atomicity: Final = "process"

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

    def compare_and_set(self, run_id: str, expected_version: int, next_record: RunRecord) -> bool:
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
            decision = decide(self._states.get(command.run_id), command, ANY_INSTANT)
            if (write := swapped_in(decision)) is None:
                return False
            self._states[command.run_id] = write
            return True


def swapped_in(decision: Decision) -> RunRecord | Tombstone | None:
    """What a raw write stores, or None for "not swapped"; every other refusal is raised."""
    match decision:
        case Write(next=state):
            return state
        case Converged() | Refused(code=Code.RUN_CONFLICT | Code.RUN_NOT_FOUND):
            return None
        case Refused(code, detail, record):
            raise error_for(code, detail, record)
        case Forbidden(detail):
            raise PermissionError(detail)
