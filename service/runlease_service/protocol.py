"""HTTP/1.1 on a connection: uvicorn's own protocol, with bounds that it lacks.

What comes before a body is held in memory and waited for by the server, before the application
sees anything. So the bounds on its size and time are here: whoever sends headers without end, or
none, is cut off, and holds neither memory nor one of the connections. What is refused here is
refused by a problem document, as everywhere.

uvicorn also writes a response's head and its body each by itself, and each becomes a system call
and a packet of its own: a tenth of what a core can answer. Here what is written is held until the
event loop has run what is ready, and then goes out at once; nothing waits for a timer.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from typing import Any, ClassVar, Final

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from runlease_core.errors import Code
from runlease_service.api.front import ARRIVED, CERTIFICATE
from runlease_service.api.problems import MEDIA_TYPE, ProblemError, unavailable

_UPGRADE: Final = re.compile(rb"\r\nupgrade:", re.IGNORECASE)
_DECLINED: Final = b"\r\nx-offer:"
HEAD_BYTES_MAX: Final = 131_072
"""Request line and headers together: twice the longest URL that may be allowed."""


class _Corked:
    """A transport that gathers what is written within one turn of the event loop."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held: list[bytes] = []

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever the transport has)
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._held:
            self._loop.call_soon(self._flush)
        self._held.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        held, self._held = self._held, []
        if held and not self._transport.is_closing():
            self._transport.write(b"".join(held))


def _common_name(connection: ssl.SSLObject | None) -> str | None:
    """The common name of the client's certificate, which the handshake has verified."""
    certificate: dict[str, Any] = (connection.getpeercert() or {}) if connection else {}
    names = [
        str(value)
        for part in certificate.get("subject", ())
        for key, value in part
        if key == "commonName"
    ]
    return names[0] if len(names) == 1 else None


async def _overloaded(scope: Scope, receive: Receive, send: Send) -> None:
    """The application on a connection that is one too many."""
    problem = unavailable("too many connections are open")
    problem.headers = {**(problem.headers or {}), "Connection": "close"}
    await problem.response()(scope, receive, send)


class BoundedProtocol(HttpToolsProtocol):
    """One connection."""

    head_wait_s_max: ClassVar[float] = 10.0
    """How long a request's line and headers may take to arrive, in seconds."""
    connections_max: ClassVar[int] = 4096
    """How many connections are served; on further ones everything is answered 503."""

    _certificate: str | None = None
    _head_bytes = 0
    _head_late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(_Corked(transport, self.loop))  # type: ignore[arg-type]
        if len(self.connections) > self.connections_max:
            self.app = _overloaded
        self._certificate = _common_name(transport.get_extra_info("ssl_object"))
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_there()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        # After an offer to upgrade the parser reads no body, and Java's client makes one with
        # every first request. RFC 9110, section 7.8: the offer may be ignored.
        super().data_received(_UPGRADE.sub(_DECLINED, data))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[CERTIFICATE] = self._certificate  # type: ignore[typeddict-unknown-key]
        self._head_bytes = 0
        self._await_head()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + len(": \r\n"))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head_is_there()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self.scope[ARRIVED] = True  # type: ignore[typeddict-unknown-key]

    def send_400_response(self, msg: str) -> None:
        problem = ProblemError(
            Code.RUN_VALIDATION_ERROR, "the request is no HTTP/1.1 that can be read", status=400
        )
        self.logger.debug("refused a request: %s", msg)
        body = problem.text().encode()
        self.transport.write(
            b"HTTP/1.1 400 Bad Request\r\ncontent-type: %b\r\ncontent-length: %d\r\n"
            b"connection: close\r\n\r\n%b" % (MEDIA_TYPE.encode(), len(body), body)
        )
        self.transport.close()

    def _count(self, more: int) -> None:
        self._head_bytes += more
        if self._head_bytes > HEAD_BYTES_MAX:
            # The parser makes it an error of the request: 400, and the connection is closed.
            raise ValueError("the head of the request is too large")

    def _await_head(self) -> None:
        self._head_is_there()
        self._head_late = asyncio.get_running_loop().call_later(
            self.head_wait_s_max, self.transport.close
        )

    def _head_is_there(self) -> None:
        if self._head_late is not None:
            self._head_late.cancel()
            self._head_late = None
