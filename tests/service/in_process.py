"""The application in the test's own process, on a database that the test names by its URL."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx
from fastapi import FastAPI

from runlease_service.app import create_app
from runlease_service.settings import Settings
from tests.service.api import Api, refused
from tests.service.asgi import lifespan

POLL_S: Final = 0.01


@asynccontextmanager
async def service_at(url: str, **settings: Any) -> AsyncIterator[Api]:  # noqa: ANN401 (any setting)
    """A started application, and a client of it."""
    async with started(create_app(Settings(database_url=url, **settings))) as api:
        yield api


@asynccontextmanager
async def started(app: FastAPI) -> AsyncIterator[Api]:
    transport = httpx.ASGITransport(app=app)
    async with (
        lifespan(app),
        httpx.AsyncClient(transport=transport, base_url="http://test", timeout=60) as http,
    ):
        try:
            yield Api(http)
        finally:
            await app.state.service.stop()


async def status(api: Api, path: str) -> int:
    return (await api.http.get(path)).status_code


async def is_ready(api: Api) -> bool:
    return await status(api, "/readyz") == 200


async def until(holds: Callable[[], Awaitable[bool]], what: str, *, s_max: float) -> float:
    """How long it took until it held, in seconds; fails when it does not in time."""
    start = time.monotonic()
    while not await holds():
        assert time.monotonic() - start < s_max, f"{what}: not within {s_max:g} s"
        await asyncio.sleep(POLL_S)
    return time.monotonic() - start


def is_unavailable(answer: httpx.Response) -> None:
    """503 that says when to come back."""
    refused(answer, 503, "UNAVAILABLE")
    assert answer.headers["retry-after"] == "1"
