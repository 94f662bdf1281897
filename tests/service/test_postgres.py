"""PostgreSQL under others' hands: rows that are held, clients that hang up, isolation levels."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import Any, Final

import httpx
import pytest

from runlease_core.instant import ms_from_instant, parse_instant
from tests.postgres_server import Session, run_sql, sql
from tests.service.api import Api, record_of, refused
from tests.service.databases import OwnDatabase, postgres_server
from tests.service.in_process import is_unavailable, service_at, until
from tests.service.server import serve

ANSWERED_S_MAX: Final = 8.0
"""How long fifty commands may take on a busy machine; with leaked connections they never come."""
HOLD_S: Final = 2.0
"""How long another session holds a row."""
OTHERS_S_MAX: Final = 4.0
"""How long the rest of a batch may take beside a row that is held."""

pytestmark = pytest.mark.usefixtures("quiet_log")


@pytest.fixture(params=["postgres"], scope="session")
def database_kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
def held(database: OwnDatabase) -> Iterator[Session]:
    """Another session, in a transaction of its own."""
    with Session(database.url) as session:
        session.run("BEGIN")
        yield session


def hold(session: Session, *run_ids: str) -> None:
    names = ", ".join(f"'{run_id}'" for run_id in run_ids)
    found = session.run(f"SELECT run_id FROM runs WHERE run_id IN ({names}) FOR UPDATE")  # noqa: S608
    assert len(found) == len(run_ids)


def clock_ms(url: str) -> int:
    ((now_ms,),) = run_sql(url, "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::int8")
    assert isinstance(now_ms, int)
    return now_ms


def expires_ms(record: dict[str, Any]) -> int:
    return ms_from_instant(parse_instant(record["lease"]["expiresAt"]))


async def held_for(
    session: Session, *requests: Coroutine[Any, Any, httpx.Response]
) -> list[httpx.Response]:
    """The answers to what was asked while the session went on to hold its rows."""
    waiting = [asyncio.ensure_future(request) for request in requests]
    done, _ = await asyncio.wait(waiting, timeout=HOLD_S, return_when=asyncio.FIRST_COMPLETED)
    assert not done, "it was decided while the row was held"
    await asyncio.to_thread(session.run, "COMMIT")
    return await asyncio.gather(*waiting)


@pytest.mark.parametrize("pooled", [False, True], ids=["direct", "pooled"])
async def test_a_lease_is_counted_from_when_the_row_was_free(
    database: OwnDatabase, held: Session, *, pooled: bool
) -> None:
    async with service_at(database.url, database_pooled=pooled) as api:
        record_of(await api.acquire("renewed", ttl=60_000), 201)
        record_of(await api.enqueue("acquired"), 201)
        hold(held, "renewed", "acquired")

        answers = await held_for(
            held, api.renew("renewed", 1, ttl=1000), api.acquire("acquired", ttl=1000)
        )

        now_ms = clock_ms(database.url)
        for answer in answers:
            assert 500 < expires_ms(record_of(answer)) - now_ms <= 1000


async def test_a_lease_that_ran_out_during_the_wait_is_not_refused_to_others(
    database: OwnDatabase, held: Session
) -> None:
    async with service_at(database.url) as api:
        record_of(await api.acquire("x", "b", ttl=1000), 201)
        hold(held, "x")
        refused(await api.acquire("x", "a"), 409, "RUN_LEASE_HELD")

        # A refusal needs no lock; one that asks until it is granted is granted after the wait.
        async def granted() -> httpx.Response:
            while (answer := await api.acquire("x", "a", ttl=1000)).status_code == 409:
                pass
            return answer

        (answer,) = await held_for(held, granted())

        assert record_of(answer)["fencingToken"] == 2
        assert 500 < expires_ms(record_of(answer)) - clock_ms(database.url) <= 1000


@pytest.mark.parametrize("pooled", [False, True], ids=["direct", "pooled"])
async def test_the_rest_of_a_batch_does_not_wait_for_a_row_that_is_held(
    database: OwnDatabase, held: Session, *, pooled: bool
) -> None:
    run_ids = [f"run-{number}" for number in range(40)]
    async with service_at(database.url, database_lanes=1, database_pooled=pooled) as api:
        for run_id in run_ids:
            record_of(await api.acquire(run_id), 201)
        hold(held, "run-7")
        stuck = asyncio.create_task(api.renew("run-7", 1))

        waits: list[float] = []
        for _ in range(10):
            start = time.monotonic()
            answers = await asyncio.gather(
                *(api.renew(run_id, 1) for run_id in run_ids if run_id != "run-7"),
                *(api.enqueue(f"new-{len(waits)}-{number}") for number in range(5)),
            )
            waits.append(time.monotonic() - start)
            assert {answer.status_code for answer in answers} == {200, 201}

        assert not stuck.done()
        held.run("COMMIT")
        record_of(await stuck)
        print(f"beside a held row: {max(waits) * 1000:.0f} ms at most")
        assert max(waits) < OTHERS_S_MAX


async def test_the_rest_of_a_batch_does_not_wait_for_a_run_that_somebody_makes(
    database: OwnDatabase, held: Session
) -> None:
    async with service_at(database.url, database_lanes=1) as api:
        held.run(
            "INSERT INTO runs (run_id, version, status, attempt, fencing_token, created_at,"
            " updated_at) VALUES ('made', 1, 'queued', 1, 0, 1, 1)"
        )
        stuck = asyncio.create_task(api.enqueue("made"))
        await asyncio.sleep(0)

        start = time.monotonic()
        answers = await asyncio.gather(*(api.enqueue(f"new-{number}") for number in range(30)))
        wait_s = time.monotonic() - start

        assert {answer.status_code for answer in answers} == {201}
        assert not stuck.done()
        assert wait_s < 2 * OTHERS_S_MAX
        held.run("COMMIT")
        assert record_of(await stuck)["version"] == 1


async def test_a_row_that_stays_held_is_503_and_changes_nothing(
    database: OwnDatabase, held: Session
) -> None:
    async with service_at(database.url, request_wait_ms_max=500) as api:
        before = record_of(await api.acquire("x"), 201)
        hold(held, "x")

        is_unavailable(await api.renew("x", 1))

        assert record_of(await api.get("x")) == before
        held.run("COMMIT")
        assert record_of(await api.renew("x", 1))["version"] == 2


@pytest.mark.parametrize("isolation", ["serializable", "repeatable read"])
@pytest.mark.parametrize("pooled", [False, True], ids=["direct", "pooled"])
async def test_a_database_with_another_isolation_level_is_served_alike(
    database: OwnDatabase, isolation: str, *, pooled: bool
) -> None:
    name = database.url.rpartition("/")[2].partition("?")[0]
    run_sql(
        database.url,
        f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = '{isolation}'",
    )
    assert run_sql(database.url, "SHOW default_transaction_isolation") == [(isolation,)]
    run_ids = [f"run-{number}" for number in range(20)]
    async with (
        service_at(database.url, database_pooled=pooled) as one,
        service_at(database.url, database_pooled=pooled) as two,
    ):
        tokens = {
            run_id: record_of(await one.acquire(run_id), 201)["fencingToken"] for run_id in run_ids
        }
        leases = [{"runId": run_id, "fencingToken": tokens[run_id]} for run_id in run_ids]

        answers = await asyncio.gather(
            *(api.renew(run_ids[number % 20], 1) for number in range(100) for api in (one, two)),
            *(one.renew_all(leases) for _ in range(20)),
            *(two.renew_all(leases[::-1]) for _ in range(20)),
        )

        versions: dict[str, list[int]] = {run_id: [1] for run_id in run_ids}
        statuses: Counter[int] = Counter()
        for answer in answers:
            assert "deadlock" not in answer.text
            assert "serialize" not in answer.text
            body = answer.json()
            for result in body.get("results", [{"record": body, "problem": body}]):
                record = result.get("record", {})
                statuses[answer.status_code if "runId" in record else 503] += 1
                if "runId" in record:
                    versions[record["runId"]].append(record["version"])
                else:
                    assert result["problem"]["code"] == "UNAVAILABLE"
        print(f"{isolation}: {dict(statuses)}")
        assert statuses[200] > 900
        for run_id, told in versions.items():
            assert len(set(told)) == len(told), f"{run_id}: a version was told twice"
            stored = record_of(await one.get(run_id))
            assert stored["version"] >= max(told)
            assert stored["fencingToken"] == 1
            if not statuses[503]:
                assert sorted(told) == list(range(1, stored["version"] + 1))


async def test_clients_that_hang_up_leak_no_connection(database: OwnDatabase) -> None:
    lanes, readers, aborts = 2, 3, 400
    chance = random.Random(28)
    with serve(
        database.url,
        database_lanes=lanes,
        read_connections_max=readers,
        log_level="error",
    ) as server:
        sessions: list[tuple[int, int]] = []
        done = asyncio.Event()

        async def watch() -> None:
            with Session(database.url) as session:
                while not done.is_set():
                    ((count, idle),) = await asyncio.to_thread(
                        session.run,
                        "SELECT count(*), count(*) FILTER (WHERE state LIKE 'idle in transaction%')"
                        " FROM pg_stat_activity"
                        " WHERE datname = current_database() AND application_name = 'runlease'",
                    )
                    sessions.append((count, idle))
                    await asyncio.sleep(0.01)

        async def hang_up(number: int) -> None:
            reader, writer = await asyncio.open_connection(server.host, server.port)
            path = f"/v1/runs/run-{number % 50}"
            body = b'{"owner":"a"}'
            post = (
                f"POST {path}/acquire HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n"
            ).encode() + body
            get = f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
            page = b"GET /v1/runs?limit=50 HTTP/1.1\r\nHost: x\r\n\r\n"
            writer.write((post, post, get, page)[number % 4])
            with suppress(TimeoutError):
                await asyncio.wait_for(reader.read(1), chance.uniform(0.001, 0.02))
            writer.transport.abort()

        watching = asyncio.create_task(watch())
        for start in range(0, aborts, 40):
            await asyncio.gather(*(hang_up(number) for number in range(start, start + 40)))
        async with httpx.AsyncClient(base_url=server.url, timeout=10) as http:
            api = Api(http)
            start_s = time.monotonic()
            answers = await asyncio.gather(*(api.enqueue(f"new-{n}") for n in range(50)))
            took_s = time.monotonic() - start_s
            stored = await api.everything()
        done.set()
        await watching

        assert {answer.status_code for answer in answers} == {201}
        print(f"50 after {aborts} aborted: {took_s * 1000:.0f} ms, sessions {max(sessions)}")
        assert took_s < ANSWERED_S_MAX
        assert max(count for count, _ in sessions) <= lanes + readers
        # One that is applied is applied wholly.
        for record in stored:
            if "lease" in record:
                assert record["fencingToken"] == record["version"] >= 1

    async def nobody() -> bool:
        ((count,),) = await sql(
            postgres_server(),
            "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
            " AND application_name = 'runlease'",
        )
        return bool(count == 0)

    await until(nobody, "no session is idle in a transaction", s_max=5)
