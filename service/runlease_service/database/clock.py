"""The clock that judges leases on one host.

The wall clock can be stepped at any time, and a step must neither end a lease early (two owners)
nor keep one for hours (a stuck run). So the wall clock is read once, when the first process opens
the database, and advanced by the boot clock, which no step touches and which counts the time that
a machine sleeps. That reading, the *anchor*, lies in a file beside the database under a shared
lock, so that all processes on the file tell the same time to the nanosecond, whenever they
started. The process that finds itself alone takes a new anchor, which heals a clock that was
wrong; within one boot it also learns by how much the old one was off, exactly, and the database
moves its leases by that (`HostClock.moved_ms`). After a reboot nothing is known but that no lease
can end later than its own length from now.

Whom it trusts: the kernel's boot clock, and that processes on one file run on one host (a network
file system is refused elsewhere). Without a boot clock the monotonic one serves; it stands still
while the machine sleeps, so leases then last longer, never shorter.
"""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Protocol

from runlease_core.instant import instant_from_ms, whole_ms

Clock = Callable[[], datetime]
_NS_IN_MS = 1_000_000


class DatabaseClock(Protocol):
    """What a SQLite database asks of a clock."""

    alone: bool
    moved_ms: int

    def now(self) -> datetime: ...

    def close(self) -> None: ...


def _boot_ns() -> int:
    clock_id = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock_id)


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


class HostClock:
    """The shared anchor beside one database file.

    `alone` says that no other process used the file when this one came; `moved_ms` by how much
    the clock then was moved against the one before, 0 when that is not known.
    """

    def __init__(self, path: Path) -> None:
        self.alone = False
        self.moved_ms = 0
        self._file: IO[str] = path.open("a+", encoding="ascii")
        try:
            self._anchor()
        except BaseException:
            self._file.close()
            raise

    def _anchor(self) -> None:
        mine = time.time_ns() - _boot_ns()
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.alone = True
            previous = self._read()
            if previous is not None:
                self.moved_ms = (mine - previous) // _NS_IN_MS
            self._file.seek(0)
            self._file.truncate()
            json.dump({"bootId": _boot_id(), "offsetNs": mine}, self._file)
            self._file.flush()
        except BlockingIOError:
            pass
        # Turning the exclusive lock into a shared one is not atomic: whoever came in between wrote
        # an anchor of its own, so what counts is what the file says under the shared lock.
        fcntl.flock(self._file, fcntl.LOCK_SH)
        shared = self._read()
        self._offset_ns = mine if shared is None else shared

    def _read(self) -> int | None:
        self._file.seek(0)
        try:
            anchor = json.load(self._file)
            return int(anchor["offsetNs"]) if anchor["bootId"] == _boot_id() else None
        except (ValueError, KeyError, TypeError):
            return None

    def now(self) -> datetime:
        return instant_from_ms((self._offset_ns + _boot_ns()) // _NS_IN_MS)

    def close(self) -> None:
        self._file.close()


class GivenClock:
    """The seam for tests: the caller's clock decides."""

    alone = True
    moved_ms = 0

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self) -> datetime:
        return whole_ms(self._clock()).astimezone(UTC)

    def close(self) -> None:
        """Nothing is held."""
