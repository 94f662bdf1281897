"""The service's fixtures, for the model of the service."""

from __future__ import annotations

from tests.service.fixtures import (
    anyio_backend,
    clock,
    database,
    database_kind,
    make_app,
    make_client,
    new_database,
    quiet_log,
)

__all__ = [
    "anyio_backend",
    "clock",
    "database",
    "database_kind",
    "make_app",
    "make_client",
    "new_database",
    "quiet_log",
]
