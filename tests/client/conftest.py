"""A live service on each database, and a way to it that may be troubled."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.proxy import Proxy
from tests.service.databases import OwnDatabase
from tests.service.fixtures import anyio_backend, database, database_kind, new_database
from tests.service.server import Server, serve

__all__ = ["anyio_backend", "database", "database_kind", "new_database"]


@pytest.fixture
def server(database: OwnDatabase) -> Iterator[Server]:
    with serve(database.url, log_level="warning") as one:
        yield one


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with Proxy(server.port) as one:
        yield one


@pytest.fixture
def url(proxy: Proxy) -> str:
    """The service, through the proxy."""
    return f"http://127.0.0.1:{proxy.port}"
