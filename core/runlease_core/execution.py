"""How a ledger has its commands carried out.

`CommandExecutor` is the seam: it takes a command and answers with the record that stands after
it, or raises the refusal. Over a `RunStore` that means read, decide, swap, and again when somebody
else was faster; a remote executor sends the command to a service that does the same. The ledger
above does not care which.

The seam of a store shows no tombstone in `get`, so one is asked for where a run is absent and the
store keeps any. A store's delete takes no version: a lease granted between the check and the
delete goes with the run, and the tombstone fences its owner.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import methodcaller
from typing import Any, Final, Protocol, assert_never, runtime_checkable

from runlease_core.clock import Clock
from runlease_core.commands import AnyCommand, Renew
from runlease_core.decide import Converged, Forbidden, Refused, State, Write, decide
from runlease_core.errors import (
    Code,
    RunAlreadyTerminalError,
    RunConflictError,
    RunIntegrityError,
    RunInvalidTransitionError,
    RunStoreError,
    RunValidationError,
    error_for,
)
from runlease_core.fields import check_run_id, malformed
from runlease_core.record import RunRecord, Tombstone
from runlease_core.steps import Step, Steps, run_steps, run_steps_async
from runlease_core.store import SWAP_TRIES_MAX, check_run_store

_SEAM_REFUSALS: Final = (RunAlreadyTerminalError, RunInvalidTransitionError, RunValidationError)
"""What a guarding store says when the run was deleted or made again since it was read."""


@runtime_checkable
class CommandExecutor(Protocol):
    """Carries out commands, wherever the records are."""

    def get(self, run_id: str) -> RunRecord | None:
        """The record, or None when there is none."""
        ...

    def execute(
        self, command: AnyCommand, *, wait_seconds: float | None = None
    ) -> RunRecord | None:
        """The record after the command, None after a delete; a refusal is raised by its code.

        What crosses a network is tried again for `wait_seconds`, at least once.
        """
        ...


@runtime_checkable
class LeaseRenewer(Protocol):
    """Renews many leases at once."""

    def renew_all(
        self, renewals: Sequence[Renew], *, wait_seconds: float
    ) -> Sequence[RunRecord | Exception]:
        """For each the record, or why it was not renewed; raises when none could be asked for."""
        ...


@runtime_checkable
class AsyncCommandExecutor(Protocol):
    """`CommandExecutor` with awaitable methods."""

    async def get(self, run_id: str) -> RunRecord | None:
        """As `CommandExecutor.get`."""
        ...

    async def execute(
        self, command: AnyCommand, *, wait_seconds: float | None = None
    ) -> RunRecord | None:
        """As `CommandExecutor.execute`."""
        ...


class _OnStore:
    """What both executors know: the store, the clock and the steps of a command."""

    def __init__(self, store: object, clock: Clock) -> None:
        check_run_store(store)
        self._store: Any = store
        self._clock = clock

    def _steps(self, command: AnyCommand) -> Steps[RunRecord | None]:
        return _execute(
            command,
            self._clock,
            keeps_tombstones=callable(getattr(self._store, "tombstone", None)),
            deletes=callable(getattr(self._store, "delete", None)),
        )


class StoreExecutor(_OnStore):
    """Commands carried out on a `RunStore`: read, decide, swap."""

    def get(self, run_id: str) -> RunRecord | None:
        """As `CommandExecutor.get`."""
        return run_steps(_read(check_run_id(run_id)), self._store)

    def execute(
        self, command: AnyCommand, *, wait_seconds: float | None = None
    ) -> RunRecord | None:
        """As `CommandExecutor.execute`; a store answers or raises in its own time."""
        del wait_seconds
        return run_steps(self._steps(command), self._store)

    def renew_all(
        self, renewals: Sequence[Renew], *, wait_seconds: float
    ) -> Sequence[RunRecord | Exception]:
        """As `LeaseRenewer.renew_all`, one after the other."""
        return [_outcome(self, renewal, wait_seconds) for renewal in renewals]


class AsyncStoreExecutor(_OnStore):
    """The same on a store whose methods may be awaitable."""

    async def get(self, run_id: str) -> RunRecord | None:
        """As `CommandExecutor.get`."""
        return await run_steps_async(_read(check_run_id(run_id)), self._store)

    async def execute(
        self, command: AnyCommand, *, wait_seconds: float | None = None
    ) -> RunRecord | None:
        """As `StoreExecutor.execute`."""
        del wait_seconds
        return await run_steps_async(self._steps(command), self._store)


def renewer_over(executor: CommandExecutor) -> LeaseRenewer:
    """The executor's own way to renew many leases, or one after the other."""
    return executor if isinstance(executor, LeaseRenewer) else _OneByOne(executor)


