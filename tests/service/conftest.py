"""What every service test may ask for."""

from __future__ import annotations

from tests.service.fixtures import (
    anyio_backend,
    client,
    clock,
    database,
    database_kind,
    live_server,
    make_app,
    make_client,
    make_server,
    new_database,
    quiet_log,
)

__all__ = [
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
