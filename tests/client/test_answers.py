"""What a client makes of the answers it gets, of those that are lost, and of those that are odd."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import pytest

import runlease
from runlease import (
    AccessError,
    Connection,
    RefusedError,
    RemoteExecutor,
    RunIntegrityError,
    RunLeaseHandle,
    RunLedger,
    RunStatus,
    UnavailableError,
    UnexpectedAnswerError,
)
from runlease_core import Cancel, RunNotFoundError
from tests.client.odd_server import odd_server, response
from tests.core.examples import CHECKPOINT
from tests.proxy import Proxy
from tests.service.server import Server

RECORD: Final[dict[str, Any]] = {
    "schema": 1,
    "runId": "run-1",
    "version": 1,
    "status": "queued",
    "attempt": 1,
    "fencingToken": 0,
    "createdAt": "2026-09-01T00:00:00.000Z",
    "updatedAt": "2026-09-01T00:00:00.000Z",
}


def lose_the_next_answer(proxy: Proxy) -> list[bytes]:
    """The next request is carried out, and its answer cut; what was cut."""
    cut: list[bytes] = []

    def trouble(data: bytes, is_request: bool) -> float | None:
        if is_request or cut:
            return 0.0
        cut.append(data)
        return None

    proxy.trouble = trouble
    return cut


STEPS: Final[dict[str, Callable[[RunLedger, RunLeaseHandle], object]]] = {
    "renew": lambda _, run: run.renew(),
    "fence-checkpoint": lambda _, run: run.record_checkpoint(CHECKPOINT),
    "complete": lambda _, run: run.complete(),
    "fail": lambda _, run: run.fail("broken"),
    "suspend": lambda _, run: run.suspend(["apr_1"]),
    "release": lambda _, run: run.release(),
    "cancel by its worker": lambda _, run: run.cancel(),
    "cancel by an operator": lambda ledger, run: ledger.cancel(run.run_id),
    "delete": lambda ledger, run: ledger.delete(run.run_id, force=True),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_lost_answer_is_asked_for_again(
    proxy: Proxy, url: str, step: Callable[[RunLedger, RunLeaseHandle], object]
) -> None:
    with runlease.connect(url, heartbeat=False) as ledger:
        run = ledger.acquire("run-1")
        cut = lose_the_next_answer(proxy)

        step(ledger, run)

        assert len(cut) == 1
        assert not run.lost
        record = ledger.get("run-1")
        assert record is None or record.fencing_token <= 2


def test_a_lost_grant_is_found_again(proxy: Proxy, url: str) -> None:
    with runlease.connect(url, heartbeat=False) as ledger:
        ledger.get("warm")  # the connection stands
        cut = lose_the_next_answer(proxy)

        run = ledger.acquire("run-1")

        assert b" 201 " in cut[0]
        assert (run.fencing_token, run.attempt) == (1, 1)


def test_a_release_whose_answer_was_lost_and_whose_run_moved_on_is_no_error(
    server: Server, proxy: Proxy, url: str
) -> None:
    with (
        runlease.connect(url, heartbeat=False) as ledger,
        runlease.connect(server.url, owner="rival", heartbeat=False) as rival,
    ):
        run = ledger.acquire("run-1")
        taken: list[RunLeaseHandle] = []

        def trouble(_data: bytes, is_request: bool) -> float | None:
            if is_request or taken:
                return 0.0
            # In the proxy's own thread, before the client knows.
            thread = threading.Thread(target=lambda: taken.append(rival.acquire("run-1")))
            thread.start()
            thread.join()
            return None

        proxy.trouble = trouble
        run.release()

        assert not run.lost
        assert taken[0].held


def test_an_operators_version_that_a_lost_answer_used_up_is_unknown(proxy: Proxy, url: str) -> None:
    with runlease.connect(url, heartbeat=False) as ledger:
        ledger.enqueue("run-1")
        lose_the_next_answer(proxy)

        with pytest.raises(UnavailableError, match="the first attempt was lost"):
            ledger.cancel("run-1", expected_version=1)

        record = ledger.get("run-1")
        assert record is not None
        assert record.status is RunStatus.CANCELLED


@pytest.mark.parametrize("verb", ["create", "compare_and_set"])
def test_a_stores_write_whose_answer_was_lost_stands(proxy: Proxy, url: str, verb: str) -> None:
    store = runlease.RemoteRunStore(Connection(url=url))
    first = runlease.RunRecord(**{**vars(_record()), "version": 1})
    if verb == "compare_and_set":
        assert store.create(first)
        second = first.written(first.updated_at, status=RunStatus.RUNNING)
    lose_the_next_answer(proxy)

    stored = store.create(first) if verb == "create" else store.compare_and_set("run-1", 1, second)

    store.close()
    assert stored


def _record() -> runlease.RunRecord:
    from runlease_core import parse_record  # noqa: PLC0415 (only here)

    return parse_record(RECORD)


def test_the_heartbeat_survives_whatever_answers_it(server: Server, proxy: Proxy, url: str) -> None:
    """B07: refused, 502 with a page, broken JSON, 503, a read time-out, then a healthy service."""
    odd = [
        response(502, "<html>bad gateway</html>", content_type="text/html"),
        response(200, '{"results": [', content_type="application/json"),
        response(503, '{"code":"UNAVAILABLE","detail":"later"}', "Retry-After: 0"),
        response(200, "[]"),
        None,
    ]
    held: list[bool] = []
    with runlease.connect(url, lease_ttl_ms=3_000) as ledger, odd_server(*odd) as strange:
        run = ledger.acquire("run-1")
        before = run.record
        proxy.forward(int(strange.url.rpartition(":")[2]))
        proxy.cut()
        end = time.monotonic() + 1.6
        while time.monotonic() < end:
            held.append(run.held)
            time.sleep(0.01)
        proxy.refuse()
        proxy.forward(server.port)
        deadline = time.monotonic() + 10
        while run.record == before:
            assert time.monotonic() < deadline, "it is not renewed again"
            time.sleep(0.01)

        assert all(held)
        assert run.held
        assert len(strange.requests) >= 2


def test_a_service_that_hangs_loses_the_lease_no_later_than_its_length(
    server: Server, proxy: Proxy, url: str
) -> None:
    """B08: `held` turns false at most one length after the last renewal was sent, never after a
    rival's grant; the callback comes as well."""
    ttl_s = 2.0
    lost_at: list[float] = []
    with (
        runlease.connect(
            url, lease_ttl_ms=2_000, on_lost=lambda _: lost_at.append(time.monotonic())
        ) as ledger,
        runlease.connect(server.url, owner="rival") as rival,
    ):
        run = ledger.acquire("run-1")
        proxy.hang()
        sent_at = time.monotonic()
        while run.held:
            time.sleep(0.005)
        not_held_at = time.monotonic()
        rival.acquire("run-1", wait=20)
        granted_at = time.monotonic()

        assert run.lost_event.wait(20)
        proxy.forward()
        proxy.cut()

        assert run.loss_reason is runlease.LossReason.UNPROVED
        assert not_held_at - sent_at <= ttl_s + 0.5
        assert not_held_at < granted_at
        assert lost_at


