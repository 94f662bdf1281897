"""Requests as bytes over a real socket: a client that mends nothing on the way."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from tests.service import contract
from tests.service.server import Server

WAIT_S: Final = 30
HEAD_BYTES_MAX: Final = 65_536


@dataclass(frozen=True)
class RawAnswer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:  # noqa: ANN401 (JSON is anything)
        return json.loads(self.body)


def connect(server: Server, wait_s: float = WAIT_S) -> socket.socket:
    return socket.create_connection((server.host, server.port), timeout=wait_s)


def head(method: str, target: str | bytes, headers: Iterable[tuple[str, str]] = ()) -> bytes:
    line = method.encode() + b" " + (target.encode() if isinstance(target, str) else target)
    fields = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return line + b" HTTP/1.1\r\nHost: test\r\n" + fields.encode() + b"\r\n"


def read_answer(connection: socket.socket, method: str = "GET") -> RawAnswer:
    """The next answer on the connection."""
    received = b""
    while b"\r\n\r\n" not in received:
        chunk = connection.recv(HEAD_BYTES_MAX)
        assert chunk, f"the connection ended after {received!r}"
        received += chunk
    start, _, body = received.partition(b"\r\n\r\n")
    status_line, *lines = start.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    status = int(status_line.split()[1])
    length = 0 if method == "HEAD" or status in (204, 304) else int(headers["content-length"])
    while len(body) < length:
        chunk = connection.recv(HEAD_BYTES_MAX)
        assert chunk, "the connection ended inside a body"
        body += chunk
    return RawAnswer(status, headers, body)


def send(
    server: Server, method: str, target: str | bytes, body: object = None, *headers: tuple[str, str]
) -> RawAnswer:
    """One request on a connection of its own."""
    content = b"" if body is None else json.dumps(body).encode()
    fields = [("Connection", "close"), *headers]
    if body is not None:
        fields += [("Content-Type", "application/json"), ("Content-Length", str(len(content)))]
    with connect(server) as connection:
        connection.sendall(head(method, target, fields) + content)
        answer = read_answer(connection, method)
        assert connection.recv(1) == b"", "more than the answer came back"
    return answer


def send_checked(
    server: Server, method: str, target: str, path: str, body: object = None
) -> RawAnswer:
    """The same, held against the OpenAPI document; `path` is the target decoded."""
    answer = send(server, method, target, body)
    contract.check(method, path, answer.status, answer.headers, answer.body)
    return answer
