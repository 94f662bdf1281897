"""The clocks of the runtime ring, and the only module of the core that reads one.

Instants are for records: the wall clock, in UTC and whole milliseconds. Local deadlines are for
`held`: seconds on a clock that nobody sets and that also counts while the machine is suspended,
where the system has one. Linux keeps it under its own name; Darwin's CLOCK_MONOTONIC is one, while
its `time.monotonic` stands still in sleep; on Windows `time.monotonic` counts sleep. The two kinds
never meet in one expression. A clock that is given replaces both, so that a test moves them
together.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from runlease_core.fields import malformed
from runlease_core.instant import whole_ms

_COUNTS_SUSPEND: Final[int | None] = getattr(
    time, "CLOCK_MONOTONIC" if sys.platform == "darwin" else "CLOCK_BOOTTIME", None
)


def suspend_aware_seconds() -> float:
    """Seconds that also pass while the machine sleeps: for local deadlines."""
    if _COUNTS_SUSPEND is None:
        return time.monotonic()
    return time.clock_gettime(_COUNTS_SUSPEND)


class Clock:
    """What time it is, for records (`now`) and for local deadlines (`seconds`)."""

    def __init__(self, now: Callable[[], datetime] | None = None) -> None:
        if now is not None and not callable(now):
            raise malformed("now", "must be a callable that returns an aware datetime")
        self._given = now

    def now(self) -> datetime:
        """The instant that commands are judged at.

        Raises:
            RunValidationError: RUN_VALIDATION_ERROR, the given clock returns no aware datetime.
        """
        if self._given is None:
            return whole_ms(datetime.now(UTC))
        instant: object = self._given()
        if not isinstance(instant, datetime) or instant.tzinfo is None:
            raise malformed("now", "must return an aware datetime")
        return whole_ms(instant)

    def seconds(self) -> float:
        """The seconds that local deadlines count in."""
        return suspend_aware_seconds() if self._given is None else self.now().timestamp()
