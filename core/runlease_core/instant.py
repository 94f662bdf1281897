"""Instants: aware UTC datetimes in whole milliseconds, read and written as RFC 3339.

Any offset is read; `Z` with three digits is written, so that the same instant always has the same
characters. No clock is read here.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from runlease_core.fields import malformed

_RFC_3339 = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}:[0-9]{2}:[0-9]{2})"
    r"(?:\.([0-9]{1,32}))?([Zz]|[+-][0-9]{2}:[0-5][0-9])"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def parse_instant(value: object, name: str = "instant") -> datetime:
    """Read an RFC 3339 timestamp with any offset; digits past the millisecond are cut."""
    if not isinstance(value, str) or not (match := _RFC_3339.fullmatch(value)):
        raise malformed(name, "must be an RFC 3339 timestamp with an offset")
    date, clock, fraction, offset = match.groups()
    milliseconds = ((fraction or "") + "000")[:3]
    zone = "+00:00" if offset in "Zz" else offset
    try:
        return datetime.fromisoformat(f"{date}T{clock}.{milliseconds}{zone}").astimezone(UTC)
    except (ValueError, OverflowError):
        raise malformed(name, "is no instant between the years 1 and 9999") from None


@lru_cache(maxsize=4096)  # the records of one batch share their instants
def format_instant(instant: datetime) -> str:
    """RFC 3339 in UTC, always with three digits and `Z`."""
    return f"{instant.replace(tzinfo=None).isoformat('T', 'milliseconds')}Z"


@lru_cache(maxsize=4096)  # likewise
def instant_from_ms(epoch_ms: int) -> datetime:
    """The instant that many milliseconds after 1970-01-01T00:00Z."""
    return _EPOCH + timedelta(milliseconds=epoch_ms)


def ms_from_instant(instant: datetime) -> int:
    """Whole milliseconds since 1970-01-01T00:00Z."""
    return (instant - _EPOCH) // _MILLISECOND


def whole_ms(instant: datetime) -> datetime:
    """The same instant in UTC, cut to whole milliseconds."""
    utc = instant.astimezone(UTC)
    return utc.replace(microsecond=utc.microsecond // 1000 * 1000)
