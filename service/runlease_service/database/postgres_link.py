"""One connection to PostgreSQL: how it is made, and what is found out about its server.

Whom it trusts: the server's own word on whether it takes writes and whether a commit is durable.
A server in recovery, or read-only, is never used: nothing is decided from a standby, and a
connection that meets one is dropped. A COMMIT whose wait for the synchronous standby was cancelled
succeeds with a mere warning; `Link` notes warnings, so that such an answer becomes "unknown".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import asyncpg

from runlease_service.database.base import DatabaseSetupError, DatabaseUnavailableError
from runlease_service.database.postgres_statements import Statement

SERVER_VERSION_MIN: Final = 13
LOCK_WAIT_MS: Final = 50
"""How long a statement waits for a row that another process holds, before the form that skips it
takes over. Shorter than the server's deadlock check, so that deadlocks do not come to it."""
CONNECT_WAIT_S: Final = 1.5

_SCHEMES: Final = frozenset({"postgres", "postgresql", "postgresql+asyncpg"})
_PARAMETERS: Final = frozenset(
    {
        "application_name",
        "database",
        "dbname",
        "host",
        "passfile",
        "password",
        "port",
        "ssl_max_protocol_version",
        "ssl_min_protocol_version",
        "sslcert",
        "sslcrl",
        "sslkey",
        "sslmode",
        "sslpassword",
        "sslrootcert",
        "target_session_attrs",
        "user",
    }
)
"""What a URL may say. Anything else is refused by name, so that TLS is never silently off."""

TROUBLE: Final = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.ObjectNotInPrerequisiteStateError,
)
"""The connection, or its server, cannot be used now."""
CONTENTION: Final = (
    asyncpg.LockNotAvailableError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
)
"""The statement was rolled back because of somebody else: judge again."""


class Unusable(Exception):  # noqa: N818 (it is never seen outside)
    """The server answers, but not as one that takes writes."""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a server says of itself, and why an acknowledged write could vanish there."""

    risks: tuple[str, ...]


def check_url(url: str) -> str:
    """The URL as asyncpg takes it.

    Raises:
        DatabaseSetupError: It cannot be read, or names a parameter that is not known here.
    """
    scheme, separator, rest = url.partition("://")
    if scheme not in _SCHEMES or not separator:
        raise DatabaseSetupError("the database URL must begin with postgresql://")
    parts = urlsplit(f"postgresql://{rest}")
    for name, _ in parse_qsl(parts.query, keep_blank_values=True):
        if name not in _PARAMETERS:
            raise DatabaseSetupError(
                f"the database URL has the parameter {name!r}, which is not known here; "
                "remove it or see the README for those that are"
            )
    return f"postgresql://{rest}"


def label_of(url: str) -> str:
    """The URL without user and password, fit to be printed."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{unquote(parts.netloc.rpartition('@')[2])}{parts.path}"


