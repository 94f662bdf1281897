"""The reference ledger's 60 sequences over HTTP, through both doors; and that the doors are one:
whatever is sent to them, well-formed or not, the answers are equal byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from fastapi import FastAPI

from tests.clock import START_MS, ManualClock
from tests.service.api import path_of
from tests.service.asgi import JSON, Answered, RawHeaders, ask
from tests.service.fixtures import AppMaker, ClientMaker, DatabaseMaker
from tests.service.malformed import BODIES, HEADERS, TARGETS, VERBS

LINES = (Path(__file__).parents[1] / "vectors" / "ledger.jsonl").read_text().splitlines()
SEQUENCES: Final[list[dict[str, Any]]] = [json.loads(line) for line in LINES]
CONTROL_FIELDS: Final = frozenset({"atMs", "op", "record", "error"})


def body_of(step: dict[str, Any]) -> dict[str, Any]:
    """The step's arguments. On a transition the lease's length is the worker's, and not sent."""
    unsent = CONTROL_FIELDS | ({"leaseTtlMs"} if step["op"] == "transition" else set())
    return {name: value for name, value in step.items() if name not in unsent}


def test_all_sixty_reference_sequences_are_here() -> None:
    assert len(SEQUENCES) == 60


@pytest.mark.parametrize("hot_door", [True, False], ids=["hot", "framework"])
async def test_the_service_answers_as_the_reference_did(
    make_app: AppMaker, make_client: ClientMaker, *, hot_door: bool
) -> None:
    clock = ManualClock()
    client = make_client(make_app(clock, hot_door=hot_door))
    for sequence in SEQUENCES:
        run_id, record = sequence["runId"], None
        for number, step in enumerate(sequence["steps"]):
            clock.set_ms(step["atMs"])

            answer = await client.verb(run_id, step["op"], body_of(step))

            where = f"{run_id}, step {number}"
            if "error" in step:
                assert answer.json()["code"] == step["error"], where
                assert answer.json().get("record") == record, where
                stored = await client.get(run_id)
                assert (stored.json() if stored.status_code == 200 else None) == record, where
            else:
                assert answer.json() == step["record"], where
                assert answer.status_code == (200 if record else 201), where
                record = step["record"]
        assert (await client.get(run_id)).json() == record


class Doors:
    """Two applications that differ only in their door, given the same requests."""

    def __init__(self, clock: ManualClock, hot: FastAPI, framework: FastAPI) -> None:
        self.clock = clock
        self._hot, self._framework = hot, framework
        self.statuses: set[int] = set()

    async def compare(
        self, method: str, target: str | bytes, headers: RawHeaders = (), body: bytes = b""
    ) -> Answered:
        hot = await ask(self._hot, method, target, headers, body)
        framework = await ask(self._framework, method, target, headers, body)
        sent = (method, target, headers, body[:200])
        assert hot.status == framework.status, (sent, hot.body, framework.body)
        assert hot.body == framework.body, sent
        assert _lasting(hot) == _lasting(framework), sent
        self.statuses.add(hot.status)
        return hot


def _lasting(answer: Answered) -> list[tuple[bytes, bytes]]:
    return sorted(pair for pair in answer.headers if pair[0] not in (b"x-request-id", b"date"))


@pytest.fixture
def doors(make_app: AppMaker, new_database: DatabaseMaker, clock: ManualClock) -> Doors:
    return Doors(
        clock,
        make_app(clock, database=new_database()),
        make_app(clock, database=new_database(), hot_door=False),
    )


async def test_both_doors_answer_every_reference_request_alike(doors: Doors) -> None:
    for sequence in SEQUENCES:
        run_id = sequence["runId"]
        for step in sequence["steps"]:
            doors.clock.set_ms(step["atMs"])
            body = json.dumps(body_of(step)).encode()
            await doors.compare("POST", path_of(run_id, step["op"]), [JSON], body)
    assert doors.statuses == {200, 201, 409}


async def test_both_doors_refuse_every_malformed_body_alike(doors: Doors) -> None:
    await _hold_run_1(doors)
    for target in VERBS:
        for body in BODIES:
            answer = await doors.compare("POST", target, [JSON], body)
            assert 400 <= answer.status < 500, (target, body[:200], answer.body)
    assert doors.statuses <= {201, 400, 409, 413, 415, 422}


async def test_both_doors_read_every_header_alike(doors: Doors) -> None:
    await _hold_run_1(doors)
    grant = b'{"owner":"a","fencingToken":1,"checkpointRef":{"key":"k","snapshotVersion":1,'
    grant += b'"savedAt":"2026-09-01T00:00:00Z"}}'
    bodies = {
        "acquire": b'{"owner":"a"}',
        "renew": b'{"owner":"a","fencingToken":1}',
        "fence-checkpoint": grant,
        "transition": b'{"owner":"a","fencingToken":1,"to":"queued"}',
    }
    for verb, body in bodies.items():
        for headers in HEADERS:
            await doors.compare("POST", path_of("run-1", verb), headers, body)
    for headers in HEADERS:
        await doors.compare("POST", "/v1/leases/renew", headers, b'{"owner":"a","leases":[]}')
    assert {200, 412, 415, 422} <= doors.statuses


async def test_both_doors_read_every_path_alike(doors: Doors) -> None:
    await _hold_run_1(doors)
    for target in TARGETS:
        for method in ("POST", "GET", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"):
            await doors.compare(method, target, [JSON], b'{"owner":"b"}')
            await doors.compare(method, target)
    assert {200, 201, 204, 404, 405, 409, 414, 422} <= doors.statuses


async def test_both_doors_answer_alike_when_the_database_cannot_be_opened(
    make_app: AppMaker, new_database: DatabaseMaker
) -> None:
    away = new_database()
    away.away()
    doors = Doors(ManualClock(), make_app(database=away), make_app(database=away, hot_door=False))

    answer = await doors.compare("POST", "/v1/runs/x/acquire", [JSON], b'{"owner":"a"}')

    assert answer.status == 503
    assert json.loads(answer.body)["code"] == "UNAVAILABLE"


async def _hold_run_1(doors: Doors) -> None:
    doors.clock.set_ms(START_MS)
    await doors.compare("POST", "/v1/runs/run-1/acquire", [JSON], b'{"owner":"a"}')
