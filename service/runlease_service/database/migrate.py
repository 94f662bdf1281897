"""`runlease migrate`: bring a PostgreSQL database to the schema of this version.

Any number may run at once, also beside serving replicas: one migrates under an advisory lock that
lasts for the transaction (so that it also works behind a pooler), the others wait for it and find
nothing to do. The transaction makes it all or nothing: one that is killed half way leaves the old
schema. A schema that is current is only read.
"""

from __future__ import annotations

import asyncio
from typing import Final

from alembic.migration import MigrationContext
from sqlalchemy import Connection, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from runlease_service.database import migrations
from runlease_service.database.base import DatabaseSetupError
from runlease_service.database.postgres_link import (
    UNREACHABLE,
    Link,
    check_url,
    connect,
    hosts_of,
    label_of,
    words,
)
from runlease_service.database.schema import SCHEMA_REVISION

ADVISORY_LOCK: Final = 0x72756E6C65617365  # "runlease"


def migrate(url: str, *, pooled: bool = False) -> str:
    """Migrate the database, and say in a line what was done.

    Raises:
        DatabaseSetupError: It cannot be reached, or is newer than this version.
    """
    try:
        return asyncio.run(_migrate(check_url(url), pooled=pooled))
    except UNREACHABLE as error:
        raise DatabaseSetupError(f"{label_of(url)} cannot be used: {words(error)}") from error
    except SQLAlchemyError as error:
        reason = words(getattr(error, "orig", None) or error)
        raise DatabaseSetupError(
            f"{label_of(url)} was not migrated and is as it was: {reason}"
        ) from error


async def _migrate(url: str, *, pooled: bool) -> str:
    found: str | None = None

    async def accept(link: Link) -> None:
        nonlocal found
        await link.begin()
        await link.facts()
        found = await link.revision()
        await link.roll_back()

    link, _ = await connect(hosts_of(url), accept, pooled=pooled)
    if found != SCHEMA_REVISION:
        engine = create_async_engine(
            "postgresql+asyncpg://",
            poolclass=NullPool,
            connect_args={
                "async_creator_fn": link.lent,
                # Behind a pooler a name could meet another client's statement.
                "prepared_statement_cache_size": 0,
                "prepared_statement_name_func": str,
            },
        )
        async with engine.begin() as connection:
            await connection.execute(text("SET LOCAL lock_timeout = 0"))
            await connection.execute(
                text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK}
            )
            found = await connection.run_sync(_upgrade)
        await engine.dispose()
    else:
        await link.close()
    if found == SCHEMA_REVISION:
        return f"the schema is at {SCHEMA_REVISION} already"
    return f"the schema went from {found or 'nothing'} to {SCHEMA_REVISION}"


def _upgrade(connection: Connection) -> str | None:
    # Not by `to_regclass`: in a transaction that has waited for the lock it may still answer from
    # before the wait.
    found = MigrationContext.configure(connection).get_current_revision()
    if found == SCHEMA_REVISION:
        return found
    if found is not None and found not in migrations.revisions():
        raise DatabaseSetupError(
            f"the schema is at {found}, newer than {SCHEMA_REVISION} that this version knows; "
            "run a newer runlease"
        )
    migrations.upgrade(connection)
    return found
