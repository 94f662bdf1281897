"""The connections to PostgreSQL: one a lane, a few for reads, and what happens when they are lost.

A connection in trouble is dropped, and one attempt is made to replace it. When that fails the
database counts as away: everything is refused at once, while a task tries to connect again, and
once it has, everybody begins with fresh connections. A server that only ran out of connections is
not away.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import asyncpg
import structlog

from runlease_service.database.base import DatabaseSetupError, DatabaseUnavailableError
from runlease_service.database.postgres_link import (
    CONNECT_WAIT_S,
    CONTENTION,
    TROUBLE,
    UNREACHABLE,
    Link,
    ServerFacts,
    Unusable,
    check_url,
    connect,
    hosts_of,
    label_of,
    words,
)
from runlease_service.database.schema import SCHEMA_REVISION

log = structlog.get_logger()

T = TypeVar("T")

RESTORE_S: Final = 0.25
"""How often a database that is away is tried, in seconds."""
CONFIRM_WAIT_S: Final = 30.0
"""How long one attempt waits for the standby to confirm. A server whose standby is away keeps each
attempt's session until that is back, so they must be few."""


class Links:
    """The connections of one service.

    Args:
        url: As `PostgresDatabase` takes it.
        lanes: How many connections write.
        wait_s_max: How long a read may take, in seconds.
        readers_max: How many connections read at most.
        pooled: The URL leads to a pooler in transaction mode.
        require_durable: Refuse a server where an acknowledged write could vanish.
    """

    def __init__(
        self,
        url: str,
        *,
        lanes: int,
        wait_s_max: float,
        readers_max: int,
        pooled: bool,
        require_durable: bool,
    ) -> None:
        self._url = check_url(url)
        self._hosts = hosts_of(self._url)
        self._wait_s_max = wait_s_max
        self._pooled = pooled
        self._require_durable = require_durable
        self._links: list[Link | None] = [None] * lanes
        self._readers = asyncio.Semaphore(readers_max)
        self._idle_readers: list[Link] = []
        self._restoring: asyncio.Task[None] | None = None
        self._closed = False
        self._risks: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self._links)

    async def open(self) -> None:
        """Make the first connection, or begin to try."""
        try:
            self._links[0] = await self._connect()
        except UNREACHABLE as error:
            self.lose(error)

    async def close(self) -> None:
        self._closed = True
        if self._restoring is not None:
            self._restoring.cancel()
            await asyncio.gather(self._restoring, return_exceptions=True)
        self._drop_all()

    async def of_lane(self, lane: int) -> Link:
        """The lane's own connection.

        Raises:
            DatabaseUnavailableError: There is none to be had.
        """
        self._check_here()
        link = self._links[lane]
        if link is None or link.is_closed:
            self._links[lane] = link = await self._connect_or_lose()
        return link

    async def replace(self, lane: int, error: BaseException) -> None:
        """Drop a connection in trouble and try once to get another."""
        link, self._links[lane] = self._links[lane], None
        if link is not None:
            link.drop()
        log.warning("database_connection_lost", error=words(error))
        await self.of_lane(lane)

    def lose(self, error: BaseException) -> None:
        """Answer everything at once until the database is back."""
        if self._restoring is None and not self._closed:
            log.error("database_away", database=label_of(self._url), error=words(error))
            self._restoring = asyncio.create_task(self._restore(words(error)))

    async def with_reader(self, read: Callable[[Link], Awaitable[T]]) -> T:
        """Read on a connection beside the lanes'; tried again where the first had been cut.

        Raises:
            DatabaseUnavailableError: The database cannot answer now.
        """
        try:
            async with self._reader() as link:
                return await read(link)
        except DatabaseUnavailableError as error:
            # A connection that was cut while it was idle says nothing of the server.
            if not isinstance(error.__cause__, TROUBLE) or self._restoring is not None:
                raise
        # Those that were idle beside it have most likely met the same.
        while self._idle_readers:
            self._idle_readers.pop().drop()
        async with self._reader() as link:
            return await read(link)

    async def _connect(self, confirm_wait_s: float = CONNECT_WAIT_S) -> Link:
        """A connection to a server that takes writes, on the schema that this version knows."""

        async def accept(link: Link) -> None:
            async with asyncio.timeout(CONNECT_WAIT_S):
                await link.begin()
                facts = await link.facts()
                self._judge_server(facts)
                self._judge_schema(await link.revision())
                await link.roll_back()
            if facts.is_replicated:
                await self._confirm(link, confirm_wait_s)

        link, host = await connect(self._hosts, accept, pooled=self._pooled)
        # It is the first to be asked the next time.
        self._hosts.sort(key=lambda one: one != host)
        return link

    async def _confirm(self, link: Link, wait_s: float) -> None:
        timer = asyncio.get_running_loop().call_later(wait_s, link.drop)
        try:
            await link.confirm()
        except DatabaseUnavailableError as error:
            raise Unusable(str(error)) from error
        except TROUBLE as error:
            raise Unusable("no standby confirms a write") from error
        finally:
            timer.cancel()

    def _judge_server(self, facts: ServerFacts) -> None:
        if facts.risks and self._require_durable:
            raise DatabaseSetupError(f"--require-durable: {'; '.join(facts.risks)}")
        if facts.risks != self._risks:
            self._risks = facts.risks
            for risk in facts.risks:
                log.warning("database_not_durable", database=label_of(self._url), risk=risk)

    @staticmethod
    def _judge_schema(found: str | None) -> None:
        if found == SCHEMA_REVISION:
            return
        if found is None:
            raise Unusable("there is no schema yet; run: runlease migrate")
        if found < SCHEMA_REVISION:
            raise Unusable(
                f"the schema is at {found} and this version needs {SCHEMA_REVISION}; "
                "run: runlease migrate"
            )
        raise Unusable(
            f"the schema is at {found}, newer than {SCHEMA_REVISION} that this version knows; "
            "run a newer runlease"
        )

    async def _connect_or_lose(self) -> Link:
        try:
            return await self._connect()
        except asyncpg.InsufficientResourcesError as error:
            # The server is full, which is no reason to let go of the connections that we have.
            if not any(link is not None and not link.is_closed for link in self._links):
                self.lose(error)
            raise DatabaseUnavailableError("the database has no connection to spare") from error
        except (*UNREACHABLE, DatabaseSetupError) as error:
            self.lose(error)
            raise DatabaseUnavailableError("the database is away") from error

    def _check_here(self) -> None:
        if self._restoring is not None or self._closed:
            raise DatabaseUnavailableError("the database is away")

    async def _restore(self, reason: str) -> None:
        while True:
            await asyncio.sleep(RESTORE_S)
            try:
                link = await self._connect(CONFIRM_WAIT_S)
            except (*UNREACHABLE, DatabaseSetupError) as error:
                known, reason = reason, words(error)
                if reason != known:
                    log.warning("database_still_away", error=reason)
                continue
            self._drop_all()
            self._links[0] = link
            self._restoring = None
            log.info("database_back", database=label_of(self._url))
            return

    def _drop_all(self) -> None:
        for lane, link in enumerate(self._links):
            if link is not None:
                link.drop()
            self._links[lane] = None
        while self._idle_readers:
            self._idle_readers.pop().drop()

    @asynccontextmanager
    async def _reader(self) -> AsyncIterator[Link]:
        """A connection for reads; one that met trouble, or was left half way, is not kept."""
        try:
            async with asyncio.timeout(self._wait_s_max), self._readers:
                self._check_here()
                idle = self._idle_readers
                link = idle.pop() if idle else await self._connect_or_lose()
                try:
                    yield link
                except BaseException:
                    link.drop()
                    raise
                if self._closed:
                    link.drop()
                else:
                    idle.append(link)
        except CONTENTION as error:
            raise DatabaseUnavailableError("somebody holds the table of runs") from error
        except TROUBLE as error:
            raise DatabaseUnavailableError("the database cannot answer now") from error
