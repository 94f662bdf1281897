"""The heartbeat: renews every open lease of a ledger at a third of its length.

One daemon thread serves a ledger, however many leases it has and whether the program is
synchronous or not: all leases that are due go out together, and a coroutine that blocks its loop
stops no renewal. It starts with the first lease, ends with the last one, and starts again when
another comes. Its ledger owns it, and stops and joins it in `close`. Only a store that has nothing
but awaitable methods is renewed by a task on its own loop.

Whom it trusts. The store, to answer or to raise within the time it is given: a call that hangs
cannot be interrupted from here. The interpreter, to let it run: a C call that keeps the
interpreter's lock also stops the beat.

What it tolerates. Any exception but a loss is taken for a passing trouble: it is logged, and the
lease is tried again after a back-off that grows up to the normal interval, until its deadline. One
lease's trouble is not another's: each has its own schedule. A lease that is being ended is left
alone; a renewal that was under way when the ending began is answered without effect here, since
whoever ends a run decides.

What it does not promise. That the lease is held: `held` judges that by itself, from the last
renewal that succeeded, whether or not this thread still lives. That a loss is noticed at once: it
is noticed at the next renewal, at most a third of the lease's length later while the store
answers. That a process which hangs gives its runs up: as long as this thread runs, they are
renewed; bound the work itself, or let an operator revoke. In a forked child there is no heartbeat,
and nothing inherited is held. The thread is a daemon: it never keeps a program alive, and ends
with it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from runlease_core.clock import Clock
from runlease_core.execution import AsyncCommandExecutor, LeaseRenewer
from runlease_core.local_lease import LocalLease
from runlease_core.record import RunRecord

INTERVALS_PER_LEASE: Final = 3
JITTER: Final = 0.2
"""A renewal comes up to this share of the interval early, so that ledgers do not beat in step."""

TOGETHER_SHARE: Final = 0.5
"""What is due within this share of the interval is renewed along with what is due now."""

RETRY_INTERVAL_SHARE: Final = 1 / 16
RETRY_SECONDS_MIN: Final = 0.01
DOUBLINGS_MAX: Final = 8
WAIT_SECONDS_MAX: Final = 1.0
"""No wait is longer, so that a machine that comes out of suspend renews soon: waits do not count
that time."""

STOP_SECONDS_MAX: Final = 5.0
"""How long `stop` waits for a renewal under way; a store that hangs longer keeps its daemon."""

BEATS_AT_ONCE_MAX: Final = 32

_log = logging.getLogger("runlease.heartbeat")


@dataclass(slots=True)
class _Entry:
    proved_at_seconds: float | None = None
    due_at_seconds: float = 0.0
    failures: int = 0


class RenewalSchedule:
    """When each open lease is renewed next. No clock, thread or task: those bring the time.

    Args:
        chance: Answers between 0 and 1, for the jitter.
    """

    def __init__(self, chance: Callable[[], float] = random.random) -> None:
        self._entries: dict[LocalLease, _Entry] = {}
        self._chance = chance

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, lease: LocalLease) -> None:
        """Schedule a lease's renewals; nothing when they are scheduled already."""
        self._entries.setdefault(lease, _Entry())

    def discard(self, lease: LocalLease) -> None:
        """Forget a lease."""
        self._entries.pop(lease, None)

    def clear(self) -> None:
        """Forget all leases."""
        self._entries.clear()

    def due(self, now_seconds: float) -> list[LocalLease]:
        """The leases to renew now: as soon as one is due, those that soon will be go with it, so
        that a ledger's leases beat together. One that is being ended is looked at again soon."""
        due, soon = [], []
        for lease, entry in self._entries.items():
            left = self._due_at(lease, entry) - now_seconds
            if left > _interval_seconds(lease) * TOGETHER_SHARE:
                continue
            if not lease.is_open:
                entry.due_at_seconds = max(
                    entry.due_at_seconds, now_seconds + _retry_seconds(lease, 0)
                )
            elif left > 0:
                soon.append(lease)
            else:
                due.append(lease)
        return due + soon if due else []

    def take_late(self) -> list[LocalLease]:
        """The leases past their deadline, which are forgotten here."""
        late = [one for one in self._entries if one.is_open and one.remaining_seconds <= 0]
        for lease in late:
            self.discard(lease)
        return late

    def wait_seconds(self, now_seconds: float) -> float:
        """How long nothing is due, at most `WAIT_SECONDS_MAX`."""
        due_at = (self._due_at(lease, entry) for lease, entry in self._entries.items())
        soonest = min(due_at, default=now_seconds + WAIT_SECONDS_MAX)
        return min(max(soonest - now_seconds, 0.0), WAIT_SECONDS_MAX)

    def failed(self, lease: LocalLease, now_seconds: float) -> None:
        """The renewal failed in passing: try again, later each time, up to the interval."""
        if entry := self._entries.get(lease):
            seconds = _retry_seconds(lease, entry.failures)
            entry.due_at_seconds = now_seconds + seconds * (1 - self._chance() / 2)
            entry.failures += 1

    def _due_at(self, lease: LocalLease, entry: _Entry) -> float:
        """Whatever proved the lease since, a renewal or a command, starts the interval anew."""
        proved_at = lease.renewed_at_seconds
        assert proved_at is not None, "only a proved lease is scheduled"
        if proved_at != entry.proved_at_seconds:
            entry.proved_at_seconds = proved_at
            entry.failures = 0
            early = JITTER * self._chance()
            entry.due_at_seconds = proved_at + _interval_seconds(lease) * (1 - early)
        return entry.due_at_seconds


