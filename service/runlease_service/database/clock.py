"""The clock that judges leases on one host.

The wall clock can be stepped at any time, and a step must neither end a lease early (two owners)
nor keep one for hours (a stuck run). So the wall clock is read once, when the first process opens
the database, and advanced by the boot clock, which no step touches and which counts the time that
a machine sleeps. That reading, the *anchor*, lies in a file beside the database under a shared
lock, so that all processes on the file tell the same time to the nanosecond, whenever they
started. The process that finds itself alone takes a new anchor if the old one is off by more than
clocks drift (`DRIFT_NS_MAX`), which heals a clock that was wrong; within one boot it also learns
by how much the old one was off, exactly, and the database moves its leases by that
(`HostClock.moved_ms`). After a reboot nothing is known but that no lease can end later than its
own length from now.

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
from typing import IO, Final, Protocol

from runlease_core.instant import instant_from_ms, whole_ms

Clock = Callable[[], datetime]
DRIFT_NS_MAX: Final = 1_000_000_000
"""An anchor that is off by no more is kept: moving every lease by a millisecond at every start
would cost each of them a version."""
_NS_IN_MS: Final = 1_000_000
_LATEST_NS: Final = 253_402_300_800_000_000_000  # the end of the year 9999


class DatabaseClock(Protocol):
    """What a SQLite database asks of a clock."""

    alone: bool
    moved_ms: int

    def settled(self) -> None: ...

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
    the clock is then moved against the one before, 0 when that is not known. Whoever is alone
    moves the stored leases, then calls `settled`; until then others wait at the file.
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
        self._offset_ns = time.time_ns() - _boot_ns()
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._share()
            return
        self.alone = True
        previous = self._read()
        if previous is None:
            self._write()
        elif abs(self._offset_ns - previous) <= DRIFT_NS_MAX:
            self._offset_ns = previous
        else:
            # Up to the next whole millisecond: a lease may last longer, never shorter.
            self.moved_ms = -((previous - self._offset_ns) // _NS_IN_MS)
            if self.moved_ms < 0:
                self._write()

    def settled(self) -> None:
        """The stored leases are moved: let others in.

        A crash half way must not end a lease early. So a clock that goes back is written down
        before the leases are moved (they last longer), and one that goes forward after it (they
        are moved twice, then cut to their length)."""
        if self.alone:
            if self.moved_ms > 0:
                self._write()
            self._share()

    def _share(self) -> None:
        # Turning the exclusive lock into a shared one is not atomic: whoever came in between may
        # have written an anchor, so what counts is what the file says under the shared lock.
        fcntl.flock(self._file, fcntl.LOCK_SH)
        shared = self._read()
        if shared is not None:
            self._offset_ns = shared

    def _write(self) -> None:
        self._file.seek(0)
        self._file.truncate()
        json.dump({"bootId": _boot_id(), "offsetNs": self._offset_ns}, self._file)
        self._file.flush()

    def _read(self) -> int | None:
        """The anchor in the file; None for one of another boot and for what is none at all."""
        self._file.seek(0)
        try:
            anchor = json.load(self._file)
            if anchor["bootId"] != _boot_id():
                return None
            offset_ns = int(anchor["offsetNs"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return None
        return offset_ns if 0 <= offset_ns + _boot_ns() < _LATEST_NS else None

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

    def settled(self) -> None:
        """Nobody waits."""

    def now(self) -> datetime:
        return whole_ms(self._clock()).astimezone(UTC)

    def close(self) -> None:
        """Nothing is held."""
