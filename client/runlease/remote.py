"""The service behind the core's seams: commands become requests, and answers records or errors.

`RemoteExecutor` sends whole commands, which the service judges by its own clock: what `connect`
uses. `RemoteRunStore` is the plain seam of a store, over which any ledger may decide by itself.
Every command is sent again while its outcome is unknown and its time allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from runlease.errors import UnavailableError
from runlease.exchange import exchange
from runlease.transport import AsyncTransport, Connection, Transport
from runlease.wire import (
    Request,
    batch_answers,
    batch_request,
    batches,
    command_answer,
    command_request,
    get_request,
    read_answer,
)
from runlease_core.commands import (
    AnyCommand,
    CompareAndSet,
    Create,
    Renew,
)
from runlease_core.errors import (
    RunConflictError,
    RunNotFoundError,
)
from runlease_core.record import RunRecord
from runlease_core.store import Atomicity

WAIT_SECONDS: Final = 10.0
"""For how long a command is tried that has no deadline of its own."""
COMMAND_SECONDS_MIN: Final = 2.0
"""What a single attempt is given, also when its lease's time is over: the service decides."""
BATCH_SECONDS_MIN: Final = 0.05
"""The heartbeat's: a deadline that passes must be noticed."""


class RemoteExecutor:
    """Sends commands to the service; a `CommandExecutor` and `LeaseRenewer` of the core's.

    Raises, besides the refusals by their codes:
        UnavailableError: No answer in time; the outcome is unknown, send it again.
        AccessError: The credential does not allow it.
        UnexpectedAnswerError: What answered is not the service.
    """

    def __init__(self, connection: Connection) -> None:
        self._transport = Transport(connection)

    def get(self, run_id: str) -> RunRecord | None:
        """The record, or None when there is none."""
        return read_answer(self._transport.run(_asked(get_request(run_id))))

    def execute(
        self, command: AnyCommand, *, wait_seconds: float | None = None
    ) -> RunRecord | None:
        """The record after the command, None after a delete."""
        return command_answer(
            command, self._transport.run(_asked(command_request(command), wait_seconds))
        )

    def renew_all(
        self, renewals: Sequence[Renew], *, wait_seconds: float
    ) -> Sequence[RunRecord | Exception]:
        """For each lease its record or why it was not renewed, in one request for a thousand."""
        answers: list[RunRecord | Exception] = []
        for batch in batches(renewals):
            asked = exchange(
                batch_request(batch),
                wait_seconds=wait_seconds,
                attempt_seconds_min=BATCH_SECONDS_MIN,
            )
            try:
                answers += batch_answers(batch, self._transport.run(asked))
            except Exception as error:  # noqa: BLE001 (one batch's trouble is not another's)
                answers += [error] * len(batch)
        return answers

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()


class AsyncRemoteExecutor:
    """`RemoteExecutor` for asyncio."""

    def __init__(self, connection: Connection) -> None:
        self._transport = AsyncTransport(connection)

    async def get(self, run_id: str) -> RunRecord | None:
        """As `RemoteExecutor.get`."""
        return read_answer(await self._transport.run(_asked(get_request(run_id))))

    async def execute(
        self, command: AnyCommand, *, wait_seconds: float | None = None
    ) -> RunRecord | None:
        """As `RemoteExecutor.execute`."""
        asked = _asked(command_request(command), wait_seconds)
        return command_answer(command, await self._transport.run(asked))

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()


class RemoteRunStore:
    """The seed's `RunStore` over HTTP: one record per run, swapped by version by the service."""

    def __init__(self, connection: Connection) -> None:
        self._executor = RemoteExecutor(connection)

    @property
    def atomicity(self) -> Atomicity:
        """The service's database decides for all processes."""
        return "cross-process"

    def get(self, run_id: str) -> RunRecord | None:
        """As `RunStore.get`."""
        return self._executor.get(run_id)

    def create(self, record: RunRecord) -> bool:
        """As `RunStore.create`."""
        command = Create(run_id=record.run_id, record=record)
        try:
            self._executor.execute(command)
        except UnavailableError as error:
            return _is_stored(self._executor.get(record.run_id), record, error)
        except RunConflictError:
            return False
        return True

    def compare_and_set(self, run_id: str, expected_version: int, next_record: RunRecord) -> bool:
        """As `RunStore.compare_and_set`."""
        command = CompareAndSet(
            run_id=run_id, expected_version=expected_version, record=next_record
        )
        try:
            self._executor.execute(command)
        except UnavailableError as error:
            return _is_stored(self._executor.get(run_id), next_record, error)
        except (RunConflictError, RunNotFoundError):
            return False
        return True

    def close(self) -> None:
        """Close the connections."""
        self._executor.close()


class AsyncRemoteRunStore:
    """`RemoteRunStore` for asyncio."""

    def __init__(self, connection: Connection) -> None:
        self._executor = AsyncRemoteExecutor(connection)

    @property
    def atomicity(self) -> Atomicity:
        """As `RemoteRunStore.atomicity`."""
        return "cross-process"

    async def get(self, run_id: str) -> RunRecord | None:
        """As `RunStore.get`."""
        return await self._executor.get(run_id)

    async def create(self, record: RunRecord) -> bool:
        """As `RunStore.create`."""
        command = Create(run_id=record.run_id, record=record)
        try:
            await self._executor.execute(command)
        except UnavailableError as error:
            return _is_stored(await self._executor.get(record.run_id), record, error)
        except RunConflictError:
            return False
        return True

    async def compare_and_set(
        self, run_id: str, expected_version: int, next_record: RunRecord
    ) -> bool:
        """As `RunStore.compare_and_set`."""
        command = CompareAndSet(
            run_id=run_id, expected_version=expected_version, record=next_record
        )
        try:
            await self._executor.execute(command)
        except UnavailableError as error:
            return _is_stored(await self._executor.get(run_id), next_record, error)
        except (RunConflictError, RunNotFoundError):
            return False
        return True

    async def close(self) -> None:
        """Close the connections."""
        await self._executor.close()


def _asked(request: Request, wait_seconds: float | None = None) -> Any:  # noqa: ANN401 (an Exchange)
    return exchange(
        request,
        wait_seconds=WAIT_SECONDS if wait_seconds is None else wait_seconds,
        attempt_seconds_min=COMMAND_SECONDS_MIN,
    )


def _is_stored(found: RunRecord | None, wanted: RunRecord, error: UnavailableError) -> bool:
    """Whether a write whose answer was lost stands: nobody else writes the very same record."""
    if found == wanted:
        return True
    if found is not None and found.version >= wanted.version:
        return False
    raise error
