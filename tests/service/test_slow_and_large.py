"""B42: bodies that are too large or too slow, against a real process with a real memory."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import httpx
import pytest

from tests.service.fixtures import ServerMaker
from tests.service.raw_http import RawAnswer, connect, head, read_answer, send
from tests.service.server import Server

MB: Final = 1_000_000
CHUNK: Final = b" " * 65_536
GROWTH_BYTES_MAX: Final = 48 * MB
"""What one body at the bound (4 MB) may cost, with room for the allocator; 500 MB shows."""
JSON_TYPE: Final = ("Content-Type", "application/json")


def pour(connection: socket.socket, size: int, *, chunked: bool) -> int:
    """Send a body until it is sent or the other side has had enough; returns what went out."""
    sent = 0
    frame = b"%x\r\n" % len(CHUNK) + CHUNK + b"\r\n" if chunked else CHUNK
    try:
        while sent < size:
            connection.sendall(frame)
            sent += len(CHUNK)
    except (BrokenPipeError, ConnectionResetError):
        pass
    return sent


def pour_and_read(
    server: Server, size: int, *, chunked: bool, length: int | None = None
) -> RawAnswer:
    """Send a large body, reading all the while: the answer may come long before the end."""
    framing = (
        ("Transfer-Encoding", "chunked") if chunked else ("Content-Length", str(length or size))
    )
    answers: list[RawAnswer] = []
    with connect(server) as connection:
        connection.sendall(head("POST", "/v1/runs/large/acquire", [JSON_TYPE, framing]))
        reader = threading.Thread(target=lambda: answers.append(read_answer(connection)))
        reader.start()
        pour(connection, size, chunked=chunked)
        reader.join()
    (answer,) = answers
    return answer


@pytest.mark.parametrize("chunked", [False, True], ids=["by length", "chunked"])
@pytest.mark.parametrize("size", [20 * MB, 500 * MB])
def test_a_body_beyond_the_bound_is_cut_off_early_and_kept_nowhere(
    live_server: Server, size: int, *, chunked: bool
) -> None:
    assert send(live_server, "GET", "/healthz").status == 200
    before = live_server.resident_bytes()

    answer = pour_and_read(live_server, size, chunked=chunked)

    assert answer.status == 413
    assert answer.json()["code"] == "PAYLOAD_TOO_LARGE"
    assert answer.headers["connection"] == "close"
    assert live_server.resident_bytes() - before < GROWTH_BYTES_MAX
    assert send(live_server, "GET", "/v1/runs/large").status == 404


def test_a_length_that_lies_costs_only_its_sender(live_server: Server) -> None:
    body = b'{"owner":"a"}'
    with connect(live_server) as connection:
        # Shorter than the body: what follows is no request.
        fields = [JSON_TYPE, ("Content-Length", str(len(body) - 1))]
        connection.sendall(head("POST", "/v1/runs/lie/acquire", fields) + body)
        answer = read_answer(connection)
    assert answer.status == 400
    with connect(live_server) as connection:
        # No length at all: no body either, whatever comes after.
        connection.sendall(head("POST", "/v1/runs/lie/acquire", [JSON_TYPE]) + body)
        answer = read_answer(connection)
    assert answer.status in (400, 422)
    for length in ("-1", "x", "1e3", "0x10", "99999999999999999999999999"):
        with connect(live_server) as connection:
            fields = [JSON_TYPE, ("Content-Length", length)]
            connection.sendall(head("POST", "/v1/runs/lie/acquire", fields) + body)
            assert 400 <= read_answer(connection).status < 500
    assert send(live_server, "GET", "/v1/runs/lie").status == 404


def test_a_sender_that_vanishes_inside_the_body_is_not_obeyed(live_server: Server) -> None:
    send(live_server, "POST", "/v1/runs/gone/acquire", {"owner": "a"})
    before = send(live_server, "GET", "/v1/runs/gone").body

    for framing in (("Content-Length", "20"), ("Transfer-Encoding", "chunked")):
        for verb in ("cancel", "revoke"):
            with connect(live_server) as connection:
                connection.sendall(head("POST", f"/v1/runs/gone/{verb}", [JSON_TYPE, framing]))
                connection.shutdown(socket.SHUT_RDWR)

    # A request on a later connection is answered after those were given up.
    assert send(live_server, "GET", "/healthz").status == 200
    assert send(live_server, "GET", "/v1/runs/gone").body == before


def test_a_nested_body_of_100_000_levels_is_refused(live_server: Server) -> None:
    nested = b"[" * 100_000 + b"]" * 100_000
    answer = httpx.post(
        f"{live_server.url}/v1/runs/deep/acquire",
        content=nested,
        headers={"Content-Type": "application/json"},
    )

    assert answer.status_code == 400
    assert answer.json()["code"] == "RUN_VALIDATION_ERROR"


@pytest.fixture
def impatient(make_server: ServerMaker) -> Server:
    return make_server(body_wait_ms_max=500)


def trickle(connection: socket.socket, body: bytes, ended: threading.Event) -> None:
    """One byte after another, until the answer is there."""
    try:
        for byte in body:
            connection.sendall(bytes([byte]))
            if ended.wait(0.05):
                return
    except (BrokenPipeError, ConnectionResetError):
        return


@pytest.mark.parametrize("chunked", [False, True], ids=["by length", "chunked"])
def test_a_body_that_dribbles_in_is_cut_off_and_nobody_else_waits(
    impatient: Server, *, chunked: bool
) -> None:
    body = json.dumps({"owner": "a" * 200}).encode()
    framing = ("Transfer-Encoding", "chunked") if chunked else ("Content-Length", str(len(body)))
    sent = b"".join(b"1\r\n%c\r\n" % byte for byte in body) if chunked else body
    ended = threading.Event()
    with connect(impatient) as connection:
        connection.sendall(head("POST", "/v1/runs/slow/acquire", [JSON_TYPE, framing]))
        started = time.monotonic()
        sender = threading.Thread(target=trickle, args=(connection, sent, ended))
        sender.start()
        quickest = [_timed_acquire(impatient, f"other-{number}") for number in range(20)]
        answer = read_answer(connection)
        took = time.monotonic() - started
        ended.set()
        sender.join()

    assert answer.status == 408
    assert answer.json()["code"] == "REQUEST_TIMEOUT"
    assert answer.headers["connection"] == "close"
    assert 0.4 < took < 10
    assert max(quickest) < 5
    assert send(impatient, "GET", "/v1/runs/slow").status == 404


def test_a_body_that_never_comes_is_cut_off(impatient: Server) -> None:
    with connect(impatient) as connection:
        fields = [JSON_TYPE, ("Content-Length", "13"), ("Expect", "100-continue")]
        connection.sendall(head("POST", "/v1/runs/slow/cancel", fields))
        continued = connection.recv(1_000)
        assert continued.startswith(b"HTTP/1.1 100")
        answer = read_answer(connection)

    assert answer.status == 408


def _timed_acquire(server: Server, run_id: str) -> float:
    started = time.monotonic()
    assert send(server, "POST", f"/v1/runs/{run_id}/acquire", {"owner": "a"}).status == 201
    return time.monotonic() - started


def _pieces(size: int) -> Iterator[bytes]:
    for _ in range(0, size, len(CHUNK)):
        yield CHUNK


def test_a_thousand_leases_with_owners_of_a_megabyte_are_cut_off(live_server: Server) -> None:
    """Made as it is sent: a gigabyte would not fit here either."""
    before = live_server.resident_bytes()

    def batch() -> Iterator[bytes]:
        yield b'{"owner":"a","leases":['
        for _ in range(1_000):
            yield b'{"runId":"x","fencingToken":1,"owner":"'
            yield from _pieces(MB)
            yield b'"},'

    with connect(live_server) as connection:
        fields = [JSON_TYPE, ("Transfer-Encoding", "chunked")]
        connection.sendall(head("POST", "/v1/leases/renew", fields))
        answers: list[RawAnswer] = []
        reader = threading.Thread(target=lambda: answers.append(read_answer(connection)))
        reader.start()
        try:
            for piece in batch():
                connection.sendall(b"%x\r\n" % len(piece) + piece + b"\r\n")
        except (BrokenPipeError, ConnectionResetError):
            pass
        reader.join()

    assert answers[0].status == 413
    assert live_server.resident_bytes() - before < GROWTH_BYTES_MAX


def test_headers_without_end_are_cut_off_and_kept_nowhere(impatient: Server) -> None:
    before = impatient.resident_bytes()
    for piece in (b"X-N: " + b"y" * 1_000 + b"\r\n", b"x" * 1_000):
        sent = 0
        with connect(impatient) as connection:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: test\r\nX-Long: ")
            try:
                while sent < 100 * MB:
                    connection.sendall(piece * 100)
                    sent += len(piece) * 100
            except (BrokenPipeError, ConnectionResetError):
                pass
            grown = impatient.resident_bytes() - before
            assert grown < GROWTH_BYTES_MAX, f"{grown} bytes are held of {sent}"

    assert send(impatient, "GET", "/healthz").status == 200


def test_headers_up_to_the_bound_are_read(live_server: Server) -> None:
    answer = send(live_server, "GET", "/healthz", None, ("X-Long", "y" * 60_000))

    assert answer.status == 200


@pytest.mark.parametrize("start", [b"", b"GET /heal", b"GET /healthz HTTP/1.1\r\nHost: t"])
def test_a_request_whose_head_does_not_come_holds_no_connection(
    impatient: Server, start: bytes
) -> None:
    with connect(impatient) as fresh, connect(impatient) as kept:
        kept.sendall(head("GET", "/healthz"))
        assert read_answer(kept).status == 200
        fresh.sendall(start)
        kept.sendall(start)

        assert fresh.recv(1) == b""
        if start:  # without a byte it is idle, which is allowed
            assert kept.recv(1) == b""


def test_an_offer_to_upgrade_is_declined_and_the_request_answered(live_server: Server) -> None:
    """What Java's client sends with its first request, also with a body."""
    offer = [("Connection", "Upgrade, HTTP2-Settings"), ("upgrade", "h2c"), JSON_TYPE]
    body = json.dumps({"owner": "a"}).encode()
    with connect(live_server) as connection:
        for expected in (201, 200):
            fields = [*offer, ("Content-Length", str(len(body)))]
            connection.sendall(head("POST", "/v1/runs/h2c/acquire", fields) + body)
            assert read_answer(connection).status == expected


@pytest.mark.parametrize(
    "sent",
    [b"NONSENSE\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /v1/runs HTTP/1.1\r\nno colon\r\n\r\n"],
)
def test_what_is_no_http_is_refused_by_a_problem(live_server: Server, sent: bytes) -> None:
    with connect(live_server) as connection:
        connection.sendall(sent)
        answer = read_answer(connection)

    assert answer.status == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "RUN_VALIDATION_ERROR"


def test_one_connection_too_many_is_refused_by_a_problem(make_server: ServerMaker) -> None:
    server = make_server(connections_max=3)
    request = head("GET", "/v1/runs/none")
    with ExitStack() as stack:
        served = [stack.enter_context(connect(server)) for _ in range(3)]
        for connection in served:
            connection.sendall(request)
            assert read_answer(connection).status == 404
        with connect(server) as extra:
            extra.sendall(request)
            refused = read_answer(extra)
            assert extra.recv(1) == b""

        served[0].sendall(request)
        assert read_answer(served[0]).status == 404

    assert refused.status == 503
    assert refused.headers["retry-after"] == "1"
    assert refused.json()["code"] == "UNAVAILABLE"
