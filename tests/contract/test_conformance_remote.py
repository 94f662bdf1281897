"""The store over HTTP keeps the conformance suite, on both databases."""

from __future__ import annotations

import pytest

from runlease import AsyncRemoteRunStore, Connection, RemoteRunStore
from runlease_core import Capabilities, run_conformance, run_conformance_async
from tests.client.live import serving
from tests.service.databases import OwnDatabase
from tests.service.fixtures import anyio_backend, database, database_kind, new_database

__all__ = ["anyio_backend", "database", "database_kind", "new_database"]

# A tombstone cannot be asked for over HTTP, so the seam offers no delete; the service guards.
DECLARED = Capabilities(delete=False, guarded=True)


def test_the_remote_store_conforms(database: OwnDatabase) -> None:
    with serving(database.url) as url:
        store = RemoteRunStore(Connection(url=url))
        report = run_conformance(lambda: store, capabilities=DECLARED)
        store.close()

    assert report.failed == []
    assert len(report.passed) > 20
    print(f"{len(report.passed)} passed, {len(report.skipped)} skipped by declaration")


async def test_the_asynchronous_remote_store_conforms(database: OwnDatabase) -> None:
    with serving(database.url) as url:
        store = AsyncRemoteRunStore(Connection(url=url))
        report = await run_conformance_async(lambda: store, capabilities=DECLARED)
        await store.close()

    assert report.failed == []
    assert len(report.passed) > 20


def test_it_claims_what_the_service_gives() -> None:
    store = RemoteRunStore(Connection(url="http://127.0.0.1:9"))

    assert store.atomicity == "cross-process"
    with pytest.raises(TypeError):
        store.get()  # type: ignore[call-arg]
