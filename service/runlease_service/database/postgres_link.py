"""One connection to PostgreSQL: how it is made, and what is found out about its server.

Whom it trusts: the server's own word on whether it takes writes and whether a commit is durable.
A server in recovery, or read-only, is never used: nothing is decided from a standby, and a
connection that meets one is dropped. A COMMIT whose wait for the synchronous standby was cancelled
succeeds with a mere warning; `Link` notes warnings, so that such an answer becomes "unknown".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

import asyncpg

from runlease_service.database.base import DatabaseSetupError, DatabaseUnavailableError
from runlease_service.database.postgres_statements import Statement

SERVER_VERSION_MIN: Final = 13
LOCK_WAIT_MS: Final = 50
"""How long a statement waits for a row that another process holds, before the form that skips it
takes over. Shorter than the server's deadlock check, so that deadlocks do not come to it."""
IDLE_IN_TRANSACTION_MS: Final = 10_000
"""Behind a pooler a batch is a transaction: if its replica stops half way, the server ends it, so
that the rows are free for the others."""
CONNECT_WAIT_S: Final = 1.5
"""How long to wait for a connection: in all, also where the URL names several hosts."""
HOST_WAIT_S_MIN: Final = 0.5
PROBE_WAIT_MS: Final = 1000
"""How long readiness waits for the table while somebody alters it."""

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
_CHOICES: Final = {
    "sslmode": ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    # Nothing is decided from a standby.
    "target_session_attrs": ("any", "primary", "read-write"),
}
_FILES: Final = frozenset({"passfile", "sslcert", "sslcrl", "sslkey", "sslrootcert"})


class Unusable(Exception):  # noqa: N818 (it is never seen outside)
    """The server answers, but not as one that takes writes."""


