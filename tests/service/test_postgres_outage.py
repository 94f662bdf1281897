"""PostgreSQL away, hung, or read-only: the service says so at once, lives, and comes back alone."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from statistics import median
from typing import Final

import httpx
import pytest

from runlease_service.database.migrate import migrate
from tests.postgres_server import PostgresServer, run_sql
from tests.proxy import Proxy
from tests.service.api import Api, record_of
from tests.service.in_process import is_ready, is_unavailable, service_at, status, until

NOTICE_S_MAX: Final = 2.0
"""How soon readiness shows that the database is away, and that it is back."""
AT_ONCE_S_MAX: Final = 0.1
"""The median answer once it is known to be away."""
WAIT_MS_MAX: Final = 1000
"""How long a statement may take in these tests."""

pytestmark = pytest.mark.usefixtures("quiet_log")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer(durable=True) as one:
        migrate(one.url())
        yield one


@pytest.fixture
def proxy(server: PostgresServer) -> Iterator[Proxy]:
    with Proxy(server.port) as one:
        yield one


def through(proxy: Proxy) -> str:
    return f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres?sslmode=disable"


async def is_away(api: Api) -> bool:
    return not await is_ready(api)


async def is_renewed(api: Api, run_id: str) -> bool:
    return (await api.renew(run_id, 1)).status_code == 200


async def measure_away(api: Api, run_id: str) -> float:
    """Everything is refused in the same way; the median time that it took, in seconds."""
    waits = []
    requests: tuple[Callable[[], Awaitable[httpx.Response]], ...] = (
        lambda: api.renew(run_id, 1),
        lambda: api.acquire("other"),
        lambda: api.get(run_id),
        api.page,
    )
    for _ in range(20):
        for request in requests:
            start = time.monotonic()
            answer = await request()
            waits.append(time.monotonic() - start)
            is_unavailable(answer)
        batch = await api.renew_all([{"runId": run_id, "fencingToken": 1}])
        assert batch.json()["results"][0]["problem"]["code"] == "UNAVAILABLE"
    assert await status(api, "/healthz") == 200
    return median(waits)


async def go_away_and_come_back(
    api: Api, run_id: str, away: Callable[[], None], back: Callable[[], None], what: str
) -> None:
    before = record_of(await api.acquire(run_id), 201)["version"]

    await asyncio.to_thread(away)
    noticed_s = await until(lambda: is_away(api), "not ready", s_max=NOTICE_S_MAX)
    first = await api.renew(run_id, 1)
    is_unavailable(first)
    refused_s = await measure_away(api, run_id)
    await asyncio.to_thread(back)
    returned = time.monotonic()
    await until(lambda: is_renewed(api, run_id), "a lease is renewed", s_max=NOTICE_S_MAX)
    resumed_s = time.monotonic() - returned
    await until(lambda: is_ready(api), "ready", s_max=NOTICE_S_MAX)

    print(
        f"{what}: noticed after {noticed_s * 1000:.0f} ms, refused in {refused_s * 1000:.1f} ms,"
        f" back after {resumed_s * 1000:.0f} ms"
    )
    assert refused_s < AT_ONCE_S_MAX
    record = record_of(await api.get(run_id))
    assert record["version"] > before
    assert record["fencingToken"] == 1


async def test_a_refused_connection_is_noticed_and_forgotten(proxy: Proxy) -> None:
    async with service_at(through(proxy)) as api:
        await go_away_and_come_back(api, "refused", proxy.refuse, proxy.forward, "refused")


async def test_a_stopped_server_is_noticed_and_forgotten(server: PostgresServer) -> None:
    def stop() -> None:
        server.stop(signal.SIGQUIT)

    def start() -> None:
        server.start()

    async with service_at(server.url()) as api:
        await go_away_and_come_back(api, "stopped", stop, start, "stopped")


async def test_a_server_that_hangs_is_away_within_the_wait(proxy: Proxy) -> None:
    async with service_at(through(proxy), database_wait_ms_max=WAIT_MS_MAX) as api:
        record_of(await api.acquire("hung"), 201)
        proxy.hang()
        start = time.monotonic()

        is_unavailable(await api.renew("hung", 1))

        took_s = time.monotonic() - start
        assert took_s < WAIT_MS_MAX / 1000 + 0.2
        # The next one tries to connect anew, and then it is known.
        is_unavailable(await api.renew("hung", 1))
        assert await measure_away(api, "hung") < AT_ONCE_S_MAX
        proxy.forward()
        back_s = await until(lambda: is_renewed(api, "hung"), "renewed", s_max=NOTICE_S_MAX)
        print(f"hung: answered after {took_s * 1000:.0f} ms, back after {back_s * 1000:.0f} ms")


async def test_readiness_of_a_server_that_hangs(proxy: Proxy) -> None:
    async with service_at(through(proxy)) as api:
        assert await is_ready(api)
        proxy.hang()
        start = time.monotonic()

        assert not await is_ready(api)

        assert time.monotonic() - start < NOTICE_S_MAX
        assert await status(api, "/healthz") == 200
        proxy.forward()
        await until(lambda: is_ready(api), "ready", s_max=NOTICE_S_MAX)


async def test_cut_connections_are_replaced_and_nobody_is_told(proxy: Proxy) -> None:
    async with service_at(through(proxy)) as api:
        record_of(await api.acquire("cut"), 201)
        for version in range(2, 12):
            proxy.cut()

            assert record_of(await api.renew("cut", 1))["version"] == version
            assert record_of(await api.get("cut"))["version"] == version
            assert await is_ready(api)


async def test_a_lease_is_renewed_once_though_its_answer_was_cut(proxy: Proxy) -> None:
    """What may be repeated is repeated, and what names a version is told that it is unknown."""
    async with service_at(through(proxy)) as api:
        record_of(await api.acquire("repeated"), 201)
        proxy.delay_s = 0.03
        for _ in range(3):
            renewal = asyncio.create_task(api.renew("repeated", 1))
            versioned = asyncio.create_task(api.renew("repeated", 1, if_match='"1000"'))
            await asyncio.sleep(0.07)
            proxy.cut()

            assert (await renewal).status_code == 200
            assert (await versioned).status_code in (412, 503)
        proxy.delay_s = 0.0
        assert 4 <= record_of(await api.get("repeated"))["version"] <= 7


async def test_a_server_turned_read_only_is_left_alone_until_it_writes_again(
    server: PostgresServer,
) -> None:
    def set_read_only(how: str) -> None:
        run_sql(
            server.url(),
            "SET default_transaction_read_only = off",
            f"ALTER SYSTEM SET default_transaction_read_only = {how}",
            "SELECT pg_reload_conf()",
        )

    for pooled in (False, True):
        async with service_at(server.url(), database_pooled=pooled) as api:
            await go_away_and_come_back(
                api,
                f"read-only-{pooled}",
                lambda: set_read_only("on"),
                lambda: set_read_only("off"),
                f"read-only, pooled {pooled}",
            )


@pytest.mark.parametrize("pooled", [False, True], ids=["direct", "pooled"])
async def test_nothing_is_decided_from_a_standby(server: PostgresServer, *, pooled: bool) -> None:
    with (
        PostgresServer(primary=server) as standby,
        Proxy(server.port) as proxy,
    ):

        def demote() -> None:
            proxy.forward(standby.port)
            proxy.cut()

        def promote() -> None:
            proxy.forward(server.port)
            proxy.cut()

        async with service_at(through(proxy), database_pooled=pooled) as api:
            await go_away_and_come_back(
                api, f"demoted-{pooled}", demote, promote, f"standby, pooled {pooled}"
            )


async def test_a_service_that_starts_before_its_database_waits_for_it(
    proxy: Proxy,
) -> None:
    proxy.refuse()
    async with service_at(through(proxy)) as api:
        assert await status(api, "/healthz") == 200
        assert await is_away(api)
        is_unavailable(await api.acquire("early"))

        proxy.forward()

        await until(lambda: is_ready(api), "ready", s_max=NOTICE_S_MAX)
        record_of(await api.acquire("early"), 201)


async def test_a_full_server_takes_no_connection_from_those_who_have_one(
    server: PostgresServer,
) -> None:
    run_sql(
        server.url(),
        "CREATE ROLE few LOGIN CONNECTION LIMIT 1",
        "GRANT ALL ON ALL TABLES IN SCHEMA public TO few",
    )
    run_ids = [f"few-{number}" for number in range(20)]
    async with service_at(server.url().replace("postgres@", "few@")) as api:

        async def acquire() -> Counter[int]:
            answers = await asyncio.gather(*(api.acquire(run_id) for run_id in run_ids))
            return Counter(answer.status_code for answer in answers)

        assert set(await acquire()) == {201, 503}
        assert set(await acquire()) == {200, 503}
        assert await is_away(api)

        run_sql(server.url(), "ALTER ROLE few CONNECTION LIMIT -1")

        assert set(await acquire()) == {200, 201}
        assert await is_ready(api)