class Link:
    """A connection in use by one lane."""

    def __init__(self, connection: asyncpg.Connection[Any], *, pooled: bool) -> None:
        self._connection = connection
        self._pooled = pooled
        self._warned = False
        connection.add_log_listener(self._note)

    def _note(self, _connection: object, message: Any) -> None:  # noqa: ANN401 (asyncpg's)
        if message.severity_en == "WARNING":
            self._warned = True

    @property
    def is_closed(self) -> bool:
        closed: bool = self._connection.is_closed()
        return closed

    async def lent(self, **_: object) -> asyncpg.Connection[Any]:
        """The connection itself, for a migration."""
        return self._connection

    def drop(self) -> None:
        """Close at once: what is under way on it has an unknown outcome."""
        self._connection.terminate()

    async def close(self) -> None:
        await self._connection.close()

    async def begin(self) -> None:
        """Behind a pooler every batch is one transaction, since the next statement may meet
        another server connection, and settings are made anew in each."""
        if self._pooled:
            await self._connection.execute(
                "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;"
                f"SET LOCAL lock_timeout = '{LOCK_WAIT_MS}ms'"
            )

    async def commit(self) -> None:
        if self._pooled:
            await self._connection.execute("COMMIT")
        self.check_durable()

    async def roll_back(self) -> None:
        if self._pooled:
            await self._connection.execute("ROLLBACK")

    async def fetch(self, statement: Statement, **values: Any) -> list[Any]:  # noqa: ANN401
        rows: list[Any] = await self._connection.fetch(statement.text, *statement.arguments(values))
        return rows

    async def read(self, statement: Statement, **values: Any) -> list[Any]:  # noqa: ANN401
        """Run one statement that only reads."""
        await self.begin()
        rows = await self.fetch(statement, **values)
        await self.roll_back()
        return rows

    async def revision(self) -> str | None:
        """The schema's revision, None when there is no schema. Takes no lock."""
        if await self._connection.fetchval("SELECT to_regclass('alembic_version')") is None:
            return None
        revision: str | None = await self._connection.fetchval(
            "SELECT version_num FROM alembic_version"
        )
        return revision

    def check_durable(self) -> None:
        """Raise when the server warned of the last commit: it may not have reached a standby."""
        if self._warned:
            self._warned = False
            raise DatabaseUnavailableError(
                "the database did not confirm that the write is safe; its outcome is unknown"
            )

    async def facts(self) -> ServerFacts:
        """Look whether the server takes writes, and how safe a commit is there.

        Raises:
            Unusable: It is a standby or read-only.
            DatabaseSetupError: It can never be used.
        """
        row = await self._connection.fetchrow(
            """SELECT pg_is_in_recovery() AS in_recovery,
                      current_setting('transaction_read_only', true) = 'on' AS read_only,
                      current_setting('server_version_num')::int / 10000 AS version,
                      current_setting('server_encoding', true) AS encoding,
                      coalesce(current_setting('fsync', true), 'on') AS fsync,
                      coalesce(current_setting('full_page_writes', true), 'on') AS full_pages,
                      coalesce(current_setting('synchronous_commit', true), 'on') AS commits,
                      coalesce(current_setting('synchronous_standby_names', true), '') AS names,
                      (SELECT count(*) FROM pg_stat_replication) AS standbys"""
        )
        assert row is not None, "a select without FROM has a row"
        if row["version"] < SERVER_VERSION_MIN:
            raise DatabaseSetupError(
                f"PostgreSQL {row['version']} is too old; {SERVER_VERSION_MIN} or newer is needed"
            )
        if row["encoding"] not in (None, "UTF8"):
            raise DatabaseSetupError(
                f"the database's encoding is {row['encoding']}; make one with ENCODING 'UTF8'"
            )
        if row["in_recovery"] or row["read_only"]:
            raise Unusable("the server is a standby or read-only")
        return ServerFacts(tuple(_risks(row)))


def _risks(row: Any) -> list[str]:  # noqa: ANN401 (asyncpg's row)
    risks = []
    if row["fsync"] == "off":
        risks.append("fsync is off: a crash of its host loses acknowledged writes")
    if row["full_pages"] == "off":
        risks.append("full_page_writes is off: a crash of its host can break pages")
    if row["commits"] == "off":
        risks.append("synchronous_commit is off: a crash loses acknowledged writes")
    elif row["commits"] == "local" and row["names"]:
        risks.append("synchronous_commit is local: a failover loses acknowledged writes")
    if row["standbys"] and not row["names"]:
        risks.append(
            "there are standbys and synchronous_standby_names is empty: "
            "a failover loses acknowledged writes"
        )
    return risks


async def connect(url: str, *, pooled: bool, command_wait_s: float) -> Link:
    """Open a connection. Raises what is in `TROUBLE` when there is none to be had."""
    settings = {} if "application_name=" in url else {"application_name": "runlease"}
    if not pooled:
        settings |= {
            "default_transaction_isolation": "read committed",
            "lock_timeout": f"{LOCK_WAIT_MS}ms",
            "jit": "off",
        }
    connection = await asyncpg.connect(
        url,
        timeout=CONNECT_WAIT_S,
        command_timeout=command_wait_s,
        # A pooler in transaction mode does not keep a prepared statement for its maker.
        statement_cache_size=0 if pooled else 100,
        server_settings=settings,
    )
    return Link(connection, pooled=pooled)
