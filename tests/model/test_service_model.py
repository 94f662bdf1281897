"""Random commands from several workers and operators through the service, against the rules.

Two applications share one database, one with the hot door and one without; each command goes to
either. After every step the answer must be what `decide` says over a dictionary, and the stored
record what it leaves; `World` holds section 7 against both. The run ends only when every command
was accepted and every applicable code was refused. RUNLEASE_TEST_SEED repeats it.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, Final

import httpx

from runlease_core.commands import (
    Acquire,
    AnyCommand,
    Cancel,
    CompareAndSet,
    Create,
    Delete,
    Enqueue,
    Existing,
    FenceCheckpoint,
    Renew,
    Resume,
    Revoke,
    Transition,
)
from runlease_core.decide import Converged, Decision, Refused, Write
from runlease_core.errors import Code
from runlease_core.instant import ms_from_instant
from runlease_core.record import RunRecord
from tests.clock import ManualClock
from tests.model.driver import APPLICABLE, Driver, seed_from_environment
from tests.model.world import World
from tests.service.api import Api, path_of
from tests.service.fixtures import AppMaker, ClientMaker

STEPS_MIN: Final = 1_500
STEPS_MAX: Final = 20_000
LIST_EVERY: Final = 50
STATUS: Final = {
    Code.RUN_NOT_FOUND: 404,
    Code.RUN_VALIDATION_ERROR: 422,
    Code.RUN_CONFLICT: 412,
}
"""Design 5; the others are 409."""


async def test_the_service_answers_every_random_command_as_the_rules_do(
    make_app: AppMaker, make_client: ClientMaker, clock: ManualClock
) -> None:
    seed = seed_from_environment()
    rng = random.Random(seed)
    doors = [make_client(make_app(clock, hot_door=hot_door)) for hot_door in (True, False)]
    driver, world = Driver(rng), World()
    missing, steps = _missing(world), 0

    while (missing or steps < STEPS_MIN) and steps < STEPS_MAX:
        steps += 1
        world.advance(driver.pause_ms(world.states, world.now))
        clock.set_ms(ms_from_instant(world.now))
        command = _sendable(driver.next_command(world.states, world.now))
        client = rng.choice(doors)

        decision = world.give(command)
        answer = await _send(client, command)

        where = f"seed {seed}, step {steps}: {command}"
        _compare(where, command, decision, answer)
        driver.answered(world.states.get(command.run_id))
        stored = await client.get(command.run_id)
        record = world.record(command.run_id)
        assert stored.json() == record.to_json() if record else stored.status_code == 404, where
        if steps % LIST_EVERY == 0:
            listed = {run["runId"]: run for run in await client.everything()}
            assert listed == {
                run_id: state.to_json()
                for run_id, state in world.states.items()
                if isinstance(state, RunRecord)
            }, where
        missing = _missing(world)

    assert not missing, f"seed {seed}: never seen in {steps} steps: {sorted(missing)}"


def _sendable(command: AnyCommand) -> AnyCommand:
    """On the wire a create is `If-None-Match: *`, which takes no version beside it."""
    return replace(command, expected_version=None) if isinstance(command, Create) else command


def _compare(where: str, command: AnyCommand, decision: Decision, answer: httpx.Response) -> None:
    refusal = decision.refusal if isinstance(decision, Write) else decision
    if isinstance(refusal, Refused):
        problem = answer.json()
        assert problem["code"] == refusal.code, where
        assert answer.status_code == STATUS.get(refusal.code, 409), where
        record = refusal.record
        assert problem.get("record") == (record.to_json() if record else None), where
        return
    if isinstance(command, Delete):
        assert answer.status_code == 204, where
        return
    created = isinstance(decision, Write) and decision.created
    assert answer.status_code == (201 if created else 200), where
    after = decision.record if isinstance(decision, Converged) else _next(decision)
    assert isinstance(after, RunRecord), where
    assert answer.json() == after.to_json(), where
    assert answer.headers["etag"] == f'"{after.version}"', where
    assert ("runlease-lease-remaining-ms" in answer.headers) == (after.lease is not None), where


def _next(decision: Decision) -> object:
    assert isinstance(decision, Write)
    return decision.next


async def _send(client: Api, command: AnyCommand) -> httpx.Response:
    expected = command.expected_version
    headers = {}
    if expected is not None:
        headers["If-Match"] = "*" if expected is Existing.ANY_VERSION else f'"{expected}"'
    path = path_of(command.run_id)
    match command:
        case Acquire():
            if command.idempotency_key is not None:
                headers["Idempotency-Key"] = f'"{command.idempotency_key}"'
            body = {"owner": command.owner, "leaseTtlMs": command.lease_ttl_ms, **_birth(command)}
            return await client.http.post(f"{path}/acquire", json=body, headers=headers)
        case Enqueue():
            body = {"runId": command.run_id, **_birth(command)}
            return await client.http.post("/v1/runs", json=body, headers=headers)
        case Create():
            headers = {"If-None-Match": "*"}
            return await client.http.put(path, json=command.record.to_json(), headers=headers)
        case CompareAndSet():
            return await client.http.put(path, json=command.record.to_json(), headers=headers)
        case Delete():
            params = {"force": "true"} if command.force else {}
            return await client.http.delete(path, params=params, headers=headers)
        case _:
            verb, given = _verb(command)
            return await client.http.post(f"{path}/{verb}", json=given, headers=headers)


def _birth(command: Acquire | Enqueue) -> dict[str, Any]:
    birth: dict[str, Any] = {"labels": dict(command.labels)} if command.labels else {}
    if command.max_attempts is not None:
        birth["maxAttempts"] = command.max_attempts
    return birth


def _verb(
    command: Renew | FenceCheckpoint | Transition | Cancel | Resume | Revoke,
) -> tuple[str, dict[str, Any] | None]:
    body: dict[str, Any] = {}
    if isinstance(command, Renew | FenceCheckpoint | Transition):
        body = {"owner": command.owner, "fencingToken": command.fencing_token}
    match command:
        case Renew():
            return "renew", body | {"leaseTtlMs": command.lease_ttl_ms}
        case FenceCheckpoint():
            whole = _checkpoint(command)
            return "fence-checkpoint", body | {"leaseTtlMs": command.lease_ttl_ms, **whole}
        case Transition():
            body["to"] = command.to.value
            if command.outcome is not None:
                body["outcome"] = {"code": command.outcome.code}
            if command.pending_approval_ids:
                body["pendingApprovalIds"] = list(command.pending_approval_ids)
            return "transition", body
        case Cancel():
            return "cancel", None if command.message is None else {"message": command.message}
        case Resume():
            named = command.pending_approval_ids
            return "resume", None if named is None else {"pendingApprovalIds": list(named)}
        case Revoke():
            return "revoke", None


def _checkpoint(command: FenceCheckpoint) -> dict[str, Any]:
    ref = command.checkpoint_ref
    saved_at = ref.saved_at.isoformat(timespec="milliseconds")
    return {
        "checkpointRef": {
            "key": ref.key,
            "snapshotVersion": ref.snapshot_version,
            "savedAt": saved_at,
        }
    }


def _missing(world: World) -> set[str]:
    return {
        f"{command.__name__} accepted" for command in APPLICABLE if not world.accepted[command]
    } | {
        f"{command.__name__} {code}"
        for command, codes in APPLICABLE.items()
        for code in codes
        if not world.refused[command, code]
    }
