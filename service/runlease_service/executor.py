"""How a command runs: queue, batch, judge, commit, answer (design, section 6).

The executor runs at its own pace. A lane takes everything that waits, up to a bound, hands the
runs to the database, decides each command in order of arrival under the database's transaction
(several commands on one run see each other), and answers only after the commit. One command alone
does not wait for company. Runs are hashed to lanes, so that one run never races itself.

What it tolerates: a poisoned command (a row or a constraint that breaks a batch) costs no other,
since a batch that fails as a whole is run again command by command; a database that hangs (whoever
waits too long is answered "unavailable, unknown outcome"); a caller that has gone (what had not
begun is dropped); another replica at the same run (its commands alone go round again, until their
time is up). What it bounds: the queue, the batch and the wait. It promises no order between
requests that are in flight at the same time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import structlog

from runlease_core.commands import AnyCommand, Create
from runlease_core.decide import Decision, Refused, State, Write, decide
from runlease_core.errors import Code
from runlease_service.database.base import (
    Change,
    Corrupt,
    Database,
    DatabaseUnavailableError,
)

log = structlog.get_logger()

AGAIN_S: Final = 0.01
"""How long a command waits that goes round again, in seconds."""
SWEEP_S: Final = 0.25
"""How often waits are compared with their bound, in seconds."""


class OverloadedError(Exception):
    """The queue is full or the service is stopping; nothing was done. Send it again later."""


class Answer(NamedTuple):
    """What was decided, and the instant by which it was judged."""

    decision: Decision
    now: datetime


class _Waiter:
    """Whoever waits for some commands: told once, when the last of them is settled."""

    __slots__ = ("future", "left")

    def __init__(self, future: asyncio.Future[None], left: int) -> None:
        self.future = future
        self.left = left

    def settled(self) -> None:
        self.left -= 1
        if not self.left and not self.future.done():
            self.future.set_result(None)


class _Item:
    """One waiting command, and what became of it.

    The judge, which may run in a thread of the database's, writes `answer` alone; it becomes the
    `outcome` in the event loop, after the commit, unless time ran out before.
    """

    __slots__ = ("answer", "command", "deadline", "outcome", "waiter")

    def __init__(self, command: AnyCommand, waiter: _Waiter, deadline: float) -> None:
        self.command = command
        self.waiter = waiter
        self.deadline = deadline
        self.answer: Answer | Exception | None = None
        self.outcome: Answer | Exception | None = None

    @property
    def is_wanted(self) -> bool:
        """Whether anybody still waits for it."""
        return self.outcome is None and not self.waiter.future.done()

    def settle(self) -> None:
        if self.outcome is None:
            undecided = AssertionError("the database did not judge this command")
            self.outcome = undecided if self.answer is None else self.answer
            self.waiter.settled()

    def fail(self, failure: Exception) -> None:
        if self.outcome is None:
            self.outcome = failure
            self.waiter.settled()


class _Lane:
    """Commands that wait for one writer: single ones and slices of large requests, which share a
    batch evenly, so that a request with a thousand leases never stalls the others."""

    def __init__(self) -> None:
        self.single: deque[_Item] = deque()
        self.bulk: deque[_Item] = deque()
        self.flying: list[_Item] = []
        self.waiting_again: dict[_Item, None] = {}
        self.wakeup = asyncio.Event()

    def take(self, most: int) -> list[_Item]:
        bulk_most = most // 2 if self.single else most
        batch = [self.bulk.popleft() for _ in range(min(bulk_most, len(self.bulk)))]
        batch += [self.single.popleft() for _ in range(min(most - len(batch), len(self.single)))]
        return batch


class Executor:
    """Runs commands in batches on a database.

    Args:
        database: An open database.
        batch_commands_max: How many commands one transaction takes at most.
        queue_depth_max: How many commands may wait; one more is refused at once.
        wait_ms_max: How long a command may take from its arrival, in milliseconds.
    """

    def __init__(
        self,
        database: Database,
        *,
        batch_commands_max: int = 512,
        queue_depth_max: int = 10_000,
        wait_ms_max: int = 10_000,
    ) -> None:
        self._database = database
        self._batch_commands_max = batch_commands_max
        self._queue_depth_max = queue_depth_max
        self._wait_s_max = wait_ms_max / 1000
        self._lanes = [_Lane() for _ in range(database.lanes)]
        self._tasks: list[asyncio.Task[None]] = []
        self._depth = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Begin to serve, on the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._tasks = [
            self._loop.create_task(self._run(number)) for number in range(len(self._lanes))
        ]
        self._tasks.append(self._loop.create_task(self._sweep()))

    async def stop(self) -> None:
        """Accept nothing more, finish what is queued, then end."""
        if self._loop is None:
            return
        self._loop = None
        *lanes, sweep = self._tasks
        for lane in self._lanes:
            lane.wakeup.set()
        await asyncio.gather(*lanes)
        sweep.cancel()
        await asyncio.gather(sweep, return_exceptions=True)

    async def execute(self, command: AnyCommand) -> Answer:
        """Decide one command; returns after its batch is committed.

        Raises:
            OverloadedError: Nothing was done.
            DatabaseUnavailableError: The outcome is unknown; the command is safe to repeat.
        """
        (answer,) = await self._decide([command], bulk=False)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def execute_all(self, commands: Sequence[AnyCommand]) -> list[Answer | Exception]:
        """Decide many commands, each for itself; one answer or failure each, in order.

        Raises:
            OverloadedError: They do not all fit into the queue; nothing was done.
        """
        return await self._decide(commands, bulk=True)

    async def _decide(
        self, commands: Sequence[AnyCommand], *, bulk: bool
    ) -> list[Answer | Exception]:
        if not commands:
            return []
        loop = self._loop
        if loop is None:
            raise OverloadedError("the service is stopping")
        if self._depth + len(commands) > self._queue_depth_max:
            raise OverloadedError("too many commands are waiting")
        waiter = _Waiter(loop.create_future(), len(commands))
        deadline = loop.time() + self._wait_s_max
        items = [_Item(command, waiter, deadline) for command in commands]
        for item in items:
            lane = self._lanes[hash(item.command.run_id) % len(self._lanes)]
            (lane.bulk if bulk else lane.single).append(item)
            lane.wakeup.set()
        self._depth += len(items)
        await waiter.future
        return [item.outcome for item in items if item.outcome is not None]

    async def _run(self, number: int) -> None:
        lane = self._lanes[number]
        while True:
            batch = lane.take(self._batch_commands_max)
            self._depth -= len(batch)
            if batch:
                lane.flying = batch
                await self._run_batch([item for item in batch if item.is_wanted], number)
                lane.flying = []
            elif self._loop is None and not lane.waiting_again:
                return
            else:
                lane.wakeup.clear()
                await lane.wakeup.wait()

    async def _run_batch(self, batch: list[_Item], number: int) -> None:
        if not batch:
            return
        run_ids = list({item.command.run_id: None for item in batch})
        try:
            undecided = await self._database.apply(
                run_ids, lambda states, now: _judge(batch, states, now), number
            )
        except DatabaseUnavailableError as error:
            for item in batch:
                if error.recovered and is_safe_to_repeat(item.command):
                    self._again(item, number)
                else:
                    item.fail(error)
        except Exception as error:
            if len(batch) == 1:
                log.exception("command_broken", command=type(batch[0].command).__name__)
                batch[0].fail(error)
            else:
                for item in batch:
                    item.answer = None
                    await self._run_batch([item], number)
        else:
            for item in batch:
                if item.command.run_id in undecided:
                    self._again(item, number)
                else:
                    item.settle()

    def _again(self, item: _Item, number: int) -> None:
        """Let a command wait a moment, then take its place at the end of its lane."""
        lane = self._lanes[number]
        item.answer = None
        lane.waiting_again[item] = None
        self._depth += 1

        def back() -> None:
            del lane.waiting_again[item]
            lane.single.append(item)
            lane.wakeup.set()

        asyncio.get_running_loop().call_later(AGAIN_S, back)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            now = asyncio.get_running_loop().time()
            late = DatabaseUnavailableError("the command took too long; its outcome is unknown")
            for lane in self._lanes:
                for items in (lane.flying, lane.waiting_again, lane.single, lane.bulk):
                    for item in items:
                        if item.deadline <= now:
                            item.fail(late)


def is_safe_to_repeat(command: AnyCommand) -> bool:
    """Whether a command may be judged again when its first outcome is unknown.

    One that names a version would meet the version that it made itself, and be refused although
    it was done; the seam's writes likewise. Their caller is told that the outcome is unknown.
    """
    return command.expected_version is None and not isinstance(command, Create)


def _judge(
    batch: Sequence[_Item], states: Mapping[str, State | Corrupt], now: datetime
) -> dict[str, Change]:
    """Decide the batch's commands on these runs in order of arrival."""
    changes: dict[str, Change] = {}
    for item in batch:
        run_id = item.command.run_id
        if run_id not in states:
            continue
        before = states[run_id]
        if isinstance(before, Corrupt):
            item.answer = Answer(Refused(Code.RUN_INTEGRITY_ERROR, before.detail), now)
            continue
        state = changes[run_id].after if run_id in changes else before
        try:
            decision = decide(state, item.command, now)
        except Exception as error:
            log.exception("command_broken", command=type(item.command).__name__)
            item.answer = error
            continue
        if isinstance(decision, Write):
            changes[run_id] = Change(before, decision.next)
        item.answer = Answer(decision, now)
    return changes
