"""Where records are kept: the seam that the executor asks, and what lies behind it."""

from __future__ import annotations

from importlib import import_module

from runlease_service.database.base import Database, DatabaseSetupError
from runlease_service.database.clock import Clock
from runlease_service.database.sqlite import SQLiteDatabase, path_of


def connect(
    url: str,
    *,
    clock: Clock | None = None,
    wait_ms_max: int,
    read_connections_max: int,
    lanes: int,
    pooled: bool,
    require_durable: bool,
) -> Database:
    """The database that a URL names, not yet open.

    Raises:
        DatabaseSetupError: No database of ours has such a URL; the message names those that have.
    """
    if url.startswith("sqlite:"):
        return SQLiteDatabase(
            path_of(url),
            clock=clock,
            wait_ms_max=wait_ms_max,
            read_connections_max=read_connections_max,
        )
    try:
        postgres = import_module("runlease_service.database.postgres")
    except ModuleNotFoundError as error:
        raise DatabaseSetupError(
            f"postgresql: needs {error.name}: pip install 'runlease[postgres]'"
        ) from error
    database: Database = postgres.PostgresDatabase(
        url,
        clock=clock,
        lanes=lanes,
        wait_ms_max=wait_ms_max,
        read_connections_max=read_connections_max,
        pooled=pooled,
        require_durable=require_durable,
    )
    return database