TROUBLE: Final = (
    Unusable,
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
    asyncpg.InvalidTransactionStateError,
    asyncpg.InvalidCachedStatementError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.UndefinedTableError,
    asyncpg.UndefinedColumnError,
)
"""The connection, its server or the schema there cannot be used now."""
UNREACHABLE: Final = (*TROUBLE, asyncpg.PostgresError)
"""Why there is no connection: whatever the server says while one is made."""
CONTENTION: Final = (
    asyncpg.LockNotAvailableError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
)
"""The statement was rolled back because of somebody else: judge again."""


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What a server says of itself: why an acknowledged write could vanish there, and whether a
    commit waits for a standby."""

    risks: tuple[str, ...]
    is_replicated: bool


def check_url(url: str) -> str:
    """The URL as asyncpg takes it.

    Raises:
        DatabaseSetupError: It cannot be read, or names a parameter that is not known here.
    """
    scheme, separator, rest = url.partition("://")
    if scheme not in _SCHEMES or not separator:
        raise DatabaseSetupError("the database URL must begin with postgresql://")
    parts = urlsplit(f"postgresql://{rest}")
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in _PARAMETERS:
            raise DatabaseSetupError(
                f"the database URL has the parameter {name!r}, which is not known here; "
                "remove it or see the README for those that are"
            )
        if name in _CHOICES and value not in _CHOICES[name]:
            raise DatabaseSetupError(
                f"the database URL's {name} must be one of {', '.join(_CHOICES[name])}"
            )
        if name in _FILES and not Path(value).is_file():
            raise DatabaseSetupError(f"the database URL's {name} names no file: {value}")
    return f"postgresql://{rest}"


def hosts_of(url: str) -> list[str]:
    """One URL for each host that a URL names: every host has a wait of its own, so that one that
    hangs does not keep us from the next."""
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    if "," in hosts:
        return [parts._replace(netloc=f"{user}{at}{host}").geturl() for host in hosts.split(",")]
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    if hosts or "," not in query.get("host", ""):
        return [url]
    names = query["host"].split(",")
    ports = query.get("port", "5432").split(",")
    if len(ports) == 1:
        ports *= len(names)
    return [
        _with_query(parts, query | {"host": name, "port": port})
        for name, port in zip(names, ports, strict=False)
    ]


def _with_query(parts: SplitResult, query: dict[str, str]) -> str:
    text = urlencode(query)
    return f"postgresql://{parts.netloc}{parts.path}?{text}"


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
        another server connection, and settings are made anew in each. A pooler may also lead to
        another server meanwhile: a standby refuses to read and write, and a server that is
        read-only by its own settings stays so.

        Raises:
            Unusable: It is a standby.
        """
        if not self._pooled:
            return
        try:
            await self._connection.execute(
                "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;"
                "SELECT set_config('transaction_read_only',"
                " current_setting('default_transaction_read_only'), true);"
                f"SET LOCAL lock_timeout = '{LOCK_WAIT_MS}ms';"
                f"SET LOCAL idle_in_transaction_session_timeout = '{IDLE_IN_TRANSACTION_MS}ms'"
            )
        except asyncpg.FeatureNotSupportedError as error:
            raise Unusable("the server is a standby") from error

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

    async def confirm(self) -> None:
        """Commit something, and return when the standby has it: so it has all that came before.

        Raises:
            DatabaseUnavailableError: The wait was cancelled.
        """
        await self._connection.execute("SELECT pg_logical_emit_message(true, 'runlease', '')")
        self.check_durable()

    async def check_writable(self) -> None:
        """Return when the server takes writes into the table of runs, and roll back.

        Raises:
            Unusable: It is a standby or read-only.
        """
        await self.begin()
        if await self._connection.fetchval(
            "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on'"
        ):
            raise Unusable("the server is a standby or read-only")
        start = "" if self._pooled else "BEGIN;"
        await self._connection.execute(
            f"{start} SET LOCAL lock_timeout = '{PROBE_WAIT_MS}ms';"
            "LOCK TABLE runs IN ROW EXCLUSIVE MODE; ROLLBACK"
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
        return ServerFacts(tuple(_risks(row)), is_replicated=bool(row["names"]))


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


async def connect(
    hosts: Sequence[str],
    accept: Callable[[Link], Awaitable[None]],
    *,
    pooled: bool,
) -> tuple[Link, str]:
    """Open a connection to the first host that is accepted, and say which; `accept` raises why it
    is not.

    Raises what is in `UNREACHABLE` when there is none to be had.
    """
    wait_s = max(CONNECT_WAIT_S / len(hosts), HOST_WAIT_S_MIN)
    reasons = []
    for host in hosts:
        try:
            link = await _connect(host, pooled=pooled, wait_s=wait_s)
            try:
                await accept(link)
            except BaseException:
                link.drop()
                raise
        except UNREACHABLE as error:
            if len(hosts) == 1:
                raise
            reasons.append(f"{label_of(host)}: {words(error)}")
        else:
            return link, host
    raise Unusable("; ".join(reasons))


async def _connect(url: str, *, pooled: bool, wait_s: float) -> Link:
    settings = {} if "application_name=" in url else {"application_name": "runlease"}
    if not pooled:
        settings |= {
            "default_transaction_isolation": "read committed",
            "lock_timeout": f"{LOCK_WAIT_MS}ms",
            "jit": "off",
        }
    try:
        connection = await asyncpg.connect(
            url,
            timeout=wait_s,
            # A pooler in transaction mode does not keep a prepared statement for its maker.
            statement_cache_size=0 if pooled else 100,
            server_settings=settings,
        )
    except ValueError as error:
        hint = "; name it with sslrootcert" if "root certificate" in str(error) else ""
        raise DatabaseSetupError(f"the database URL: {words(error)}{hint}") from error
    return Link(connection, pooled=pooled)


def words(error: BaseException) -> str:
    """The error's message on one line, or its name."""
    return " ".join(str(error).split()) or type(error).__name__