def test_an_idle_connection_that_was_closed_is_no_error(proxy: Proxy, url: str) -> None:
    """B46: the other side closes a connection just as it is used again."""
    with runlease.connect(url, heartbeat=False) as ledger:
        for number in range(50):
            proxy.cut()
            run = ledger.acquire(f"run-{number}")
            proxy.cut()
            run.complete()

            assert (run.fencing_token, run.lost) == (1, False)


def get(url: str) -> runlease.RunRecord | None:
    executor = RemoteExecutor(Connection(url=url))
    try:
        return executor.get("run-1")
    finally:
        executor.close()


def test_a_newer_services_record_is_read(server: Server) -> None:
    """B62: absent parts, null, and fields that this version does not know."""
    newer = {
        **RECORD,
        "status": "running",
        "priority": 7,
        "outcome": None,
        "lease": {
            "owner": "a",
            "acquiredAt": "2026-09-01T00:00:00.000Z",
            "expiresAt": "2026-09-01T00:01:00+00:00",
            "region": "eu",
        },
    }
    with odd_server(response(200, json.dumps(newer))) as strange:
        record = get(strange.url)

    assert record is not None
    assert record.lease is not None
    assert (record.status, record.lease.owner, record.outcome) == (RunStatus.RUNNING, "a", None)


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (
            response(418, '{"code":"RUN_FROZEN","detail":"frozen until noon"}'),
            RefusedError,
            "RUN_FROZEN: frozen until noon",
        ),
        (
            response(403, '{"code":"FORBIDDEN","detail":"outside of your prefixes"}'),
            AccessError,
            "FORBIDDEN: outside",
        ),
        (
            response(401, '{"code":"UNAUTHENTICATED","detail":"expired"}'),
            AccessError,
            "UNAUTHENTICATED: expired",
        ),
        (
            response(200, "<html>welcome</html>", content_type="text/html"),
            UnexpectedAnswerError,
            "check the URL",
        ),
        (response(200, '{"schema":1}'), RunIntegrityError, "malformed"),
        (
            response(200, json.dumps({**RECORD, "status": "paused"})),
            RunIntegrityError,
            "status",
        ),
        (response(302, "", "Location: http://elsewhere/"), UnexpectedAnswerError, "302"),
        (response(404, '{"code":"RUN_NOT_FOUND","detail":"there is no such run"}'), None, ""),
    ],
)
def test_an_odd_answer_is_an_error_that_says_what_came(
    answer: bytes, error: type[Exception] | None, words: str
) -> None:
    with odd_server(answer) as strange:
        if error is None:
            assert get(strange.url) is None
        else:
            with pytest.raises(error, match=words):
                get(strange.url)


