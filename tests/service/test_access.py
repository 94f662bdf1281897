"""Who may do what: every endpoint by every kind of credential, and leases that stay with theirs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml

from runlease_core.errors import RunStoreError
from runlease_service.auth.access import Access, ForbiddenError, needed_scope
from runlease_service.auth.principal import Principal, Scope
from runlease_service.auth.tokens import TokenFile, TokenFileError, entry_of, new_token
from tests.clock import ManualClock
from tests.service.api import Api, record_of, refused
from tests.service.fixtures import AppMaker, ClientMaker

ROOT: Final = Path(__file__).parents[2]
DOCUMENT: Final[dict[str, Any]] = yaml.safe_load((ROOT / "openapi.yaml").read_text())
NAMES: Final = ("worker-a", "worker-b", "operator", "reader", "keeper", "elsewhere", "expired")
TOKENS: Final = {name: new_token() for name in NAMES}
SCOPES: Final = {
    "worker-a": ["read", "work"],
    "worker-b": ["read", "work"],
    "operator": ["read", "operate"],
    "reader": ["read"],
    "keeper": ["read", "work", "operate", "store"],
    "elsewhere": ["read", "work", "operate", "store"],
    "expired": ["read", "work", "operate", "store"],
}
RUN: Final = "team-a/run-1"


def write_tokens(path: Path, clock: ManualClock, names: tuple[str, ...] = NAMES) -> None:
    entries = [
        entry_of(
            name,
            TOKENS[name],
            SCOPES[name],
            ["team-b/"] if name == "elsewhere" else ["team-a/", "shared/"],
            clock() if name == "expired" else None,
        )
        for name in names
    ]
    new = path.with_suffix(".new")
    new.write_text(yaml.safe_dump({"tokens": entries}))
    new.replace(path)


@pytest.fixture
def tokens_file(tmp_path: Path, clock: ManualClock) -> Path:
    path = tmp_path / "tokens.yaml"
    write_tokens(path, clock)
    return path


@pytest.fixture(params=[True, False], ids=["hot", "framework"])
def anybody(
    request: pytest.FixtureRequest,
    make_app: AppMaker,
    make_client: ClientMaker,
    tokens_file: Path,
    clock: ManualClock,
) -> Api:
    return make_client(make_app(clock, hot_door=request.param, tokens_file=str(tokens_file)))


class As:
    """The same client with a credential."""

    def __init__(self, api: Api, name: str | None) -> None:
        self._http = api.http
        self._name = name

    def __enter__(self) -> None:
        if self._name is not None:
            token = TOKENS.get(self._name, self._name)
            self._http.headers["authorization"] = f"Bearer {token}"

    def __exit__(self, *_: object) -> None:
        self._http.headers.pop("authorization", None)


RECORD: Final[dict[str, Any]] = {
    "schema": 1,
    "runId": RUN,
    "version": 1,
    "status": "queued",
    "attempt": 1,
    "fencingToken": 0,
    "createdAt": "2026-09-01T00:00:00.000Z",
    "updatedAt": "2026-09-01T00:00:00.000Z",
}
REF: Final = {"key": "k", "snapshotVersion": 1, "savedAt": "2026-09-01T00:00:00Z"}
BODIES: Final[dict[str, Any]] = {
    "enqueue_run": {"runId": RUN},
    "put_run": RECORD,
    "acquire_run": {"owner": "x"},
    "renew_lease": {"owner": "x", "fencingToken": 1},
    "fence_checkpoint": {"owner": "x", "fencingToken": 1, "checkpointRef": REF},
    "transition_run": {"owner": "x", "fencingToken": 1, "to": "completed"},
    "renew_leases": {"owner": "x", "leases": [{"runId": RUN, "fencingToken": 1}]},
}
OPERATIONS: Final = [
    pytest.param(method.upper(), path, operation["operationId"], id=operation["operationId"])
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
    if "security" in operation
]
OPEN: Final = {
    operation["operationId"]
    for methods in DOCUMENT["paths"].values()
    for operation in methods.values()
    if "security" not in operation
}


async def ask(api: Api, method: str, path: str, operation: str) -> httpx.Response:
    return await api.http.request(
        method,
        path.replace("{runId}", RUN),
        json=BODIES.get(operation),
        headers={"If-None-Match": "*"} if operation == "put_run" else {},
    )


def test_only_what_says_nothing_of_runs_is_open() -> None:
    assert {"get_health", "get_readiness", "get_lifecycle"} == OPEN
    with pytest.raises(ForbiddenError):
        needed_scope("POST", "/v1/runs/x/a-new-verb")
    with pytest.raises(ForbiddenError):
        needed_scope("GET", "/v1/something-new")


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS)
async def test_every_endpoint_asks_for_its_credential(
    anybody: Api, method: str, path: str, operation: str
) -> None:
    scope = needed_scope(method, path)
    assert scope is not None
    lacking = "reader" if scope is not Scope.READ else None

    for nobody in (None, "rl_wrong", "expired"):
        with As(anybody, nobody):
            answer = await ask(anybody, method, path, operation)
        refused(answer, 401, "UNAUTHENTICATED")
        assert answer.headers["www-authenticate"] == "Bearer"
    if lacking is not None:
        with As(anybody, lacking):
            refused(await ask(anybody, method, path, operation), 403, "FORBIDDEN")
    with As(anybody, "elsewhere"):
        answer = await ask(anybody, method, path, operation)
    if operation == "list_runs":
        assert answer.json() == {"runs": []}
    elif operation == "renew_leases":
        assert answer.json()["results"][0]["problem"]["code"] == "FORBIDDEN"
    else:
        refused(answer, 403, "FORBIDDEN")
    with As(anybody, "keeper"):
        assert (await anybody.get(RUN)).status_code == 404, "something was changed"
        allowed = await ask(anybody, method, path, operation)
    assert allowed.status_code not in (401, 403)


async def test_a_lease_belongs_to_the_credential_that_took_it(anybody: Api) -> None:
    with As(anybody, "worker-a"):
        taken = record_of(await anybody.acquire(RUN, owner="the owner"), 201)
    stolen = {"owner": "the owner", "fencingToken": taken["fencingToken"]}

    with As(anybody, "worker-b"):
        assert (await anybody.get(RUN)).json() == taken
        for verb, body in (
            ("renew", stolen),
            ("fence-checkpoint", {**stolen, "checkpointRef": REF}),
            ("transition", {**stolen, "to": "completed"}),
            ("transition", {**stolen, "to": "queued"}),
        ):
            refused(await anybody.verb(RUN, verb, body), 403, "FORBIDDEN")
        batch = await anybody.renew_all(
            [{"runId": RUN, "fencingToken": taken["fencingToken"]}], owner="the owner"
        )
        assert batch.json()["results"][0]["problem"]["code"] == "FORBIDDEN"
        refused(await anybody.acquire(RUN, owner="the owner"), 409, "RUN_LEASE_HELD")
        assert (await anybody.get(RUN)).json() == taken

    with As(anybody, "operator"):
        revoked = record_of(await anybody.verb(RUN, "revoke"))
    with As(anybody, "worker-b"):
        assert (
            record_of(await anybody.acquire(RUN, owner="the owner"))["fencingToken"]
            > revoked["fencingToken"]
        )
    with As(anybody, "worker-a"):
        refused(await anybody.verb(RUN, "renew", stolen), 403, "FORBIDDEN")


async def test_a_list_shows_what_the_prefixes_cover(anybody: Api) -> None:
    with As(anybody, "keeper"):
        for run_id in ("team-a/1", "team-a/2", "shared/1"):
            record_of(await anybody.enqueue(run_id), 201)
        for outside in ("team-ab/1", "team-a", "TEAM-A/1", "team-\u0430/1", "x/team-a/1"):
            refused(await anybody.enqueue(outside), 403, "FORBIDDEN")
    with As(anybody, "elsewhere"):
        record_of(await anybody.enqueue("team-b/1"), 201)
        assert [run["runId"] for run in (await anybody.page()).json()["runs"]] == ["team-b/1"]

    with As(anybody, "reader"):
        found: list[str] = []
        page = (await anybody.page(limit=2)).json()
        found += [run["runId"] for run in page["runs"]]
        page = (await anybody.page(limit=2, cursor=page["nextCursor"])).json()
        found += [run["runId"] for run in page["runs"]]
        assert sorted(found) == ["shared/1", "team-a/1", "team-a/2"]
        assert (await anybody.page(prefix="team-b/")).json() == {"runs": []}


@pytest.mark.parametrize(
    "path",
    ["team-a/../team-b/1", "team-a%2f..%2fteam-b%2f1", "team-a/%2e%2e/team-b/1", "./team-b/1"],
)
async def test_no_trick_of_a_path_leads_out_of_a_prefix(anybody: Api, path: str) -> None:
    with As(anybody, "elsewhere"):
        record_of(await anybody.enqueue("team-b/1"), 201)
    with As(anybody, "keeper"):
        answer = await anybody.http.send(
            httpx.Request(
                "GET",
                httpx.URL("http://test", raw_path=f"/v1/runs/{path}".encode()),
                headers={"authorization": f"Bearer {TOKENS['keeper']}"},
            )
        )

    assert answer.status_code in (403, 422)
    assert "record" not in answer.json()


async def test_the_file_is_read_again_and_a_broken_one_leaves_the_last_good_one(
    tmp_path: Path, clock: ManualClock
) -> None:
    path, seconds = tmp_path / "tokens.yaml", [0.0]
    write_tokens(path, clock, ("reader", "worker-a"))
    tokens = TokenFile(path, lambda: seconds[0])

    def knows(name: str) -> bool:
        seconds[0] += 2
        return tokens.find(TOKENS[name], clock()) is not None

    assert (knows("reader"), knows("worker-a"), knows("worker-b")) == (True, True, False)
    write_tokens(path, clock, ("reader", "worker-b"))
    assert (knows("worker-a"), knows("worker-b")) == (False, True)
    path.write_text("tokens: [")
    assert (knows("reader"), knows("worker-b")) == (True, True)
    path.unlink()
    assert knows("reader")
    write_tokens(path, clock, ("worker-a",))
    assert (knows("reader"), knows("worker-a")) == (False, True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sha256": "ABC"}, "sha256: must be 64"),
        ({"scopes": ["admin"]}, "scopes: must be a list of read"),
        ({"scopes": []}, "scopes: must be"),
        ({"prefixes": ["team-a"]}, "ends in a slash"),
        ({"prefixes": []}, "prefixes: must be"),
        ({"name": "a\nb"}, "name: must hold no control"),
        ({"expiresAt": "tomorrow"}, "expiresAt: must be"),
        ({"password": "x"}, "password is not a known field"),
    ],
)
def test_a_wrong_entry_is_named(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    entry = entry_of("a", new_token(), ["work"], [""]) | change
    path = tmp_path / "tokens.json"
    path.write_text(json.dumps({"tokens": [entry]}))

    with pytest.raises(TokenFileError, match=words):
        TokenFile(path)


@pytest.mark.parametrize(
    ("prefix", "run_id", "covered"),
    [
        ("team-a/", "team-a/x", True),
        ("team-a/", "team-ab/x", False),
        ("team-a/", "team-a", False),
        ("", "anything", True),
    ],
)
def test_a_prefix_covers_whole_segments(prefix: str, run_id: str, *, covered: bool) -> None:
    assert Principal("a", frozenset(), (prefix,)).covers(run_id) is covered


def runlease(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "runlease_service.cli", *arguments],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_a_new_token_is_shown_once_and_its_entry_works(tmp_path: Path) -> None:
    done = runlease("token", "new", "ci", "--scope", "work", "--prefix", "ci/", "--days", "30")

    assert done.returncode == 0, done.stderr
    token = done.stderr.splitlines()[0].rpartition(" ")[2]
    assert token not in done.stdout
    path = tmp_path / "tokens.yaml"
    path.write_text("tokens:\n" + done.stdout)
    found = TokenFile(path).find(token, ManualClock()())
    assert found == Principal("ci", frozenset({Scope.WORK}), ("ci/",))
    assert runlease("token", "new", "ci", "--scope", "work", "--prefix", "ci").returncode == 2


def test_an_address_that_others_reach_needs_a_credential(tmp_path: Path) -> None:
    refused_start = runlease("serve", "--host", "0.0.0.0", "--port", "0")  # noqa: S104
    broken = runlease("serve", "--port", "0", RUNLEASE_TOKENS_FILE=str(tmp_path / "none"))

    assert refused_start.returncode == 2
    assert "--tokens-file" in refused_start.stderr
    assert "--allow-unauthenticated" in refused_start.stderr
    assert broken.returncode == 2
    assert "cannot be read" in broken.stderr


def test_no_secret_is_in_a_log_or_a_problem(
    tmp_path: Path, clock: ManualClock, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tokens.yaml"
    write_tokens(path, clock)
    access = Access(TokenFile(path), clock)

    with pytest.raises(Exception, match="not known") as refusal:
        access.judge("GET", "/v1/runs", b"Bearer rl_secret-of-mine")

    assert "secret" not in f"{refusal.value}{capsys.readouterr()}"
    assert not isinstance(refusal.value, RunStoreError)
