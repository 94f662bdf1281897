"""Where records are kept: the seam that the executor asks, and what lies behind it."""

from __future__ import annotations

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from runlease_service.database.base import Database, DatabaseSetupError
from runlease_service.database.clock import Clock
from runlease_service.database.sqlite import SQLiteDatabase, path_of


def connect(
    url: str, *, clock: Clock | None = None, wait_ms_max: int, read_connections_max: int
) -> Database:
    """The database that a URL names, not yet open.

    Raises:
        DatabaseSetupError: No database of ours has such a URL; the message names those that have.
    """
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise DatabaseSetupError("the database URL cannot be read") from None
    if parsed.get_backend_name() != "sqlite":
        raise DatabaseSetupError("the database URL must begin with sqlite:///")
    return SQLiteDatabase(
        path_of(parsed),
        clock=clock,
        wait_ms_max=wait_ms_max,
        read_connections_max=read_connections_max,
    )