def test_no_answer_in_time_is_unavailable_and_says_why() -> None:
    executor = RemoteExecutor(Connection(url="http://127.0.0.1:9"))

    with pytest.raises(UnavailableError, match="no answer in time: ConnectError"):
        executor.execute(Cancel(run_id="run-1"), wait_seconds=0.1)

    executor.close()


def test_a_token_is_asked_for_with_every_request() -> None:
    tokens = iter(["first", "second"])
    with odd_server(response(200, json.dumps(RECORD)), response(200, json.dumps(RECORD))) as odd:
        executor = RemoteExecutor(Connection(url=odd.url, token=lambda: next(tokens)))
        executor.get("run-1")
        executor.get("run-1")
        executor.close()

    sent = [request.lower() for request in odd.requests]
    assert b"authorization: bearer first" in sent[0]
    assert b"authorization: bearer second" in sent[1]
    assert "first" not in repr(Connection(url="http://x", token="first"))


def test_a_forked_child_holds_nothing_and_uses_connections_of_its_own(server: Server) -> None:
    with runlease.connect(server.url) as ledger:
        run = ledger.acquire("run-1")
        said, told = os.pipe()
        if (child := os.fork()) == 0:
            try:
                try:
                    run.renew()
                except RuntimeError as error:
                    refused = "this is its fork" in str(error)
                own = ledger.acquire("run-2")
                ok = refused and not run.held and own.owner != run.owner
                own.complete()
                os.write(told, b"y" if ok else b"n")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        verdict = os.read(said, 1)
        os.close(said)
        os.close(told)

        assert verdict == b"y"
        assert run.held
        assert run.complete().status is RunStatus.COMPLETED


def test_what_is_not_there_is_said_by_its_code(server: Server) -> None:
    with runlease.connect(server.url) as ledger:
        assert ledger.get("none") is None
        with pytest.raises(RunNotFoundError):
            ledger.cancel("none")
        with pytest.raises(runlease.RunValidationError) as refused:
            ledger.acquire("a/../b")
        assert refused.value.field == "runId"
