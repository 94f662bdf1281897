"""Races: one outcome, and every loser is told which. Two applications share the database, so
that the commands meet where they are judged and not in one process's queue."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable
from typing import Final

import httpx
import pytest

from tests.service.api import Api, record_of, refused
from tests.service.fixtures import AppMaker, ClientMaker

RACES: Final = 2_000
AT_ONCE: Final = 100
WAIT_S: Final = 60


@pytest.fixture
def pair(make_app: AppMaker, make_client: ClientMaker) -> tuple[Api, Api]:
    first, second = (make_client(make_app(), checked=False) for _ in range(2))
    return first, second


async def together(*requests: Awaitable[httpx.Response]) -> list[httpx.Response]:
    answers = await asyncio.wait_for(asyncio.gather(*requests), WAIT_S)
    assert not [answer for answer in answers if answer.status_code >= 500]
    return list(answers)


async def test_a_cancel_and_a_completion_have_one_outcome(pair: tuple[Api, Api]) -> None:
    operator, worker = pair
    rng = random.Random(2_000)
    outcomes: Counter[str] = Counter()
    for start in range(0, RACES, AT_ONCE):
        runs = [f"r{number}" for number in range(start, start + AT_ONCE)]
        await together(*(worker.acquire(run_id) for run_id in runs))
        requests = [(run_id, "cancel") for run_id in runs] + [(run_id, "end") for run_id in runs]
        rng.shuffle(requests)

        answers = await together(
            *(
                operator.cancel(run_id)
                if what == "cancel"
                else worker.transition(run_id, 1, "completed")
                for run_id, what in requests
            )
        )

        told = dict(zip(requests, answers, strict=True))
        for run_id in runs:
            outcomes[_outcome(told[run_id, "cancel"], told[run_id, "end"])] += 1
        listed = {run["runId"]: run for run in await operator.everything()}
        for run_id in runs:
            won = told[run_id, "cancel"], told[run_id, "end"]
            winner = next(answer for answer in won if answer.status_code == 200)
            assert listed[run_id] == winner.json()

    assert sum(outcomes.values()) == RACES
    assert set(outcomes) == {"cancelled", "completed"}, outcomes


def _outcome(cancel: httpx.Response, end: httpx.Response) -> str:
    """Who won; the loser's answer carries the winner's record."""
    if cancel.status_code == 200:
        record = record_of(cancel)
        assert refused(end, 409, "RUN_LEASE_LOST")["record"] == record
    else:
        record = record_of(end)
        assert refused(cancel, 409, "RUN_ALREADY_TERMINAL")["record"] == record
    assert record["version"] == 2
    status: str = record["status"]
    return status


async def test_b15_a_cancel_that_was_answered_never_leaves_the_run_running(
    pair: tuple[Api, Api],
) -> None:
    operator, worker = pair
    unknown = [f"u{number}" for number in range(100)]
    known = [f"k{number}" for number in range(100)]
    await together(*(worker.enqueue(run_id) for run_id in known))
    told: Counter[tuple[int, int]] = Counter()
    for number, run_id in enumerate([*unknown, *known]):
        requests = [worker.acquire(run_id), operator.cancel(run_id)]
        if number % 2:
            cancel, acquired = await together(*reversed(requests))
        else:
            acquired, cancel = await together(*requests)
        told[acquired.status_code, cancel.status_code] += 1

        record = record_of(await worker.get(run_id))
        if cancel.status_code == 200:
            assert record["status"] == "cancelled"
        else:
            refused(cancel, 404, "RUN_NOT_FOUND")
            assert record_of(acquired, 201) == record
        if acquired.status_code == 409:
            assert refused(acquired, 409, "RUN_ALREADY_TERMINAL")["record"] == record
            assert run_id in known

    assert sum(told.values()) == 200
    assert set(told) <= {(201, 200), (201, 404), (200, 200), (409, 200)}


async def test_b16_one_suspension_is_resumed_once_and_taken_by_one(pair: tuple[Api, Api]) -> None:
    first, second = pair
    record_of(await first.acquire("x"), 201)
    suspended = record_of(await first.transition("x", 1, "suspended", pendingApprovalIds=["apr_1"]))

    resumed = await together(*(pair[n % 2].resume("x", ["apr_1"]) for n in range(20)))
    assert {answer.status_code for answer in resumed} == {200}
    assert {record_of(answer)["version"] for answer in resumed} == {suspended["version"] + 1}

    acquired = await together(*(pair[n % 2].acquire("x", f"w{n}") for n in range(20)))
    (winner,) = [answer for answer in acquired if answer.status_code == 200]
    record = record_of(winner)
    for answer in acquired:
        if answer is not winner:
            assert refused(answer, 409, "RUN_LEASE_HELD")["record"] == record
    assert (record["attempt"], record["fencingToken"]) == (1, 2)

    for late in await together(first.resume("x", ["apr_1"]), second.resume("x")):
        refused(late, 409, "RUN_LEASE_HELD")
    assert record_of(await second.get("x")) == record


async def test_b16_resumes_and_acquires_all_at_once(pair: tuple[Api, Api]) -> None:
    for round_number in range(10):
        run_id = f"x{round_number}"
        record_of(await pair[0].acquire(run_id), 201)
        await pair[0].transition(run_id, 1, "suspended")

        answers = await together(
            *(pair[n % 2].resume(run_id) for n in range(20)),
            *(pair[n % 2].acquire(run_id, f"w{n}") for n in range(20)),
        )

        codes = Counter(answer.json().get("code", "granted") for answer in answers[20:])
        assert codes["granted"] <= 1
        assert set(codes) <= {"granted", "RUN_SUSPENDED", "RUN_LEASE_HELD"}
        record = record_of(await pair[1].get(run_id))
        assert record["version"] == 3 + codes["granted"]
        assert record["fencingToken"] == 1 + codes["granted"]


async def test_b25_one_of_many_first_comers_makes_the_run(pair: tuple[Api, Api]) -> None:
    for round_number in range(10):
        run_id = f"x{round_number}"
        acquires = [pair[n % 2].acquire(run_id, f"w{n}", labels={"by": f"w{n}"}) for n in range(50)]
        enqueues = [pair[n % 2].enqueue(run_id, labels={"by": f"e{n}"}) for n in range(50)]
        requests = [*acquires, *enqueues] if round_number % 2 else [*enqueues, *acquires]

        answers = await together(*requests)

        (made,) = [answer for answer in answers if answer.status_code == 201]
        record = record_of(await pair[0].get(run_id))
        assert record["labels"] == made.json()["labels"]
        assert (record["fencingToken"], record["attempt"]) == (1, 1)
        codes = Counter(answer.json().get("code", "ok") for answer in answers)
        assert codes == {"ok": 51, "RUN_LEASE_HELD": 49}


async def test_b25_a_submission_sent_again_is_no_conflict(pair: tuple[Api, Api]) -> None:
    record = record_of(await pair[0].enqueue("x", labels={"k": "1"}), 201)

    assert record_of(await pair[1].enqueue("x", labels={"k": "1"}), 200) == record
    assert record_of(await pair[1].enqueue("x", labels={"k": "2"}), 200) == record
    problem = refused(await pair[1].put(record, If_None_Match="*"), 412, "RUN_CONFLICT")
    assert problem["record"] == record


async def test_fifty_creates_of_one_run_store_one(pair: tuple[Api, Api]) -> None:
    template = record_of(await pair[0].enqueue("other"), 201) | {"runId": "x"}

    answers = await together(
        *(
            pair[n % 2].put(template | {"labels": {"by": str(n)}}, If_None_Match="*")
            for n in range(50)
        )
    )

    (made,) = [answer for answer in answers if answer.status_code == 201]
    for answer in answers:
        if answer is not made:
            assert refused(answer, 412, "RUN_CONFLICT")["record"] == made.json()
    swaps = await together(
        *(
            pair[n % 2].put(made.json() | {"version": 2, "attempt": n + 1}, If_Match='"1"')
            for n in range(50)
        )
    )
    assert Counter(answer.status_code for answer in swaps) == {200: 1, 412: 49}
