"""Every error is a problem document, says what was wrong, and changes nothing."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import httpx
import pytest
from fastapi import FastAPI

from tests.clock import ManualClock
from tests.service import contract
from tests.service.api import Api, path_of, record_of, refused
from tests.service.asgi import JSON, Answered, RawHeaders, ask
from tests.service.databases import SPOILT, OwnDatabase
from tests.service.fixtures import AppMaker, ClientMaker
from tests.service.malformed import BODIES, CONTROL_CHARACTERS, TARGETS, UNREADABLE, VERBS

WAIT_S: Final = 20
TTL_MS_MIN, TTL_MS_MAX = 100, 86_400_000
OPERATIONS: Final = ("cancel", "resume", "revoke")


async def ask_checked(
    app: FastAPI,
    method: str,
    target: str,
    headers: RawHeaders = (),
    body: bytes | list[bytes] = b"",
) -> Answered:
    answer = await ask(app, method, target, headers, body)
    path = httpx.URL(f"http://test{target}").path if target.startswith("/") else target
    names = {name.decode(): value.decode() for name, value in answer.headers}
    contract.check(method, path, answer.status, names, answer.body)
    return answer


def code_of(answer: Answered) -> str:
    code: str = json.loads(answer.body)["code"]
    return code


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PATCH", "/v1/runs", "GET, HEAD, POST"),
        ("DELETE", "/v1/runs", "GET, HEAD, POST"),
        ("POST", "/v1/runs/x", "DELETE, GET, HEAD, PUT"),
        ("PATCH", "/v1/runs/x", "DELETE, GET, HEAD, PUT"),
        ("POST", "/v1/runs/x/unknown", "DELETE, GET, HEAD, PUT"),
        ("OPTIONS", "/v1/runs/x/acquire", "DELETE, GET, HEAD, POST, PUT"),
        ("PATCH", "/v1/runs/x/cancel", "DELETE, GET, HEAD, POST, PUT"),
        ("GET", "/v1/leases/renew", "POST"),
        ("HEAD", "/v1/leases/renew", "POST"),
        ("PUT", "/v1/leases/renew", "POST"),
        ("POST", "/healthz", "GET, HEAD"),
        ("DELETE", "/readyz", "GET, HEAD"),
        ("PUT", "/v1/lifecycle", "GET, HEAD"),
        ("POST", "/openapi.json", "GET, HEAD"),
        ("POST", "/docs", "GET, HEAD"),
    ],
)
async def test_a_wrong_method_is_told_the_right_ones(
    client: Api, method: str, path: str, allow: str
) -> None:
    answer = await client.http.request(method, path)

    assert answer.status_code == 405
    assert answer.headers["allow"] == allow
    assert answer.headers["content-type"] == contract.PROBLEM
    if method != "HEAD":
        assert answer.json()["code"] == "METHOD_NOT_ALLOWED"


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1",
        "/v1/",
        "/v1/run",
        "/V1/runs",
        "/v1/leases",
        "/v1/leases/renew/",
        "/v2/runs",
        "/healthz/",
        "/readyz/x",
        "/v1/lifecycle/",
        "/docs/../v1/runs",
        "/favicon",
        "/.env",
        "/%00",
        "/%ff",
        "/healthz%0A",
        "//v1/runs",
    ],
)
async def test_an_unknown_path_is_a_problem_and_no_redirect(client: Api, path: str) -> None:
    answer = await ask(_app(client), "GET", path)

    assert answer.status in (404, 422)
    assert dict(answer.headers)[b"content-type"] == contract.PROBLEM.encode()
    assert code_of(answer) in ("NOT_FOUND", "RUN_VALIDATION_ERROR")


@pytest.mark.parametrize("verb", [*VERBS, "/v1/runs", *(path_of("run-1", v) for v in OPERATIONS)])
async def test_json_that_cannot_be_read_is_400_and_changes_nothing(client: Api, verb: str) -> None:
    record_of(await client.acquire("run-1"), 201)
    before = await client.everything()
    for body in UNREADABLE:
        answer = await ask_checked(_app(client), "POST", verb, [JSON], body)

        assert answer.status == 400, body[:100]
        assert code_of(answer) == "RUN_VALIDATION_ERROR"
    assert await client.everything() == before


async def test_every_malformed_body_is_refused_and_changes_nothing(client: Api) -> None:
    record_of(await client.acquire("run-1"), 201)
    before = await client.everything()
    for target in VERBS:
        for body in BODIES:
            answer = await ask_checked(_app(client), "POST", target, [JSON] if body else [], body)
            assert answer.status in (400, 409, 422), (target, body[:200])
            assert answer.status == 400 or code_of(answer) != "INTERNAL_ERROR"
    assert await client.everything() == before


@pytest.mark.parametrize("verb", ["acquire", "renew", "fence-checkpoint", "transition"])
async def test_a_missing_body_is_named(client: Api, verb: str) -> None:
    problem = refused(await client.verb("x", verb), 422, "RUN_VALIDATION_ERROR")

    assert problem["field"] == "body"


@pytest.mark.parametrize(
    "media_type", ["text/plain", "application/x-www-form-urlencoded", "text/json", ""]
)
@pytest.mark.parametrize("path", ["/v1/runs", "/v1/runs/x/acquire", "/v1/runs/x/cancel"])
async def test_a_body_that_is_not_declared_as_json_is_415(
    client: Api, path: str, media_type: str
) -> None:
    answer = await client.http.post(path, content=b"{}", headers={"Content-Type": media_type})

    refused(answer, 415, "UNSUPPORTED_MEDIA_TYPE")


async def test_counters_are_true_integers_within_their_bounds(client: Api) -> None:
    record_of(await client.acquire("x"), 201)
    before = await client.everything()
    for text in ("true", "false", '"1"', "1.5", "1.0", "1e400", "1e0", str(2**53), str(2**63)):
        for verb, rest in (("renew", ""), ("transition", ',"to":"queued"')):
            body = f'{{"owner":"a","fencingToken":{text}{rest}}}'.encode()
            answer = await ask_checked(_app(client), "POST", path_of("x", verb), [JSON], body)
            assert (answer.status, code_of(answer)) == (422, "RUN_VALIDATION_ERROR"), body
            assert json.loads(answer.body)["field"] == "fencingToken"
    assert await client.everything() == before


@pytest.mark.parametrize("ttl", [0, 1, TTL_MS_MIN - 1, TTL_MS_MAX + 1, -1, 2**63])
async def test_a_lease_length_outside_its_bounds_is_refused_never_clamped(
    client: Api, ttl: int
) -> None:
    record_of(await client.acquire("x", ttl=TTL_MS_MAX), 201)
    before = await client.everything()

    for answer in (
        await client.acquire("y", ttl=ttl),
        await client.renew("x", 1, ttl=ttl),
        await client.renew_all([{"runId": "x", "fencingToken": 1}], leaseTtlMs=ttl),
    ):
        problem = refused(answer, 422, "RUN_VALIDATION_ERROR")
        assert problem["field"] == "leaseTtlMs"
    assert await client.everything() == before


async def test_the_settings_may_narrow_the_lease_length(
    make_app: AppMaker, make_client: ClientMaker, clock: ManualClock
) -> None:
    narrow: dict[str, Any] = {
        "lease_ttl_ms_min": 1_000,
        "lease_ttl_ms_max": 5_000,
        "lease_ttl_ms_default": 2_000,
    }
    client = make_client(make_app(clock, **narrow))

    default = await client.acquire("x")
    problem = refused(await client.acquire("y", ttl=999), 422, "RUN_VALIDATION_ERROR")
    refused(await client.acquire("y", ttl=5_001), 422, "RUN_VALIDATION_ERROR")

    assert default.headers["runlease-lease-remaining-ms"] == "2000"
    assert "1000" in problem["detail"]
    assert len(await client.everything()) == 1


async def test_no_text_holds_a_nul_or_control_character(client: Api) -> None:
    record_of(await client.acquire("x"), 201)
    before = await client.everything()
    grant: dict[str, Any] = {"owner": "a", "fencingToken": 1}
    ref = {"key": "k", "snapshotVersion": 1, "savedAt": "2026-09-01T00:00:00.000Z"}
    for character in (*CONTROL_CHARACTERS, "\r", "\x1b"):
        bad = f"a{character}b"
        requests: dict[str, tuple[str, dict[str, Any]]] = {
            "owner": ("/v1/runs/y/acquire", {"owner": bad}),
            "label key": ("/v1/runs/y/acquire", {"owner": "a", "labels": {bad: "x"}}),
            "label value": ("/v1/runs/y/acquire", {"owner": "a", "labels": {"k": bad}}),
            "renewer": ("/v1/runs/x/renew", {**grant, "owner": bad}),
            "runId": ("/v1/runs", {"runId": bad}),
            "checkpoint key": (
                "/v1/runs/x/fence-checkpoint",
                {**grant, "checkpointRef": {**ref, "key": bad}},
            ),
            "outcome code": (
                "/v1/runs/x/transition",
                {**grant, "to": "failed", "outcome": {"code": bad}},
            ),
            "outcome message": (
                "/v1/runs/x/transition",
                {**grant, "to": "failed", "outcome": {"code": "c", "message": bad}},
            ),
            "approval": (
                "/v1/runs/x/transition",
                {**grant, "to": "suspended", "pendingApprovalIds": [bad]},
            ),
            "cancel message": ("/v1/runs/x/cancel", {"message": bad}),
            "revoke message": ("/v1/runs/x/revoke", {"message": bad}),
            "resume message": ("/v1/runs/x/resume", {"message": bad}),
            "resume approval": ("/v1/runs/x/resume", {"pendingApprovalIds": [bad]}),
            "unknown field": ("/v1/runs/y/acquire", {"owner": "a", bad: 1}),
        }
        for name, (target, value) in requests.items():
            body = json.dumps(value).encode()
            answer = await ask_checked(_app(client), "POST", target, [JSON], body)
            assert (answer.status, code_of(answer)) == (422, "RUN_VALIDATION_ERROR"), name
    assert await client.everything() == before


async def test_a_message_may_hold_tab_and_newline(client: Api) -> None:
    await client.enqueue("x")

    record = record_of(await client.cancel("x", "one\n\ttwo"))

    assert record["outcome"] == {"code": "cancelled", "message": "one\n\ttwo"}


@pytest.mark.parametrize(
    "run_id",
    ["", " ", " x", "x ", "\u00a0x", "x\u2003", "x" * 513, ".", "..", "a//b", "/", "a/../b"],
)
async def test_an_id_that_is_none_is_refused_in_body_and_path(client: Api, run_id: str) -> None:
    before = await client.everything()

    refused(await client.enqueue(run_id), 422, "RUN_VALIDATION_ERROR")
    if run_id:
        for answer in (
            await client.acquire(run_id),
            await client.cancel(run_id),
            await client.get(run_id),
            await client.delete(run_id),
        ):
            refused(answer, 422, "RUN_VALIDATION_ERROR")

    assert await client.everything() == before


@pytest.mark.parametrize("method", ["GET", "DELETE", "POST"])
async def test_a_url_that_is_too_long_is_414(client: Api, method: str) -> None:
    for target in ("/v1/runs/" + "x" * 8_200, "/v1/runs?prefix=" + "x" * 8_200):
        answer = await ask_checked(_app(client), method, target)
        assert (answer.status, code_of(answer)) == (414, "URI_TOO_LONG")


async def test_a_body_beyond_the_bound_is_413_however_it_is_sent(
    make_app: AppMaker, make_client: ClientMaker
) -> None:
    app = make_app(body_bytes_max=1_024)
    client = make_client(app)
    big = json.dumps({"owner": "a" * 1_100}).encode()
    chunked = (b"transfer-encoding", b"chunked")
    pieces = [big[at : at + 100] for at in range(0, len(big), 100)]
    for verb in (*VERBS, "/v1/runs/x/cancel", "/v1/runs"):
        for headers, body in (
            ([JSON], big),
            ([JSON, chunked], pieces),
            ([JSON, (b"content-length", b"10")], pieces),
            ([JSON, (b"content-length", b"0"), chunked], pieces),
            ([JSON, (b"content-length", b"99999999999999999999")], [b""]),
        ):
            answer = await ask_checked(app, "POST", verb, headers, body)
            assert (answer.status, code_of(answer)) == (413, "PAYLOAD_TOO_LARGE")
            assert dict(answer.headers)[b"connection"] == b"close"
    assert await client.everything() == []


async def test_a_body_at_the_bound_is_read(make_app: AppMaker) -> None:
    app = make_app(body_bytes_max=1_024)
    body = b'{"owner":"a"}'.ljust(1_024)

    answer = await ask_checked(app, "POST", "/v1/runs/x/acquire", [JSON], body)

    assert answer.status == 201


async def test_a_body_that_breaks_off_is_not_obeyed(client: Api) -> None:
    """The rest of `{"pendingApprovalIds": …}` may be what would have refused it."""
    await client.acquire("x")
    await client.transition("x", 1, "suspended", pendingApprovalIds=["apr_2"])
    before = await client.everything()

    for verb in OPERATIONS:
        for pieces in ([b""], [b"", b""], [b"{"], [b"{}"]):
            for length in (JSON, (b"transfer-encoding", b"chunked")):
                headers = [JSON, length, (b"content-length", b"33")]
                target = path_of("x", verb)
                answer = await ask(_app(client), "POST", target, headers, pieces, vanish=True)
                assert answer.status == 400

    assert await client.everything() == before


async def test_a_thousand_leases_with_huge_owners_are_refused_cheaply(client: Api) -> None:
    lease = {"runId": "x", "fencingToken": 1, "owner": "a" * 3_000}
    answer = await client.renew_all([lease] * 1_000)
    assert answer.status_code == 200
    assert {result["problem"]["code"] for result in answer.json()["results"]} == {
        "RUN_VALIDATION_ERROR"
    }

    refused(
        await client.renew_all([{**lease, "owner": "a" * 1_000_000}] * 5), 413, "PAYLOAD_TOO_LARGE"
    )
    problem = refused(await client.acquire("x", "a" * 1_000_000), 422, "RUN_VALIDATION_ERROR")
    assert len(json.dumps(problem)) < 1_000


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"owner": "a", **{f"k{number}": 1 for number in range(200_000)}})[:-1]
        + ',"k199999":1}',
        json.dumps({"owner": "a", **{f"k{number}": 1 for number in range(200_000)}}),
        '{"owner":"a","leases":[' + ",".join(["{}"] * 500_000) + "]}",
        '{"owner":"a","leases":[' + ",".join(["{}"] * 1_000) + "]}",
        '{"owner":"a","labels":{' + ",".join(f'"{n}":1' for n in range(200_000)) + "}}",
    ],
    ids=["last key twice", "unknown fields", "too many leases", "bad leases", "labels"],
)
async def test_a_large_malformed_body_does_not_stop_the_others(client: Api, body: str) -> None:
    """Everything is served on one thread: what takes seconds here is an outage for all."""
    started = time.process_time()

    for target in ("/v1/runs/x/acquire", "/v1/leases/renew"):
        answer = await ask_checked(_app(client), "POST", target, [JSON], body.encode())
        assert answer.status < 500

    assert time.process_time() - started < 5


@pytest.mark.parametrize("given", ["a", "Abc-1.2_3~4:5/6+7=8@9", "x" * 128])
async def test_the_callers_request_id_is_sent_back(client: Api, given: str) -> None:
    for path in ("/healthz", "/v1/runs/none", "/nowhere"):
        answer = await client.http.get(path, headers={"X-Request-Id": given})
        assert answer.headers["x-request-id"] == given


@pytest.mark.parametrize(
    "given", [b"", b"x" * 129, b"a b", b"a\x00b", b"\xff", b"<script>", b'"', b"a;b", b"a\x1b[31m"]
)
async def test_a_request_id_unfit_for_a_log_is_replaced(client: Api, given: bytes) -> None:
    made = set()
    for path in ("/healthz", "/v1/runs/none"):
        answer = await ask_checked(_app(client), "GET", path, [(b"x-request-id", given)])
        made.add(dict(answer.headers)[b"x-request-id"])

    assert len(made) == 2
    assert given not in made


async def test_a_full_queue_is_503_at_once_and_refuses_no_more_than_it_must(
    make_app: AppMaker, make_client: ClientMaker, database: OwnDatabase
) -> None:
    bounds: dict[str, Any] = {"queue_depth_max": 3, "batch_leases_max": 3}
    client = make_client(make_app(**bounds, database_wait_ms_max=20_000, database_lanes=1))
    record_of(await client.acquire("x"), 201)
    with database.locked():
        # One flies, three wait; all of them are answered once the lock is gone.
        accepted = [asyncio.create_task(client.renew("x", 1))]
        await until(lambda: flying(client) == 1)
        accepted += [asyncio.create_task(client.renew("x", 1)) for _ in range(3)]
        await until(lambda: queue_depth(client) == 3)

        for answer in (
            await client.renew("x", 1),
            await client.cancel("x"),
            await client.enqueue("y"),
            await client.renew_all([{"runId": "x", "fencingToken": 1}]),
        ):
            problem = refused(answer, 503, "UNAVAILABLE")
            assert answer.headers["retry-after"] == "1"
            assert "waiting" in problem["detail"]
        assert (await client.http.get("/healthz")).status_code == 200

    answers = await asyncio.wait_for(asyncio.gather(*accepted), WAIT_S)
    assert [answer.status_code for answer in answers] == [200] * 4
    assert record_of(await client.get("x"))["version"] == 5


async def test_a_locked_database_is_503_then_serves_again_by_itself(
    make_app: AppMaker, make_client: ClientMaker, database: OwnDatabase
) -> None:
    client = make_client(make_app(database_wait_ms_max=200, request_wait_ms_max=500))
    record_of(await client.acquire("x"), 201)
    before = await client.everything()
    with database.locked():
        requests: list[Awaitable[httpx.Response]] = [
            client.renew("x", 1),
            client.acquire("y"),
            client.cancel("x"),
            client.delete("x", force=True),
        ]
        for answer in await asyncio.wait_for(asyncio.gather(*requests), WAIT_S):
            refused(answer, 503, "UNAVAILABLE")
            assert answer.headers["retry-after"] == "1"
        batch = (await client.renew_all([{"runId": "x", "fencingToken": 1}])).json()["results"]
        assert [result["problem"]["code"] for result in batch] == ["UNAVAILABLE"]
        ready = await client.http.get("/readyz")
        refused(ready, 503, "UNAVAILABLE")
        assert (await client.http.get("/healthz")).status_code == 200
        assert await client.everything() == before

    assert (await client.http.get("/readyz")).status_code == 200
    assert record_of(await client.renew("x", 1))["version"] == 2


@pytest.mark.parametrize(
    ("database_kind", "column", "value"),
    [(kind, *spoilt) for kind in sorted(SPOILT) for spoilt in SPOILT[kind]],
    indirect=["database_kind"],
)
async def test_a_broken_row_is_an_integrity_error_of_its_run_alone(
    client: Api, database: OwnDatabase, column: str, value: str
) -> None:
    for run_id in ("good-1", "bad", "good-2"):
        record_of(await client.acquire(run_id), 201)
    database.spoil("bad", column, value)

    batch = await client.renew_all(
        [{"runId": run_id, "fencingToken": 1} for run_id in ("good-1", "bad", "good-2")]
    )
    alone = [
        await client.renew("bad", 1),
        await client.acquire("bad", "b"),
        await client.enqueue("bad"),
        await client.cancel("bad"),
        await client.delete("bad", force=True),
        await client.get("bad"),
    ]

    first, second, third = batch.json()["results"]
    assert (first["record"]["version"], third["record"]["version"]) == (2, 2)
    assert second["problem"]["code"] == "RUN_INTEGRITY_ERROR"
    for answer in alone:
        refused(answer, 500, "RUN_INTEGRITY_ERROR")
        assert "SELECT" not in answer.text
    assert record_of(await client.renew("good-1", 1))["version"] == 3


async def test_commands_that_fly_together_with_a_broken_row_succeed(
    client: Api, database: OwnDatabase
) -> None:
    runs = [f"r{number}" for number in range(20)]
    for run_id in runs:
        record_of(await client.acquire(run_id), 201)
    database.spoil("r7", "labels", "'no json'")

    answers = await asyncio.gather(*(client.renew(run_id, 1) for run_id in runs))

    assert [answer.status_code for answer in answers] == [
        500 if run_id == "r7" else 200 for run_id in runs
    ]


@pytest.mark.parametrize("hot_door", [True, False], ids=["hot", "framework"])
async def test_a_fault_of_ours_is_500_without_a_traceback(
    make_app: AppMaker,
    make_client: ClientMaker,
    monkeypatch: pytest.MonkeyPatch,
    *,
    hot_door: bool,
) -> None:
    client = make_client(make_app(hot_door=hot_door))
    record_of(await client.acquire("x"), 201)
    before = await client.everything()

    def broken(*_: object) -> None:
        raise RuntimeError("SELECT secret FROM /etc/passwd")

    with monkeypatch.context() as patched:
        patched.setattr("runlease_service.executor.decide", broken)
        answers = [
            await client.renew("x", 1),
            await client.acquire("y"),
            await client.cancel("x"),
            await client.delete("x"),
        ]
        batch = (await client.renew_all([{"runId": "x", "fencingToken": 1}])).json()["results"]

    for answer in answers:
        problem = refused(answer, 500, "INTERNAL_ERROR")
        assert "secret" not in answer.text
        assert "record" not in problem
    assert [result["problem"]["code"] for result in batch] == ["INTERNAL_ERROR"]
    assert await client.everything() == before
    assert record_of(await client.renew("x", 1))["version"] == 2


async def test_after_the_end_the_answer_is_503(client: Api) -> None:
    record_of(await client.acquire("x"), 201)
    await _app(client).state.service.stop()

    for answer in (await client.renew("x", 1), await client.acquire("y"), await client.get("x")):
        refused(answer, 503, "UNAVAILABLE")
    refused(await client.http.get("/readyz"), 503, "UNAVAILABLE")
    assert (await client.http.get("/healthz")).status_code == 200


async def test_no_target_of_the_table_is_answered_by_anything_but_json(client: Api) -> None:
    for target in TARGETS:
        for method in ("GET", "POST", "PUT", "DELETE"):
            answer = await ask(_app(client), method, target)
            if answer.body:
                json.loads(answer.body)
            assert answer.status < 300 or answer.status >= 400, target


@pytest.mark.parametrize(
    "target",
    [
        "/v1/runs?limt=1",
        "/v1/runs?prefix=%ff",
        "/v1/runs?prefix=%ed%a0%80",
        "/v1/runs?status=done",
        "/v1/runs?limit=0",
        "/v1/runs?limit=1001",
        "/v1/runs?limit=ten",
        "/v1/runs?lease=maybe",
        "/v1/runs?owner=",
        "/v1/runs?label=team",
        "/v1/runs?label==a",
        "/v1/runs?cursor=",
    ],
)
async def test_a_filter_that_is_none_is_refused_in_place_of_ignored(
    client: Api, target: str
) -> None:
    await client.enqueue("x")

    answer = await ask_checked(_app(client), "GET", target)

    assert (answer.status, code_of(answer)) == (422, "RUN_VALIDATION_ERROR")


def _app(client: Api) -> FastAPI:
    transport = client.http._transport  # noqa: SLF001 (httpx has no other way to it)
    assert isinstance(transport, httpx.ASGITransport)
    app = transport.app
    assert isinstance(app, FastAPI)
    return app


def queue_depth(client: Api) -> int:
    depth: int = _app(client).state.service._executor._depth  # noqa: SLF001 (it is not public)
    return depth


def flying(client: Api) -> int:
    (lane,) = _app(client).state.service._executor._lanes  # noqa: SLF001 (it is not public)
    return len(lane.flying)


async def until(holds: Callable[[], bool]) -> None:
    """Give way to others until it holds; what it asks for has no event of its own."""
    async with asyncio.timeout(WAIT_S):
        while not holds():  # noqa: ASYNC110 (likewise)
            await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/runs/x"),
        ("PUT", "/v1/runs/x"),
        ("POST", "/v1/runs"),
        ("POST", "/v1/runs/x/acquire"),
        ("POST", "/v1/leases/renew"),
    ],
)
async def test_an_unknown_parameter_never_passes_silently(
    client: Api, method: str, path: str
) -> None:
    answer = await client.http.request(
        method, f"{path}?waitMs=1000", json={"owner": "a"} if method == "POST" else None
    )

    refused(answer, 422, "RUN_VALIDATION_ERROR")
    assert answer.json()["field"] == "waitMs"
    assert (await client.get("x")).status_code == 404
