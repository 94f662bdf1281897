"""The fixtures of everything that talks to the service. A test gets its application from
`make_app` (or `client`), so that it runs on every kind of database."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any, Protocol

import httpx
import pytest
import structlog
from fastapi import FastAPI

from runlease_service.app import create_app
from runlease_service.settings import Settings
from tests.clock import ManualClock
from tests.service import contract
from tests.service.api import Api
from tests.service.databases import KINDS, OwnDatabase
from tests.service.server import Server, serve

__all__ = [
    "AppMaker",
    "ClientMaker",
    "DatabaseMaker",
    "anyio_backend",
    "client",
    "clock",
    "database",
    "database_kind",
    "live_server",
    "make_app",
    "make_client",
    "make_server",
    "new_database",
    "quiet_log",
]

DatabaseMaker = Callable[[], OwnDatabase]


class AppMaker(Protocol):
    def __call__(
        self,
        clock: ManualClock | None = None,
        *,
        hot_door: bool = True,
        database: OwnDatabase | None = None,
        **settings: Any,  # noqa: ANN401 (any setting)
    ) -> FastAPI: ...


class ClientMaker(Protocol):
    def __call__(self, app: FastAPI, *, checked: bool = True) -> Api: ...


class ServerMaker(Protocol):
    def __call__(self, **settings: object) -> Server: ...


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=sorted(KINDS), scope="session")
def database_kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
def new_database(database_kind: str, tmp_path: Path) -> DatabaseMaker:
    made: list[OwnDatabase] = []

    def new() -> OwnDatabase:
        made.append(KINDS[database_kind](tmp_path / f"runs-{len(made)}.db"))
        return made[-1]

    return new


@pytest.fixture
def database(new_database: DatabaseMaker) -> OwnDatabase:
    return new_database()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def quiet_log() -> Iterator[None]:
    """Thousands of requests would write a line each; what is logged is tested elsewhere."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


@pytest.fixture
async def make_app(quiet_log: None, database: OwnDatabase) -> AsyncIterator[AppMaker]:
    """Applications on the test's database, unless another is named; stopped after the test."""
    apps: list[FastAPI] = []
    default = database

    def make(
        clock: ManualClock | None = None,
        *,
        hot_door: bool = True,
        database: OwnDatabase | None = None,
        **settings: Any,  # noqa: ANN401 (any setting)
    ) -> FastAPI:
        chosen = Settings(database_url=(database or default).url, **settings)
        apps.append(create_app(chosen, clock=clock, hot_door=hot_door))
        return apps[-1]

    yield make
    for app in apps:
        await app.state.service.stop()


@pytest.fixture
async def make_client() -> AsyncIterator[ClientMaker]:
    """Clients that hold every answer against the OpenAPI document."""
    async with AsyncExitStack() as stack:

        def make(app: FastAPI, *, checked: bool = True) -> Api:
            http = httpx.AsyncClient(
                # What the application raises fails the test: nothing may leave it.
                transport=httpx.ASGITransport(app=app),
                base_url="http://test",
                event_hooks={"response": [_check]} if checked else {},
                timeout=60,
            )
            stack.push_async_callback(http.aclose)
            return Api(http)

        yield make


async def _check(response: httpx.Response) -> None:
    body = await response.aread()
    request = response.request
    contract.check(request.method, request.url.path, response.status_code, response.headers, body)


@pytest.fixture
def client(make_app: AppMaker, make_client: ClientMaker, clock: ManualClock) -> Api:
    return make_client(make_app(clock))


@pytest.fixture
def make_server(database: OwnDatabase) -> Iterator[ServerMaker]:
    with ExitStack() as stack:

        def make(**settings: object) -> Server:
            return stack.enter_context(serve(database.url, **settings))

        yield make


@pytest.fixture(scope="module")
def live_server(database_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One process for a module, with the default settings."""
    path = tmp_path_factory.mktemp("live") / "runs.db"
    with serve(KINDS[database_kind](path).url) as server:
        yield server
