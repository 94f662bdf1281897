"""Answers that carry a record, as bytes.

A command answers with the record, its version as `ETag` and, while the record holds a lease, the
time that it still has, as a duration: instants are for people, and no client compares them with a
clock of its own.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from starlette.background import BackgroundTask
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from runlease_core.record import RunRecord, record_to_text

RawHeaders = list[tuple[bytes, bytes]]
_JSON: Final = (b"content-type", b"application/json")
ALWAYS: Final = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
"""Headers of every answer that does not say otherwise."""
_MILLISECOND: Final = timedelta(milliseconds=1)


class Answer(Response):
    """A finished response: its parts are bytes already, so nothing is computed again."""

    background: BackgroundTask | None = None

    def __init__(self, status: int, body: bytes, headers: RawHeaders) -> None:
        self.status_code = status
        self.body = body
        if body or status not in (204, 304):
            headers.append((b"content-length", str(len(body)).encode()))
        headers += ALWAYS
        self.raw_headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        await send({"type": "http.response.body", "body": self.body})


def json_answer(status: int, text: str, *headers: tuple[bytes, bytes]) -> Response:
    """An answer of JSON text."""
    return Answer(status, text.encode(), [_JSON, *headers])


def record_answer(record: RunRecord, now: datetime, status: int = 200) -> Response:
    """The record, its ETag, and how long its lease still lasts."""
    return Answer(status, record_to_text(record).encode(), [_JSON, *record_headers(record, now)])


def record_headers(record: RunRecord, now: datetime | None) -> RawHeaders:
    """`ETag` and `Runlease-Lease-Remaining-Ms`."""
    headers: RawHeaders = [(b"etag", b'"%d"' % record.version)]
    if record.lease is not None and now is not None:
        headers.append((b"runlease-lease-remaining-ms", b"%d" % lease_remaining_ms(record, now)))
    return headers


def lease_remaining_ms(record: RunRecord, now: datetime) -> int:
    """How long the lease lasts from now, in milliseconds; 0 once it ran out."""
    if record.lease is None or record.lease.expires_at <= now:
        return 0
    return (record.lease.expires_at - now) // _MILLISECOND
