"""B43: which run a path names, by bytes over a real socket. Nothing on the way mends a path."""

from __future__ import annotations

import itertools
from typing import Final
from urllib.parse import quote

import pytest

from tests.service.raw_http import RawAnswer, connect, head, read_answer, send, send_checked
from tests.service.server import Server

_NUMBER = itertools.count()

IDS: Final = (
    "plain",
    "a/b",
    "a%2Fb",
    "a%252Fb",
    "x/acquire",
    "x/renew/renew",
    "acquire",
    "renew",
    "cancel/resume",
    "100%",
    "100%25",
    "%",
    "%zz",
    "a+b",
    "a b",
    "a?b#c",
    "a&b=c;d",
    "ü",
    "u\u0308",
    "日本/語",
    "😀",
    "...",
    ".a",
    "a.",
    "a/.../b",
    "a\\b",
    "a:b@c",
    '"quoted"',
    "<tag>",
    "~tilde",
    "v1/runs/x",
    "http:/host/x",
)
SPELLINGS: Final = {
    "all encoded": lambda run_id: quote(run_id, safe=""),
    "slashes as they are": lambda run_id: quote(run_id, safe="/"),
    "every byte encoded": lambda run_id: "".join(f"%{byte:02x}" for byte in run_id.encode()),
    "as bare as can be": lambda run_id: quote(run_id, safe="/:@!$&'()*+,;=~\"<>\\"),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("run_id", IDS)
def test_one_run_through_all_verbs_however_its_id_is_spelt(
    live_server: Server, run_id: str, spelling: str
) -> None:
    # Each test has runs of its own; the id stays at the end, where it is hardest.
    mine = f"t{next(_NUMBER)}/{run_id}"
    path = "/v1/runs/" + SPELLINGS[spelling](mine)
    plain = f"/v1/runs/{mine}"

    def post(verb: str, **body: object) -> RawAnswer:
        answer = send_checked(
            live_server, "POST", f"{path}/{verb}", f"{plain}/{verb}", body or None
        )
        assert answer.status in (200, 201), answer
        assert answer.json()["runId"] == mine
        return answer

    ref = {"key": "k", "snapshotVersion": 1, "savedAt": "2026-09-01T00:00:00Z"}
    assert post("acquire", owner="a").status == 201
    post("renew", owner="a", fencingToken=1)
    post("fence-checkpoint", owner="a", fencingToken=1, checkpointRef=ref)
    post("transition", owner="a", fencingToken=1, to="suspended")
    post("resume")
    post("acquire", owner="a")
    post("revoke")
    record = post("cancel").json()
    got = send_checked(live_server, "GET", path, plain)
    assert (got.status, got.json()) == (200, record)
    head_only = send_checked(live_server, "HEAD", path, plain)
    assert (head_only.status, head_only.headers["etag"]) == (200, got.headers["etag"])
    put = send(live_server, "PUT", path, record, ("If-None-Match", "*"))
    assert (put.status, put.json()["record"]) == (412, record)
    assert send_checked(live_server, "DELETE", path, plain).status == 204
    assert send_checked(live_server, "GET", path, plain).status == 404


def test_a_slash_and_its_encoding_name_one_run(live_server: Server) -> None:
    assert send(live_server, "POST", "/v1/runs/one%2Frun/acquire", {"owner": "a"}).status == 201

    for target in (
        "/v1/runs/one/run",
        "/v1/runs/one%2Frun",
        "/v1/runs/one%2frun",
        "/v1/runs/%6fne/run",
    ):
        assert send(live_server, "GET", target).json()["runId"] == "one/run"
    assert send(live_server, "GET", "/v1/runs/one%252Frun").status == 404


def test_an_id_that_ends_in_a_verb_is_no_command_on_another(live_server: Server) -> None:
    assert send(live_server, "POST", "/v1/runs/v/acquire/acquire", {"owner": "a"}).status == 201

    assert send(live_server, "GET", "/v1/runs/v/acquire").json()["runId"] == "v/acquire"
    assert send(live_server, "GET", "/v1/runs/v").status == 404
    # An encoded verb is still the last segment.
    assert send(live_server, "POST", "/v1/runs/v%2Fcancel").status == 404
    assert send(live_server, "GET", "/v1/runs/v/acquire").json()["status"] == "running"
    assert send(live_server, "POST", "/v1/runs/renew").status == 405


REFUSED: Final = (
    ".",
    "..",
    "%2e",
    "%2E%2e",
    "a/../guarded",
    "../guarded",
    "./guarded",
    "guarded/.",
    "guarded/..",
    "guarded/",
    "/guarded",
    "a//guarded",
    "guarded//",
    "guarded%2F",
    "%2Fguarded",
    "guarded%2F%2E",
    "guarded%00",
    "guarded%0A",
    "guarded%0D%0A",
    "guarded%09",
    "guarded%20",
    "%20guarded",
    "guarded%C2%A0",
    "guarded%E3%80%80",
    "guarded%7F",
    "guarded%C2%85",
    "%ff",
    "guarded%ff",
    "%C3%28",
    "%ED%A0%80",
    "%C0%AF",
    "%F5%80%80%80",
)


@pytest.mark.parametrize("target", REFUSED)
def test_a_path_that_names_no_run_is_refused_and_never_another_runs_record(
    live_server: Server, target: str
) -> None:
    send(live_server, "POST", "/v1/runs/guarded/acquire", {"owner": "a"})
    before = send(live_server, "GET", "/v1/runs/guarded").body

    for method, suffix in (
        ("GET", ""),
        ("HEAD", ""),
        ("DELETE", ""),
        ("DELETE", "?force=true"),
        ("POST", "/cancel"),
        ("POST", "/revoke"),
    ):
        answer = send(live_server, method, f"/v1/runs/{target}{suffix}")
        assert answer.status == 422, (method, answer)
        assert answer.headers["content-type"] == "application/problem+json"
        assert "location" not in answer.headers
    for verb in ("acquire", "renew"):
        body = {"owner": "a", **({"fencingToken": 1} if verb == "renew" else {})}
        answer = send(live_server, "POST", f"/v1/runs/{target}/{verb}", body)
        assert answer.status == 422, (verb, answer)

    assert send(live_server, "GET", "/v1/runs/guarded").body == before


def test_a_line_feed_after_a_verb_or_a_path_is_part_of_it(live_server: Server) -> None:
    send(live_server, "POST", "/v1/runs/guarded/acquire", {"owner": "a"})

    for method, target in (
        ("POST", "/v1/runs/guarded/cancel%0A"),
        ("POST", "/v1/runs/guarded/cancel%0a"),
        ("GET", "/v1/runs%0A"),
        ("POST", "/v1/leases/renew%0A"),
        ("GET", "/healthz%0A"),
    ):
        assert send(live_server, method, target).status in (404, 422)
    assert send(live_server, "GET", "/v1/runs/guarded").json()["status"] == "running"


@pytest.mark.parametrize(
    "target",
    [
        b"/v1/runs/\xc3\xbc",
        b"/v1/runs/\xff",
        b"/v1/runs/a b",
        b"v1/runs/x",
        b"",
        b"/v1/runs/x\x00",
        b"/v1/runs/x\x01y",
    ],
)
def test_a_request_line_that_is_none_is_refused_and_the_service_goes_on(
    live_server: Server, target: bytes
) -> None:
    """These end in the HTTP parser, before the application."""
    with connect(live_server) as connection:
        connection.sendall(head("GET", target, [("Connection", "close")]))
        answer = read_answer(connection)

    assert 400 <= answer.status < 500
    assert send(live_server, "GET", "/healthz").status == 200


def test_a_fragment_is_not_cut_off_in_silence(live_server: Server) -> None:
    """No client sends one; whoever does means an id with a `#`, not the run before it."""
    send(live_server, "POST", "/v1/runs/frag/acquire", {"owner": "a"})

    with connect(live_server) as connection:
        connection.sendall(head("DELETE", "/v1/runs/frag#ment?force=true"))
        answer = read_answer(connection)

    assert answer.status >= 400
    assert send(live_server, "GET", "/v1/runs/frag").status == 200
