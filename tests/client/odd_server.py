"""A server that answers the next requests as a test says, byte for byte: what no sane one sends."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

ANSWER_S_MAX = 20.0


def response(
    status: int, body: str, *headers: str, content_type: str = "application/json"
) -> bytes:
    """A whole HTTP response."""
    lines = [
        f"HTTP/1.1 {status} Odd",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body.encode())}",
        *headers,
    ]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


class OddServer:
    """Answers one connection's request after the other; keeps what it was asked."""

    def __init__(self, answers: Sequence[bytes | None]) -> None:
        self._answers = list(answers)
        self.requests: list[bytes] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                client.settimeout(ANSWER_S_MAX)
                with suppress(OSError), client:
                    while self._answers and (data := client.recv(65_536)):
                        self.requests.append(data)
                        answer = self._answers.pop(0)
                        if answer is None:
                            break  # the connection is cut in place of an answer
                        client.sendall(answer)

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()


@contextmanager
def odd_server(*answers: bytes | None) -> Iterator[OddServer]:
    server = OddServer(answers)
    try:
        yield server
    finally:
        server.close()