class _OneByOne:
    def __init__(self, executor: CommandExecutor) -> None:
        self._executor = executor

    def renew_all(
        self, renewals: Sequence[Renew], *, wait_seconds: float
    ) -> Sequence[RunRecord | Exception]:
        return [_outcome(self._executor, renewal, wait_seconds) for renewal in renewals]


def _outcome(
    executor: CommandExecutor, renewal: Renew, wait_seconds: float
) -> RunRecord | Exception:
    try:
        record = executor.execute(renewal, wait_seconds=wait_seconds)
    except Exception as error:  # noqa: BLE001 (whoever renews many tells them apart)
        return error
    assert record is not None, "a renewal leaves a record"
    return record


def _read(run_id: str) -> Steps[RunRecord | None]:
    """What a store hands out is checked like what goes in: it is this run's record, or none."""
    record = yield methodcaller("get", run_id)
    if record is None:
        return None
    if not isinstance(record, RunRecord):
        raise RunIntegrityError(
            f"the store holds a {type(record).__name__} for run {run_id!r}; repair it"
        )
    if record.run_id != run_id:
        raise RunIntegrityError(
            f"the store holds run {record.run_id!r} in the place of {run_id!r}; repair it"
        )
    return record


def _execute(
    command: AnyCommand, clock: Clock, *, keeps_tombstones: bool, deletes: bool
) -> Steps[RunRecord | None]:
    refusal: RunStoreError | None = None
    refused_state: State = None
    for _ in range(SWAP_TRIES_MAX):
        state: State = yield from _read(command.run_id)
        if state is None and keeps_tombstones:
            state = yield methodcaller("tombstone", command.run_id)
        if refusal is not None and state == refused_state:
            raise refusal
        match decide(state, command, clock.now()):
            case Refused(code, detail, record):
                raise _refusal(code, detail, record, clock)
            case Converged(record):
                return record
            case Write(next=new, refusal=refused):
                if isinstance(new, Tombstone):
                    if not deletes:
                        raise malformed("store", "offers no delete; cancel the run instead")
                    yield methodcaller("delete", command.run_id)
                    return None
                try:
                    swapped = yield _swap(state, new)
                except _SEAM_REFUSALS as error:
                    refusal, refused_state = error, state
                    continue
                if swapped and refused:
                    raise error_for(refused.code, refused.detail, refused.record)
                if swapped:
                    return new
            case Forbidden(detail):
                raise PermissionError(detail)
            case unreachable:
                assert_never(unreachable)
    raise refusal or RunConflictError(
        f"the run changed {SWAP_TRIES_MAX} times between read and write; try again"
    )


def _refusal(code: Code, detail: str, record: RunRecord | None, clock: Clock) -> RunStoreError:
    error = error_for(code, detail, record)
    if code is Code.RUN_LEASE_HELD and record is not None and record.lease is not None:
        error.retry_after_seconds = (record.lease.expires_at - clock.now()).total_seconds()
    return error


def _swap(state: State, new: RunRecord) -> Step:
    if isinstance(state, RunRecord):
        return methodcaller("compare_and_set", state.run_id, state.version, new)
    return methodcaller("create", new)