def _interval_seconds(lease: LocalLease) -> float:
    return lease.lease_ttl_ms / 1000 / INTERVALS_PER_LEASE


def _retry_seconds(lease: LocalLease, failures: int) -> float:
    first = max(_interval_seconds(lease) * RETRY_INTERVAL_SHARE, RETRY_SECONDS_MIN)
    return min(_interval_seconds(lease), first * (1 << min(failures, DOUBLINGS_MAX)))


def _report(lease: LocalLease, error: Exception) -> None:
    if lease.loss is not None:
        _log.warning("run %r is lost: %s", lease.run_id, error)
    elif not lease.finished:
        _log.warning(
            "renewing run %r failed and is tried again: %s: %s",
            lease.run_id,
            type(error).__name__,
            error,
        )


def _is_to_be_tried_again(
    lease: LocalLease, answer: RunRecord | Exception, sent_at_seconds: float
) -> bool:
    """Let the lease know the answer to its renewal; whether that was a passing trouble."""
    try:
        lease.renewed(answer, sent_at_seconds)
    except Exception as error:  # noqa: BLE001 (no error ends the heartbeat; a loss is latched)
        _report(lease, error)
        return True
    return False


class ThreadHeartbeat:
    """The heartbeat's thread.

    Args:
        clock: The ledger's.
        renewer: Sends the renewals; called from the thread alone.
    """

    def __init__(self, clock: Clock, renewer: LeaseRenewer) -> None:
        self._clock = clock
        self._renewer = renewer
        self._schedule = RenewalSchedule()
        # Never held while a store or a callback is called, which may wait for whoever wants it.
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, lease: LocalLease) -> None:
        """Renew this lease from now on; nothing when it is renewed already."""
        with self._changed:
            self._schedule.add(lease)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="runlease-heartbeat", daemon=True
                )
                self._thread.start()
            self._changed.notify()

    def discard(self, lease: LocalLease) -> None:
        """Renew this lease no more."""
        with self._changed:
            self._schedule.discard(lease)
            self._changed.notify()

    def stop(self) -> None:
        """Renew nothing any more, and wait for a renewal under way, within a bound."""
        with self._changed:
            self._schedule.clear()
            thread = self._thread
            self._changed.notify()
        if thread is not None and thread is not threading.current_thread():
            thread.join(STOP_SECONDS_MAX)

    def _run(self) -> None:
        while (due := self._next()) is not None:
            if due:
                self._renew(due)
            for lease in self._late():
                lease.expire()

    def _next(self) -> list[LocalLease] | None:
        """What is due, perhaps nothing after a wait; None ends the thread."""
        with self._changed:
            if not len(self._schedule):
                self._thread = None
                return None
            now = self._clock.seconds()
            due = self._schedule.due(now)
            if not due:
                self._changed.wait(self._schedule.wait_seconds(now))
            return due

    def _late(self) -> list[LocalLease]:
        with self._changed:
            return self._schedule.take_late()

    def _renew(self, leases: list[LocalLease]) -> None:
        sent_at_seconds = self._clock.seconds()
        # One interval at most, so that the others' renewals are not late.
        wait_seconds = min(
            min(lease.remaining_seconds, _interval_seconds(lease)) for lease in leases
        )
        answers: Sequence[RunRecord | Exception]
        try:
            answers = self._renewer.renew_all(
                [lease.renewal() for lease in leases], wait_seconds=max(wait_seconds, 0.0)
            )
        except Exception as error:  # noqa: BLE001 (no error ends the heartbeat)
            answers = [error] * len(leases)
        again = [
            lease
            for lease, answer in zip(leases, answers, strict=True)
            if _is_to_be_tried_again(lease, answer, sent_at_seconds)
        ]
        with self._changed:
            now = self._clock.seconds()
            for lease in leases:
                if lease.loss is not None or lease.finished:
                    self._schedule.discard(lease)
            for lease in again:
                self._schedule.failed(lease, now)


