"""One request straight into the application: any bytes as path, header and body."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from fastapi import FastAPI
from starlette.types import Message

JSON: Final = (b"content-type", b"application/json")
RawHeaders = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Answered:
    """What came back, as bytes."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


async def ask(
    app: FastAPI,
    method: str,
    target: str | bytes,
    headers: RawHeaders = (),
    body: bytes | Sequence[bytes] = b"",
    *,
    vanish: bool = False,
) -> Answered:
    """Send one request as a server would hand it over.

    Args:
        app: The application.
        method: The method.
        target: Path and query, percent-encoded.
        headers: More headers; a length is added for a body of one piece.
        body: The body, in one piece or in several.
        vanish: Whether the caller is gone after the last piece, before the body's end.
    """
    raw_path, _, query = (target.encode() if isinstance(target, str) else target).partition(b"?")
    pieces = [body] if isinstance(body, bytes) else list(body)
    if isinstance(body, bytes) and body:
        headers = [*headers, (b"content-length", str(len(body)).encode())]
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "scheme": "http",
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 9),
        "method": method,
        "path": unquote(raw_path.decode("latin-1")),
        "raw_path": raw_path,
        "root_path": "",
        "query_string": query,
        "headers": [(b"host", b"test"), *headers],
    }
    sent: list[Message] = []

    async def receive() -> Message:
        if pieces:
            piece = pieces.pop(0)
            more = bool(pieces) or vanish
            return {"type": "http.request", "body": piece, "more_body": more}
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start, *rest = sent
    return Answered(
        start["status"],
        tuple((bytes(name), bytes(value)) for name, value in start["headers"]),
        b"".join(message.get("body", b"") for message in rest),
    )


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Start the application as a server does, and end it."""
    async with app.router.lifespan_context(app):
        yield
