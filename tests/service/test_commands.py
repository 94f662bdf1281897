"""Each endpoint: what it answers when it does what was asked, and how it says no."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import httpx
import pytest

from runlease_core.lifecycle import EDGES, TERMINAL
from tests.clock import ManualClock
from tests.service.api import Api, path_of, record_of, refused
from tests.service.fixtures import AppMaker, ClientMaker

T0: Final = "2026-09-01T00:00:00.000Z"
REMAINING: Final = "runlease-lease-remaining-ms"
ENDS: Final = ("completed", "failed", "cancelled")
Call = Callable[[Api, str], Awaitable[httpx.Response]]


async def held(client: Api, run_id: str = "x", owner: str = "a") -> dict[str, Any]:
    """A run under a live lease, token 1 when it is new."""
    answer = await client.acquire(run_id, owner)
    return record_of(answer, answer.status_code)


async def suspended(client: Api, *approvals: str) -> dict[str, Any]:
    record = await held(client)
    token = record["fencingToken"]
    return record_of(
        await client.transition("x", token, "suspended", pendingApprovalIds=list(approvals))
    )


# enqueue


async def test_enqueue_makes_a_queued_run_once(client: Api, clock: ManualClock) -> None:
    made = await client.enqueue("x", labels={"team": "a"}, maxAttempts=3)
    clock.advance(ms=5)
    again = await client.enqueue("x", labels={"team": "b"}, maxAttempts=9)

    assert record_of(made, 201) == {
        "schema": 1,
        "runId": "x",
        "version": 1,
        "status": "queued",
        "attempt": 1,
        "fencingToken": 0,
        "labels": {"team": "a"},
        "maxAttempts": 3,
        "createdAt": T0,
        "updatedAt": T0,
    }
    assert record_of(again, 200) == made.json()
    assert REMAINING not in made.headers


async def test_enqueue_converges_on_a_running_run_and_is_refused_by_a_finished_one(
    client: Api,
) -> None:
    running = await held(client)
    converged = await client.enqueue("x")
    assert record_of(converged, 200) == running
    assert converged.headers[REMAINING] == "60000"

    await client.transition("x", 1, "completed")
    problem = refused(await client.enqueue("x"), 409, "RUN_ALREADY_TERMINAL")
    assert problem["record"]["status"] == "completed"


# acquire


async def test_acquire_makes_a_run_and_takes_an_existing_one(
    client: Api, clock: ManualClock
) -> None:
    made = await client.acquire("x", "a", 30_000, labels={"k": "v"})
    assert record_of(made, 201)["lease"] == {
        "owner": "a",
        "acquiredAt": T0,
        "expiresAt": "2026-09-01T00:00:30.000Z",
    }
    assert made.headers[REMAINING] == "30000"

    await client.enqueue("y")
    clock.advance(ms=700)
    taken = record_of(await client.acquire("y"), 200)
    assert (taken["version"], taken["attempt"], taken["fencingToken"]) == (2, 1, 1)
    assert taken["updatedAt"] == "2026-09-01T00:00:00.700Z"


@pytest.mark.parametrize(
    ("left_ms", "retry_after"),
    [(60_000, "60"), (59_999, "60"), (1_001, "2"), (1_000, "1"), (1, "1")],
)
async def test_a_held_run_says_when_to_try_again(
    client: Api, clock: ManualClock, left_ms: int, retry_after: str
) -> None:
    record = await held(client)
    clock.advance(ms=60_000 - left_ms)

    answer = await client.acquire("x", "b")

    problem = refused(answer, 409, "RUN_LEASE_HELD")
    assert problem["record"] == record
    assert answer.headers["retry-after"] == retry_after
    assert answer.headers[REMAINING] == str(left_ms)
    assert answer.headers["etag"] == '"1"'
    assert record_of(await client.get("x")) == record


async def test_a_lease_that_ends_now_has_ended(client: Api, clock: ManualClock) -> None:
    await held(client)
    clock.advance(ms=59_999)
    refused(await client.acquire("x", "b"), 409, "RUN_LEASE_HELD")
    clock.advance(ms=1)

    taken = record_of(await client.acquire("x", "b"))

    assert (taken["attempt"], taken["fencingToken"], taken["version"]) == (2, 2, 2)


async def test_a_suspended_run_is_resumed_first(client: Api) -> None:
    record = await suspended(client, "apr_1")

    problem = refused(await client.acquire("x", "b"), 409, "RUN_SUSPENDED")

    assert problem["record"] == record


@pytest.mark.parametrize("key", ['"k-1"', "k-1"])
async def test_a_retried_acquire_finds_its_own_grant(
    client: Api, clock: ManualClock, key: str
) -> None:
    first = record_of(await client.acquire("x", "a", key='"k-1"'), 201)
    clock.advance(ms=10)

    again = await client.acquire("x", "a", key=key)

    assert record_of(again, 200) == first
    assert again.headers[REMAINING] == "59990"


async def test_a_retried_acquire_finds_its_grant_although_the_version_it_expected_has_moved(
    client: Api,
) -> None:
    await client.enqueue("x")
    first = record_of(await client.acquire("x", "a", key="k", if_match='"1"'))

    assert record_of(await client.acquire("x", "a", key="k", if_match='"1"')) == first
    refused(await client.acquire("x", "a", key="other", if_match='"1"'), 412, "RUN_CONFLICT")


async def test_a_key_is_one_owners_one_grants_and_ends_with_the_lease(
    client: Api, clock: ManualClock
) -> None:
    await client.acquire("x", "a", key="k")
    refused(await client.acquire("x", "b", key="k"), 409, "RUN_LEASE_HELD")
    assert record_of(await client.acquire("x", "a", key="k2"))["fencingToken"] == 2
    assert record_of(await client.acquire("x", "a", key="k"))["fencingToken"] == 3

    assert record_of(await client.renew("x", 3))["version"] == 4
    assert record_of(await client.acquire("x", "a", key="k"))["fencingToken"] == 3

    clock.advance(ms=60_000)
    late = record_of(await client.acquire("x", "a", key="k"))
    assert (late["fencingToken"], late["attempt"]) == (4, 2)
    await client.transition("x", 4, "queued")
    assert record_of(await client.acquire("x", "a", key="k"))["fencingToken"] == 5


@pytest.mark.parametrize("key", ['""', "", '"a', 'a"b" c"', '"' + "k" * 256 + '"', "k" * 256])
async def test_a_key_that_is_none_is_refused_never_ignored(client: Api, key: str) -> None:
    answer = await client.acquire("x", key=key)

    if key == 'a"b" c"':  # a bare key may hold quotes
        assert answer.status_code == 201
    else:
        refused(answer, 422, "RUN_VALIDATION_ERROR")
        assert await client.everything() == []


async def test_a_run_whose_workers_die_on_every_attempt_ends_as_failed(
    client: Api, clock: ManualClock
) -> None:
    await client.enqueue("x", maxAttempts=3)
    for attempt in (1, 2, 3):
        record = record_of(await client.acquire("x", f"worker-{attempt}", 1_000))
        assert (record["attempt"], record["fencingToken"]) == (attempt, attempt)
        clock.advance(ms=1_000)

    problem = refused(await client.acquire("x", "worker-4"), 409, "RUN_ALREADY_TERMINAL")

    ended = record_of(await client.get("x"))
    assert problem["record"] == ended
    assert (ended["status"], ended["outcome"]["code"]) == ("failed", "attempts_exhausted")
    assert (ended["attempt"], ended["fencingToken"], ended["version"]) == (3, 4, 5)
    assert "lease" not in ended
    refused(await client.renew("x", 3, "worker-3"), 409, "RUN_LEASE_LOST")


async def test_a_graceful_release_uses_no_attempt(client: Api) -> None:
    await client.enqueue("x", maxAttempts=1)
    for token in (1, 2, 3):
        record = record_of(await client.acquire("x", f"worker-{token}"))
        assert (record["attempt"], record["fencingToken"]) == (1, token)
        await client.transition("x", token, "queued", f"worker-{token}")


# the holder's commands


async def test_b01_whoever_was_taken_over_writes_nothing_more(
    client: Api, clock: ManualClock
) -> None:
    await client.acquire("x", "a", 300)
    clock.advance(ms=400)
    fresh = record_of(await client.acquire("x", "b"))

    for owner in ("a", "b"):
        answers = [
            await client.renew("x", 1, owner),
            await client.fence("x", 1, owner),
            *[await client.transition("x", 1, to, owner) for to in (*ENDS, "queued", "suspended")],
        ]
        for answer in answers:
            problem = refused(answer, 409, "RUN_LEASE_LOST")
            assert problem["record"] == fresh
            assert "retry-after" not in answer.headers
        (result,) = (await client.renew_all([{"runId": "x", "fencingToken": 1}], owner)).json()[
            "results"
        ]
        assert result["problem"]["code"] == "RUN_LEASE_LOST"
        assert result["problem"]["record"] == fresh

    assert record_of(await client.get("x")) == fresh


async def test_b04_a_lease_that_ran_out_and_that_nobody_took_is_renewed(
    client: Api, clock: ManualClock
) -> None:
    await client.acquire("x", "a", 200)
    clock.advance(ms=1_000)

    renewed = record_of(await client.renew("x", 1, ttl=200))
    clock.advance(ms=1_000)
    fenced = record_of(await client.fence("x", 1))

    assert (renewed["fencingToken"], renewed["attempt"]) == (1, 1)
    assert renewed["lease"]["expiresAt"] == "2026-09-01T00:00:01.200Z"
    assert fenced["checkpointRef"]["key"] == "snapshots/1"

    clock.advance(ms=60_000)
    record_of(await client.resume("x"))
    refused(await client.renew("x", 1), 409, "RUN_LEASE_LOST")
    refused(await client.fence("x", 1), 409, "RUN_LEASE_LOST")


async def test_b18_a_token_read_from_a_record_gives_no_lease(
    client: Api, clock: ManualClock
) -> None:
    await client.acquire("x", "a", 300)
    clock.advance(ms=300)
    await client.acquire("x", "b")
    seen = record_of(await client.get("x"))["fencingToken"]
    told = refused(await client.renew("x", 1, "a"), 409, "RUN_LEASE_LOST")["record"]["fencingToken"]
    before = await client.everything()

    for token in (seen, told):
        refused(await client.renew("x", token, "a"), 409, "RUN_LEASE_LOST")
        refused(await client.fence("x", token, "a"), 409, "RUN_LEASE_LOST")

    assert await client.everything() == before


async def test_a_fenced_command_on_no_run_is_a_lost_lease(client: Api) -> None:
    for answer in (
        await client.renew("none", 1),
        await client.fence("none", 1),
        await client.transition("none", 1, "completed"),
    ):
        assert "record" not in refused(answer, 409, "RUN_LEASE_LOST")
        assert "etag" not in answer.headers


async def test_fence_checkpoint_moves_the_reference_and_the_lease_in_one_write(
    client: Api, clock: ManualClock
) -> None:
    await client.acquire("x", ttl=1_000)
    clock.advance(ms=500)

    answer = await client.fence("x", 1, key="snapshots/ü/2")

    record = record_of(answer)
    assert record["checkpointRef"] == {
        "key": "snapshots/ü/2",
        "snapshotVersion": 1,
        "savedAt": T0,
    }
    assert (record["version"], answer.headers[REMAINING]) == (2, "60000")


@pytest.mark.parametrize("to", ENDS)
async def test_an_end_drops_the_lease_keeps_the_outcome_and_converges(
    client: Api, clock: ManualClock, to: str
) -> None:
    await held(client)
    outcome = {"code": "done", "message": "all\tof it"}

    ended = await client.transition("x", 1, to, outcome=outcome)
    clock.advance(ms=1)
    again = await client.transition("x", 1, to, outcome={"code": "other"})

    record = record_of(ended)
    assert (record["status"], record["outcome"], record["version"]) == (to, outcome, 2)
    assert "lease" not in record
    assert REMAINING not in ended.headers
    assert record_of(again) == record
    for other in ENDS:
        if other != to:
            refused(await client.transition("x", 1, other), 409, "RUN_LEASE_LOST")
    refused(await client.acquire("x"), 409, "RUN_ALREADY_TERMINAL")
    assert record_of(await client.get("x")) == record


async def test_suspended_keeps_since_when_and_for_what(client: Api) -> None:
    record = await suspended(client, "apr_1", "apr_2")

    assert record["suspension"] == {
        "suspendedAt": T0,
        "pendingApprovalIds": ["apr_1", "apr_2"],
    }
    assert (record["fencingToken"], "lease" in record) == (1, False)


# operators


async def test_b11_a_cancelled_run_stays_cancelled(client: Api) -> None:
    await held(client)

    record = record_of(await client.cancel("x", "superseded"))

    assert (record["status"], record["fencingToken"]) == ("cancelled", 2)
    assert record["outcome"] == {"code": "cancelled", "message": "superseded"}
    for answer in (
        await client.fence("x", 1),
        await client.transition("x", 1, "completed"),
        await client.transition("x", 1, "failed"),
        await client.transition("x", 1, "queued"),
        await client.transition("x", 1, "cancelled"),
    ):
        assert refused(answer, 409, "RUN_LEASE_LOST")["record"] == record
    assert record_of(await client.get("x")) == record


async def test_b13_a_run_whose_worker_died_is_cancelled_at_once(client: Api) -> None:
    await held(client)
    record = record_of(await client.cancel("x"))

    assert "lease" not in record
    for lease in ("live", "expired"):
        assert (await client.page(lease=lease)).json()["runs"] == []
    refused(await client.acquire("x", "b"), 409, "RUN_ALREADY_TERMINAL")
    assert record_of(await client.cancel("x", "again")) == record
    assert (await client.delete("x")).status_code == 204


async def test_b15_a_cancel_before_the_run_is_known(client: Api) -> None:
    refused(await client.cancel("x"), 404, "RUN_NOT_FOUND")
    assert await client.everything() == []

    await client.enqueue("x")
    record_of(await client.cancel("x"))
    refused(await client.acquire("x"), 409, "RUN_ALREADY_TERMINAL")


@pytest.mark.parametrize("verb", ["cancel", "resume", "revoke"])
@pytest.mark.parametrize(
    ("headers", "content"),
    [
        ({}, b""),
        ({"Content-Type": "application/json"}, b""),
        ({"Content-Type": "application/json"}, b"{}"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, b""),
    ],
)
async def test_an_operator_needs_no_body(
    client: Api, clock: ManualClock, verb: str, headers: dict[str, str], content: bytes
) -> None:
    await client.acquire("x", ttl=100)
    clock.advance(ms=100)

    answer = await client.http.post(path_of("x", verb), headers=headers, content=content)

    assert record_of(answer)["status"] == ("cancelled" if verb == "cancel" else "queued")


@pytest.mark.parametrize("to", ["completed", "failed"])
async def test_operators_are_told_that_a_run_is_finished(client: Api, to: str) -> None:
    await held(client)
    record = record_of(await client.transition("x", 1, to))

    for answer in (await client.cancel("x"), await client.resume("x"), await client.revoke("x")):
        assert refused(answer, 409, "RUN_ALREADY_TERMINAL")["record"] == record


async def test_operators_are_told_that_there_is_no_run(client: Api) -> None:
    for answer in (await client.cancel("x"), await client.resume("x"), await client.revoke("x")):
        refused(answer, 404, "RUN_NOT_FOUND")
    refused(await client.get("x"), 404, "RUN_NOT_FOUND")
    assert await client.everything() == []


async def test_resume_ends_a_suspension_or_an_abandoned_lease_and_no_live_one(
    client: Api, clock: ManualClock
) -> None:
    await suspended(client, "apr_1")
    resumed = record_of(await client.resume("x", ["apr_1"]))
    assert (resumed["status"], "suspension" in resumed) == ("queued", False)
    assert record_of(await client.resume("x", ["apr_1"])) == resumed

    taken = await client.acquire("x", "b", 1_500)
    answer = await client.resume("x")
    refused(answer, 409, "RUN_LEASE_HELD")
    assert answer.headers["retry-after"] == "2"
    assert record_of(await client.get("x")) == taken.json()

    clock.advance(ms=1_500)
    assert record_of(await client.resume("x"))["status"] == "queued"


async def test_resume_answers_the_approvals_that_it_names_in_any_order(client: Api) -> None:
    record = await suspended(client, "apr_1", "apr_2")
    for others in ([], ["apr_1"], ["apr_1", "apr_2", "apr_3"], ["apr_3"]):
        problem = refused(await client.resume("x", others), 409, "RUN_INVALID_TRANSITION")
        assert problem["record"] == record

    assert record_of(await client.resume("x", ["apr_2", "apr_1"]))["status"] == "queued"


async def test_revoke_takes_a_live_lease(client: Api) -> None:
    await held(client)

    record = record_of(await client.revoke("x"))

    assert (record["status"], record["fencingToken"], record["attempt"]) == ("queued", 2, 1)
    assert record_of(await client.revoke("x")) == record
    refused(await client.renew("x", 1), 409, "RUN_LEASE_LOST")
    assert record_of(await client.acquire("x", "b"))["fencingToken"] == 3


async def test_a_suspended_run_has_no_lease_to_revoke(client: Api) -> None:
    record = await suspended(client)

    problem = refused(await client.revoke("x"), 409, "RUN_INVALID_TRANSITION")

    assert problem["record"] == record


# If-Match


COMMANDS: dict[str, Call] = {
    "acquire": lambda client, tag: client.acquire("x", if_match=tag),
    "renew": lambda client, tag: client.renew("x", 1, if_match=tag),
    "fence-checkpoint": lambda client, tag: client.fence("x", 1, if_match=tag),
    "transition": lambda client, tag: client.transition("x", 1, "completed", if_match=tag),
    "cancel": lambda client, tag: client.cancel("x", if_match=tag),
    "resume": lambda client, tag: client.resume("x", if_match=tag),
    "revoke": lambda client, tag: client.revoke("x", if_match=tag),
    "enqueue": lambda client, tag: client.enqueue("x", if_match=tag),
    "delete": lambda client, tag: client.delete("x", force=True, if_match=tag),
    "get": lambda client, tag: client.get("x", If_Match=tag),
}
NO_VERSIONS: Final = ("", '"', '"1', '1"', 'W/"1"', '"x"', "x", "-1", "1.0", '"1", "2"', '""')


@pytest.mark.parametrize("name", COMMANDS)
async def test_another_version_is_412_with_the_record_and_changes_nothing(
    client: Api, name: str
) -> None:
    record = await held(client)
    before = await client.everything()

    for tag in ('"2"', "2", '"0"', '"9007199254740991"'):
        answer = await COMMANDS[name](client, tag)

        assert refused(answer, 412, "RUN_CONFLICT")["record"] == record
        assert answer.headers["etag"] == '"1"'
    assert await client.everything() == before


@pytest.mark.parametrize("name", COMMANDS)
async def test_an_if_match_that_names_no_version_is_refused(client: Api, name: str) -> None:
    await held(client)
    before = await client.everything()

    for tag in NO_VERSIONS:
        problem = refused(await COMMANDS[name](client, tag), 422, "RUN_VALIDATION_ERROR")
        assert problem["field"] == "If-Match"
    assert await client.everything() == before


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("tag", ['"1"', "1", "*"])
async def test_the_version_that_is_expected_lets_the_command_through(
    client: Api, clock: ManualClock, name: str, tag: str
) -> None:
    await client.acquire("x", ttl=100)
    clock.advance(ms=100)

    answer = await COMMANDS[name](client, tag)

    assert answer.status_code in (200, 204)
    if answer.status_code == 200:
        record_of(answer)


@pytest.mark.parametrize("name", COMMANDS)
async def test_no_run_has_no_version(client: Api, name: str) -> None:
    for tag in ('"1"', "*"):
        answer = await COMMANDS[name](client, tag)
        assert answer.status_code in (404, 409, 412)
    assert await client.everything() == []


async def test_an_if_match_is_refused_where_no_single_run_is_named(client: Api) -> None:
    headers = {"If-Match": '"1"'}

    listed = await client.http.get("/v1/runs", headers=headers)
    batch = {"owner": "a", "leases": [{"runId": "x", "fencingToken": 1}]}
    renewed = await client.http.post("/v1/leases/renew", json=batch, headers=headers)

    for answer in (listed, renewed):
        assert refused(answer, 422, "RUN_VALIDATION_ERROR")["field"] == "If-Match"


async def test_a_late_duplicate_of_an_operators_command_hits_nobody(
    client: Api, clock: ManualClock
) -> None:
    """The operator saw version 1; each command is sent again when another worker is at work."""
    await held(client)
    seen = '"1"'
    record_of(await client.revoke("x", if_match=seen))
    fresh = record_of(await client.acquire("x", "b"))

    for answer in (
        await client.revoke("x", if_match=seen),
        await client.cancel("x", if_match=seen),
        await client.resume("x", if_match=seen),
    ):
        assert refused(answer, 412, "RUN_CONFLICT")["record"] == fresh
    assert record_of(await client.get("x")) == fresh


async def test_a_late_duplicate_of_a_resume_does_not_end_the_next_suspension(client: Api) -> None:
    seen = f'"{(await suspended(client, "apr_1"))["version"]}"'
    record_of(await client.resume("x", ["apr_1"], if_match=seen))
    token = record_of(await client.acquire("x", "b"))["fencingToken"]
    answer = await client.transition("x", token, "suspended", "b", pendingApprovalIds=["apr_2"])
    second = record_of(answer)

    refused(await client.resume("x", if_match=seen), 412, "RUN_CONFLICT")
    refused(await client.resume("x", ["apr_1"]), 409, "RUN_INVALID_TRANSITION")

    assert record_of(await client.get("x")) == second


# the batch


async def test_a_batch_of_500_is_answered_in_order_and_one_bad_item_costs_no_other(
    client: Api, clock: ManualClock
) -> None:
    runs = [f"r{number}" for number in range(500)]
    for run_id in runs:
        await client.acquire(run_id)
    bad: dict[int, tuple[Any, str]] = {
        3: ({"runId": "r3", "fencingToken": 2}, "RUN_LEASE_LOST"),
        50: ({"runId": "none", "fencingToken": 1}, "RUN_LEASE_LOST"),
        100: ({"runId": "", "fencingToken": 1}, "RUN_VALIDATION_ERROR"),
        101: ({"runId": "..", "fencingToken": 1}, "RUN_VALIDATION_ERROR"),
        102: ({"runId": "a\u0000", "fencingToken": 1}, "RUN_VALIDATION_ERROR"),
        103: ({"runId": "r103", "fencingToken": True}, "RUN_VALIDATION_ERROR"),
        104: ({"runId": "r104", "fencingToken": "1"}, "RUN_VALIDATION_ERROR"),
        105: ({"runId": "r105", "fencingToken": 2**53}, "RUN_VALIDATION_ERROR"),
        106: ({"runId": "r106", "fencingToken": 1, "x": 1}, "RUN_VALIDATION_ERROR"),
        107: ({"runId": "r107"}, "RUN_VALIDATION_ERROR"),
        108: ({}, "RUN_VALIDATION_ERROR"),
        109: ([], "RUN_VALIDATION_ERROR"),
        110: (None, "RUN_VALIDATION_ERROR"),
        111: ("r111", "RUN_VALIDATION_ERROR"),
        112: ({"runId": "x" * 513, "fencingToken": 1}, "RUN_VALIDATION_ERROR"),
        499: ({"runId": "r499", "fencingToken": -1}, "RUN_VALIDATION_ERROR"),
    }
    clock.advance(ms=1_000)

    answer = await client.renew_all(
        [
            bad[number][0] if number in bad else {"runId": run_id, "fencingToken": 1}
            for number, run_id in enumerate(runs)
        ]
    )

    results = answer.json()["results"]
    assert answer.status_code == 200
    for number, result in enumerate(results):
        if number in bad:
            problem = result["problem"]
            assert problem["code"] == bad[number][1], number
            assert problem["detail"].strip(": ") == problem["detail"] != ""
        else:
            assert result["record"]["runId"] == f"r{number}"
            assert result["record"]["version"] == 2
            assert result["leaseRemainingMs"] == 60_000
    assert len(results) == 500
    versions = {run["runId"]: run["version"] for run in await client.everything()}
    unchanged = [number for number in range(500) if versions[f"r{number}"] == 1]
    assert unchanged == sorted(bad)


async def test_the_same_lease_twice_in_one_batch_is_renewed_twice(client: Api) -> None:
    await held(client)

    answer = await client.renew_all([{"runId": "x", "fencingToken": 1}] * 2)

    assert [result["record"]["version"] for result in answer.json()["results"]] == [2, 3]


async def test_a_batch_has_a_bound(make_app: AppMaker, make_client: ClientMaker) -> None:
    client = make_client(make_app(batch_leases_max=2))
    lease = {"runId": "x", "fencingToken": 1}

    assert (await client.renew_all([lease] * 2)).status_code == 200
    assert (
        refused(await client.renew_all([lease] * 3), 422, "RUN_VALIDATION_ERROR")["field"]
        == "leases"
    )
    assert refused(await client.renew_all([]), 422, "RUN_VALIDATION_ERROR")["field"] == "leases"


# get, head


async def test_a_get_is_answered_304_to_who_has_the_version(
    client: Api, clock: ManualClock
) -> None:
    record = await held(client)
    clock.advance(ms=61_000)

    fresh = await client.get("x")
    assert record_of(fresh) == record
    assert fresh.headers[REMAINING] == "0"
    for tag in ('"1"', 'W/"1"', '"0", "1"', "*"):
        answer = await client.get("x", If_None_Match=tag)
        assert (answer.status_code, answer.content) == (304, b"")
        assert answer.headers["etag"] == '"1"'
    for tag in ('"2"', '"11"', "x"):
        assert record_of(await client.get("x", If_None_Match=tag)) == record


async def test_head_answers_as_get_without_a_body(client: Api) -> None:
    await held(client)
    for path in (path_of("x"), path_of("none"), "/v1/runs", "/healthz", "/readyz", "/v1/lifecycle"):
        got = await client.http.get(path)
        head = await client.http.head(path)
        assert (head.status_code, head.content) == (got.status_code, b"")
        unlike = {"x-request-id"}
        assert {k: v for k, v in head.headers.items() if k not in unlike} == {
            k: v for k, v in got.headers.items() if k not in unlike
        }


# put


def made_record(run_id: str = "x", **fields: object) -> dict[str, Any]:
    return {
        "schema": 1,
        "runId": run_id,
        "version": 1,
        "status": "queued",
        "attempt": 1,
        "fencingToken": 0,
        "createdAt": T0,
        "updatedAt": T0,
    } | fields


async def test_put_creates_a_run_that_is_not_there(client: Api) -> None:
    record = made_record(
        version=7,
        status="running",
        fencingToken=3,
        lease={"owner": "a", "acquiredAt": T0, "expiresAt": "2026-09-01T00:01:00.000Z"},
        labels={"k": "v"},
        maxAttempts=2,
    )

    created = await client.put(record, If_None_Match="*")

    assert record_of(created, 201) == record
    assert created.headers[REMAINING] == "60000"
    problem = refused(await client.put(record, If_None_Match="*"), 412, "RUN_CONFLICT")
    assert problem["record"] == record
    assert record_of(await client.renew("x", 3))["version"] == 8


async def test_put_swaps_one_version_for_the_next(client: Api) -> None:
    record = made_record()
    await client.put(record, If_None_Match="*")
    next_record = record | {"version": 2, "status": "cancelled", "outcome": {"code": "c"}}

    assert record_of(await client.put(next_record, If_Match='"1"'), 200) == next_record
    assert refused(await client.put(next_record, If_Match='"1"'), 412, "RUN_CONFLICT")[
        "record"
    ] == (next_record)
    problem = refused(
        await client.put(next_record | {"version": 3}, If_Match='"2"'), 409, "RUN_ALREADY_TERMINAL"
    )
    assert problem["record"] == next_record


async def test_put_without_a_condition_is_428_and_with_two_or_a_wrong_one_422(client: Api) -> None:
    record = made_record()

    refused(await client.put(record), 428, "PRECONDITION_REQUIRED")
    refused(await client.put(record, If_Match='"0"'), 404, "RUN_NOT_FOUND")
    for headers in (
        {"If_Match": '"1"', "If_None_Match": "*"},
        {"If_Match": "*"},
        {"If_None_Match": '"1"'},
        {"If_Match": "x"},
        {"If_Match": '"7"'},
    ):
        refused(await client.put(record, **headers), 422, "RUN_VALIDATION_ERROR")
    assert await client.everything() == []


async def test_put_breaks_no_promise(client: Api) -> None:
    lease = {"owner": "a", "acquiredAt": T0, "expiresAt": "2026-09-01T00:01:00.000Z"}
    record = made_record(status="running", attempt=2, fencingToken=5, lease=lease)
    await client.put(record, If_None_Match="*")
    breaking: list[dict[str, Any]] = [
        {"fencingToken": 4},
        {"attempt": 1},
        {"createdAt": "2026-09-01T00:00:00.001Z"},
        {"lease": lease | {"owner": "b"}},
    ]
    for change in breaking:
        answer = await client.put(record | {"version": 2} | change, If_Match='"1"')
        assert refused(answer, 409, "RUN_INVALID_TRANSITION")["record"] == record
    malformed: list[dict[str, Any]] = [
        {"version": 1},
        {"version": 3},
        {"schema": 2},
        {"status": "queued"},
        {"status": "done"},
        {"outcome": {"code": "c"}},
        {"suspension": {"suspendedAt": T0, "pendingApprovalIds": []}},
        {"lease": lease | {"expiresAt": "2026-08-31T00:00:00.000Z"}},
        {"lease": None},
        {"typo": 1},
        {"updatedAt": "now"},
    ]
    for change in malformed:
        answer = await client.put(record | {"version": 2} | change, If_Match='"1"')
        refused(answer, 422, "RUN_VALIDATION_ERROR")
    other = await client.http.put(path_of("y"), json=record, headers={"If-None-Match": "*"})
    assert refused(other, 422, "RUN_VALIDATION_ERROR")["field"] == "runId"
    assert await client.everything() == [record]


async def test_b38_instants_have_three_digits_also_when_they_are_zero(
    client: Api, clock: ManualClock
) -> None:
    for ms, text in ((0, T0), (700, "2026-09-01T00:00:00.700Z"), (999, "2026-09-01T00:00:00.999Z")):
        clock.set_ms(1_788_220_800_000 + ms)
        assert record_of(await client.enqueue(f"r{ms}"), 201)["createdAt"] == text
    listed = (await client.page()).json()["runs"]
    assert [run["runId"] for run in listed] == ["r999", "r700", "r0"]

    for given, written in (
        ("2026-09-01T02:00:00+02:00", T0),
        ("2026-09-01T00:00:00.1Z", "2026-09-01T00:00:00.100Z"),
        ("2026-09-01t00:00:00.123456789z", "2026-09-01T00:00:00.123Z"),
    ):
        record = made_record(f"p{given}", updatedAt=given)
        answer = await client.put(record, If_None_Match="*")
        assert record_of(answer, 201)["updatedAt"] == written


# delete


async def test_delete_leaves_the_token_behind(client: Api) -> None:
    await held(client)
    refused(await client.delete("x"), 409, "RUN_LEASE_HELD")
    assert (await client.delete("x", force=True)).status_code == 204
    refused(await client.get("x"), 404, "RUN_NOT_FOUND")
    assert (await client.delete("x")).status_code == 204

    refused(await client.renew("x", 1), 409, "RUN_LEASE_LOST")
    refused(
        await client.put(made_record(fencingToken=1), If_None_Match="*"),
        422,
        "RUN_VALIDATION_ERROR",
    )
    again = record_of(await client.acquire("x"), 201)
    assert (again["version"], again["attempt"], again["fencingToken"]) == (1, 1, 2)
    refused(await client.renew("x", 1), 409, "RUN_LEASE_LOST")

    await client.delete("x", force=True)
    assert record_of(await client.enqueue("x"), 201)["fencingToken"] == 3
    await client.delete("x")
    record = made_record(fencingToken=4)
    assert record_of(await client.put(record, If_None_Match="*"), 201) == record


async def test_delete_takes_a_released_suspended_or_finished_run(client: Api) -> None:
    for to in ("queued", "suspended", *ENDS):
        await client.acquire(to)
        await client.transition(to, 1, to)
        assert (await client.delete(to)).status_code == 204
    assert await client.everything() == []


@pytest.mark.parametrize("query", ["force=yes", "force=1", "force=", "forced=true", "force=TRUE"])
async def test_a_force_that_is_none_is_refused(client: Api, query: str) -> None:
    await client.enqueue("x")

    refused(await client.http.delete(f"{path_of('x')}?{query}"), 422, "RUN_VALIDATION_ERROR")

    assert len(await client.everything()) == 1


# the rest


async def test_the_lifecycle_is_what_the_rules_are_read_from(client: Api) -> None:
    lifecycle = (await client.http.get("/v1/lifecycle")).raise_for_status().json()

    assert lifecycle["statuses"] == [status.value for status in EDGES]
    assert set(lifecycle["terminal"]) == {status.value for status in TERMINAL}
    assert {name: set(to) for name, to in lifecycle["edges"].items()} == {
        status.value: {to.value for to in edges} for status, edges in EDGES.items()
    }


async def test_a_batch_of_commands_on_one_run_see_each_other(client: Api) -> None:
    await client.enqueue("x")

    answers = [await client.acquire("x", owner) for owner in ("a", "b", "a")]

    assert [answer.status_code for answer in answers] == [200, 409, 200]
    assert answers[2].json()["fencingToken"] == 2
    assert answers[2].json()["attempt"] == 1