class TaskHeartbeat:
    """The heartbeat of an `AsyncRunLedger` whose store can only be awaited: a task on its loop."""

    def __init__(self, clock: Clock, executor: AsyncCommandExecutor) -> None:
        self._clock = clock
        self._executor = executor
        self._schedule = RenewalSchedule()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def add(self, lease: LocalLease) -> None:
        """Renew this lease from now on; nothing when it is renewed already."""
        self._schedule.add(lease)
        if self._task is None or self._task.done():
            # An event belongs to the loop that first waits for it, and so does its task.
            self._changed = asyncio.Event()
            self._task = asyncio.get_running_loop().create_task(
                self._run(), name="runlease-heartbeat"
            )
        self._changed.set()

    def discard(self, lease: LocalLease) -> None:
        """Renew this lease no more."""
        self._schedule.discard(lease)
        self._changed.set()

    async def stop(self) -> None:
        """Renew nothing any more; a renewal under way is given up."""
        self._schedule.clear()
        task, self._task = self._task, None
        if task is not None and task is not asyncio.current_task() and not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=STOP_SECONDS_MAX)

    async def _run(self) -> None:
        while len(self._schedule):
            self._changed.clear()
            for lease in self._schedule.take_late():
                lease.expire()
            now = self._clock.seconds()
            due = self._schedule.due(now)
            for start in range(0, len(due), BEATS_AT_ONCE_MAX):
                await asyncio.gather(*map(self._renew, due[start : start + BEATS_AT_ONCE_MAX]))
            if not due:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._schedule.wait_seconds(now)):
                        await self._changed.wait()

    async def _renew(self, lease: LocalLease) -> None:
        sent_at_seconds = self._clock.seconds()
        answer: RunRecord | Exception
        try:
            record = await self._executor.execute(lease.renewal())
            assert record is not None, "a renewal leaves a record"
            answer = record
        except Exception as error:  # noqa: BLE001 (no error ends the heartbeat)
            answer = error
        if _is_to_be_tried_again(lease, answer, sent_at_seconds):
            self._schedule.failed(lease, self._clock.seconds())
        if lease.loss is not None or lease.finished:
            self._schedule.discard(lease)
