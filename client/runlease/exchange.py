"""One request until it is answered: tried again within its time, as a generator without I/O.

It yields what is to be done, `Send` or `Sleep`, and is sent what came of it: a response, or the
exception of a transport that failed. The shells that carry it out, synchronous and not, are in
`transport`. A dropped connection, a time-out and 429, 502, 503 and 504 are tried again, no sooner
than `Retry-After` says and ever later by themselves, but never past the time that was given.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import httpx

from runlease.errors import UnavailableError
from runlease_core.clock import suspend_aware_seconds

ATTEMPT_SECONDS_MAX: Final = 10.0
"""How long one attempt may take for each of connecting, sending and reading."""
PAUSE_SECONDS_MIN: Final = 0.02
PAUSE_SECONDS_MAX: Final = 2.0
RETRY_AFTER_SECONDS_MAX: Final = 60.0
AGAIN: Final = frozenset({429, 502, 503, 504})
"""Statuses after which the same request is sent again."""
UNTOUCHED: Final = frozenset({429})
"""Those among them that say that nothing was done."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send the request, waiting at most so long for each step of it."""

    request: Mapping[str, Any]
    timeout_seconds: float


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait before the next attempt."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Answered:
    """The response, and whether an attempt before it may have been carried out unseen."""

    response: httpx.Response
    is_repeated: bool


Result: TypeAlias = httpx.Response | httpx.TransportError | None
Exchange: TypeAlias = Generator[Send | Sleep, Result, Answered]


def exchange(
    request: Mapping[str, Any], *, wait_seconds: float, attempt_seconds_min: float
) -> Exchange:
    """Send until there is an answer that is one.

    Args:
        request: What httpx takes.
        wait_seconds: For how long to go on trying; the first attempt is always made.
        attempt_seconds_min: What an attempt is given although less time than that is left.

    Raises:
        UnavailableError: There was none in time.
    """
    deadline = suspend_aware_seconds() + wait_seconds
    pause = PAUSE_SECONDS_MIN
    is_repeated = False
    while True:
        left = max(deadline - suspend_aware_seconds(), attempt_seconds_min)
        result = yield Send(request, min(left, ATTEMPT_SECONDS_MAX))
        if isinstance(result, httpx.Response) and result.status_code not in AGAIN:
            return Answered(result, is_repeated)
        if not _is_untouched(result):
            is_repeated = True
        seconds = max(retry_after_seconds(result) or 0.0, pause * (0.5 + random.random() / 2))  # noqa: S311 (jitter)
        if suspend_aware_seconds() + seconds >= deadline:
            cause = result if isinstance(result, Exception) else None
            raise UnavailableError(f"no answer in time: {_words(result)}") from cause
        yield Sleep(seconds)
        pause = min(2 * pause, PAUSE_SECONDS_MAX)


def retry_after_seconds(result: Result) -> float | None:
    """What `Retry-After` says in seconds, None when there is none that can be read."""
    if not isinstance(result, httpx.Response):
        return None
    try:
        seconds = float(result.headers.get("retry-after", ""))
    except ValueError:  # a date, which no service of ours sends
        return None
    return min(max(seconds, 0.0), RETRY_AFTER_SECONDS_MAX)


def _is_untouched(result: Result) -> bool:
    """Whether nothing was carried out for certain."""
    if isinstance(result, httpx.Response):
        return result.status_code in UNTOUCHED
    return isinstance(result, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)


def _words(result: Result) -> str:
    if isinstance(result, httpx.Response):
        return f"the service answers {result.status_code}"
    return f"{type(result).__name__}: {result}"
