"""The heartbeat: renews every open lease of a ledger at a third of its length.

One daemon thread serves a `RunLedger`, one task an `AsyncRunLedger`. It starts with the first
lease, ends with the last one, and starts again when another comes. Its ledger owns it, and stops
and joins it in `close`.

Whom it trusts. The store, to answer or to raise within a time of its own: a call that hangs
cannot be interrupted from here. The interpreter and the event loop, to let it run: a C call that
keeps the interpreter's lock, or a coroutine that blocks its loop, also stops the beat.

What it tolerates. Any exception but a loss is taken for a passing trouble: it is logged, and the
lease is tried again after a back-off that grows up to the normal interval and never ends. An
expired lease is renewed too, since nobody may have taken it. One lease's trouble is not another's:
each has its own schedule. A handle with a command under way is left alone and looked at again
soon, so that no renewal overtakes the handle's own ending.

What it does not promise. That the lease is held: `held` judges that by itself, from the last
renewal that succeeded, whether or not this thread still lives. That a loss is noticed at once: it
is noticed at the next renewal, at most a third of the lease's length later while the store
answers. That a process which hangs gives its runs up: as long as this thread runs, they are
renewed; bound the work itself, or let an operator revoke. In a forked child there is no heartbeat,
and nothing inherited is held.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from runlease_core.clock import Clock
from runlease_core.local_lease import LocalLease

INTERVALS_PER_LEASE: Final = 3
JITTER: Final = 0.2
"""A renewal comes up to this share of the interval early, so that ledgers do not beat in step."""

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

Beat = TypeVar("Beat")


@dataclass(slots=True)
class _Entry(Generic[Beat]):
    beat: Beat
    proved_at_seconds: float | None = None
    due_at_seconds: float = 0.0
    failures: int = 0


class RenewalSchedule(Generic[Beat]):
    """When each open lease is renewed next. No clock, thread or task: those bring the time.

    Args:
        chance: Answers between 0 and 1, for the jitter.
    """

    def __init__(self, chance: Callable[[], float] = random.random) -> None:
        self._entries: dict[LocalLease, _Entry[Beat]] = {}
        self._chance = chance

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, lease: LocalLease, beat: Beat) -> None:
        """Schedule a lease's renewals; nothing when they are scheduled already."""
        self._entries.setdefault(lease, _Entry(beat))

    def discard(self, lease: LocalLease) -> None:
        """Forget a lease."""
        self._entries.pop(lease, None)

    def clear(self) -> None:
        """Forget all leases."""
        self._entries.clear()

    def due(self, now_seconds: float) -> list[tuple[LocalLease, Beat]]:
        """The leases whose renewal is due."""
        return [
            (lease, entry.beat)
            for lease, entry in self._entries.items()
            if self._due_at(lease, entry) <= now_seconds
        ]

    def wait_seconds(self, now_seconds: float) -> float:
        """How long nothing is due, at most `WAIT_SECONDS_MAX`."""
        due_at = (self._due_at(lease, entry) for lease, entry in self._entries.items())
        soonest = min(due_at, default=now_seconds + WAIT_SECONDS_MAX)
        return min(max(soonest - now_seconds, 0.0), WAIT_SECONDS_MAX)

    def postpone(self, lease: LocalLease, now_seconds: float) -> None:
        """A command was under way: look again soon."""
        if entry := self._entries.get(lease):
            entry.due_at_seconds = now_seconds + _retry_seconds(lease, 0)

    def failed(self, lease: LocalLease, now_seconds: float) -> None:
        """The renewal failed in passing: try again, later each time, up to the interval."""
        if entry := self._entries.get(lease):
            seconds = _retry_seconds(lease, entry.failures)
            entry.due_at_seconds = now_seconds + seconds * (1 - self._chance() / 2)
            entry.failures += 1

    def _due_at(self, lease: LocalLease, entry: _Entry[Beat]) -> float:
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


class ThreadHeartbeat:
    """The heartbeat of a `RunLedger`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._schedule: RenewalSchedule[Callable[[], bool]] = RenewalSchedule()
        # Its lock is reentrant: a renewal that is refused removes its own lease.
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, lease: LocalLease, beat: Callable[[], bool]) -> None:
        """Renew this lease from now on; nothing when it is renewed already."""
        with self._changed:
            self._schedule.add(lease, beat)
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
            for lease, beat in due:
                self._beat(lease, beat)

    def _next(self) -> list[tuple[LocalLease, Callable[[], bool]]] | None:
        """What is due, after waiting for it; None ends the thread."""
        with self._changed:
            while len(self._schedule):
                now = self._clock.seconds()
                if due := self._schedule.due(now):
                    return due
                self._changed.wait(self._schedule.wait_seconds(now))
            self._thread = None
            return None

    def _beat(self, lease: LocalLease, beat: Callable[[], bool]) -> None:
        try:
            done = beat()
        except Exception as error:  # noqa: BLE001 (no error ends the heartbeat; a loss is latched)
            _report(lease, error)
            with self._changed:
                self._schedule.failed(lease, self._clock.seconds())
        else:
            if not done:
                with self._changed:
                    self._schedule.postpone(lease, self._clock.seconds())


class TaskHeartbeat:
    """The heartbeat of an `AsyncRunLedger`, on the event loop that acquires."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._schedule: RenewalSchedule[Callable[[], Awaitable[bool]]] = RenewalSchedule()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def add(self, lease: LocalLease, beat: Callable[[], Awaitable[bool]]) -> None:
        """Renew this lease from now on; nothing when it is renewed already."""
        self._schedule.add(lease, beat)
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
            now = self._clock.seconds()
            due = self._schedule.due(now)
            for start in range(0, len(due), BEATS_AT_ONCE_MAX):
                await self._beat_all(due[start : start + BEATS_AT_ONCE_MAX])
            if not due:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._schedule.wait_seconds(now)):
                        await self._changed.wait()

    async def _beat_all(
        self, due: Iterable[tuple[LocalLease, Callable[[], Awaitable[bool]]]]
    ) -> None:
        await asyncio.gather(*(self._beat(lease, beat) for lease, beat in due))

    async def _beat(self, lease: LocalLease, beat: Callable[[], Awaitable[bool]]) -> None:
        try:
            done = await beat()
        except Exception as error:  # noqa: BLE001 (no error ends the heartbeat; a loss is latched)
            _report(lease, error)
            self._schedule.failed(lease, self._clock.seconds())
        else:
            if not done:
                self._schedule.postpone(lease, self._clock.seconds())
