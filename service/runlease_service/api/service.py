"""What the endpoints share: the executor and the database behind one door for commands.

Started once, by the application's lifespan or, where nothing runs that, by the first request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Annotated, Final

import structlog
from fastapi import Depends, Request

from runlease_core.commands import Acquire, AnyCommand, FenceCheckpoint, Fenced, Renew
from runlease_core.decide import Converged, Forbidden, Refused, Write
from runlease_core.fields import malformed
from runlease_core.record import RunRecord, Tombstone
from runlease_service.api.problems import (
    ProblemError,
    ServiceCode,
    problem_from_refusal,
    unavailable,
)
from runlease_service.auth.access import PRINCIPAL
from runlease_service.database.base import Database, DatabaseUnavailableError
from runlease_service.executor import Answer, Executor, OverloadedError
from runlease_service.settings import Settings

log = structlog.get_logger()

REQUEST_ID: Final[ContextVar[str]] = ContextVar("request_id", default="")
"""The id of the request that is being answered, for the log."""


class Service:
    """The executor, the database and the settings, with refusals as problems."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self.settings = settings
        self.database = database
        self._executor = Executor(
            database,
            batch_commands_max=settings.batch_commands_max,
            queue_depth_max=settings.queue_depth_max,
            wait_ms_max=settings.request_wait_ms_max,
        )
        self._starting: asyncio.Task[None] | None = None
        self.started = False
        self.stopped = False

    async def start(self) -> None:
        """Open the database and begin to serve; at once when that is done already."""
        if self.started:
            return
        if self._starting is None or self._starting.done():
            self._starting = asyncio.create_task(self._start())
        await asyncio.shield(self._starting)

    async def _start(self) -> None:
        await self.database.open()
        self._executor.start()
        self.started = True

    async def stop(self) -> None:
        """Finish what is queued, then close the database."""
        if self.started and not self.stopped:
            self.stopped = True
            await self._executor.stop()
            await self.database.close()

    def lease_ttl_ms(self, given: int | None) -> int:
        """The lease's length: the default, or the caller's within the settings' bounds."""
        settings = self.settings
        if given is None:
            return settings.lease_ttl_ms_default
        if not settings.lease_ttl_ms_min <= given <= settings.lease_ttl_ms_max:
            raise malformed(
                "leaseTtlMs",
                f"must be between {settings.lease_ttl_ms_min} and {settings.lease_ttl_ms_max}",
            )
        return given

    async def execute(self, command: AnyCommand) -> Answer:
        """Decide one command. A refusal, a full queue or a database that is away is a problem."""
        allow(command.run_id)
        command = on_behalf(command)
        try:
            answer = await self._executor.execute(command)
        except (OverloadedError, DatabaseUnavailableError) as error:
            raise unavailable(str(error)) from error
        log_change(command, answer)
        if problem := refusal(answer):
            raise problem
        return answer

    async def execute_all(self, commands: Sequence[AnyCommand]) -> list[Answer | ProblemError]:
        """Decide many commands, each for itself."""
        allowed = [one for one in commands if covers(one.run_id)]
        try:
            answers = await self._executor.execute_all([on_behalf(one) for one in allowed])
        except OverloadedError as error:
            raise unavailable(str(error)) from error
        if len(allowed) == len(commands):
            return [_settled(answer) for answer in answers]
        settled = iter(answers)
        return [_settled(next(settled)) if covers(one.run_id) else outside() for one in commands]


def covers(run_id: str) -> bool:
    """Whether whoever asks may know of this run."""
    principal = PRINCIPAL.get()
    return principal is None or principal.covers(run_id)


def outside() -> ProblemError:
    """403 for an id outside of the caller's prefixes, whether there is such a run or not."""
    return ProblemError(ServiceCode.FORBIDDEN, "the credential's prefixes do not cover this run")


def allow(run_id: str) -> None:
    """Return when whoever asks may know of this run."""
    if not covers(run_id):
        raise outside()


def on_behalf(command: AnyCommand) -> AnyCommand:
    """The command with the credential that gives it: a lease belongs to whoever took it."""
    principal = PRINCIPAL.get()
    if principal is None or not isinstance(command, Acquire | Fenced):
        return command
    return replace(command, subject=principal.subject)


def refusal(answer: Answer) -> ProblemError | None:
    """The problem that the caller is told, if the command was refused."""
    decision = answer.decision
    if isinstance(decision, Forbidden):
        return ProblemError(ServiceCode.FORBIDDEN, decision.detail)
    refused = decision.refusal if isinstance(decision, Write) else decision
    return problem_from_refusal(refused, answer.now) if isinstance(refused, Refused) else None


def record_of(answer: Answer) -> RunRecord:
    """The record after a command that was not refused and left one."""
    decision = answer.decision
    record = decision.next if isinstance(decision, Write) else None
    if isinstance(decision, Converged):
        record = decision.record
    assert isinstance(record, RunRecord), "the command left no record"
    return record


def is_created(answer: Answer) -> bool:
    """Whether the command made the run."""
    return isinstance(answer.decision, Write) and answer.decision.created


def log_change(command: AnyCommand, answer: Answer) -> None:
    """One line for each change of ownership or lifecycle; renewals are not worth one."""
    decision = answer.decision
    if not isinstance(decision, Write) or isinstance(command, Renew | FenceCheckpoint):
        return
    after = decision.next
    fields: dict[str, str | int] = {"fencing_token": after.fencing_token}
    if isinstance(after, Tombstone):
        fields["status"] = "deleted"
    else:
        fields |= {"status": after.status.value, "version": after.version}
        if after.lease:
            fields["owner"] = after.lease.owner
    if message := getattr(command, "message", None):
        fields["message"] = message
    log.info(
        "run_changed",
        command=type(command).__name__,
        run_id=command.run_id,
        request_id=REQUEST_ID.get(),
        **fields,
    )


def _settled(answer: Answer | Exception) -> Answer | ProblemError:
    if isinstance(answer, Answer):
        return refusal(answer) or answer
    if isinstance(answer, DatabaseUnavailableError):
        return unavailable(str(answer))
    return ProblemError(ServiceCode.INTERNAL_ERROR, "the command could not be decided")


async def started_service(request: Request) -> Service:
    """The application's service, started."""
    service: Service = request.app.state.service
    if not service.started:
        await service.start()
    return service


ServiceParam = Annotated[Service, Depends(started_service)]
