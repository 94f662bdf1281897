"""A clock that stands until a test moves it."""

from __future__ import annotations

from datetime import datetime, timedelta

from runlease_core.instant import instant_from_ms

START_MS = 1_788_220_800_000


class ManualClock:
    """Call it for the time: an aware UTC datetime in whole milliseconds."""

    def __init__(self, start_ms: int = START_MS) -> None:
        self._now = instant_from_ms(start_ms)

    def __call__(self) -> datetime:
        return self._now

    def advance(self, *, ms: int) -> None:
        """Move on by so many milliseconds."""
        self._now += timedelta(milliseconds=ms)

    def set_ms(self, epoch_ms: int) -> None:
        """Move to that many milliseconds after 1970."""
        self._now = instant_from_ms(epoch_ms)
