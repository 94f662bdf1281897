"""What the service asks of a database.

The executor hands over the runs of a batch and a judge; the database opens one transaction, reads
those runs, takes its clock, lets the judge decide, writes what changed, commits, and only then
returns. So the order that keeps leases safe (lock, read, clock, decide, write, commit, answer) is
in one place per database, and the rules in none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple, Protocol

from runlease_core.decide import State
from runlease_core.lifecycle import RunStatus
from runlease_core.record import RunRecord, Tombstone

LeaseState = Literal["live", "expired", "none"]


class DatabaseUnavailableError(Exception):
    """The database is away, locked by others or full. The outcome of what was asked is unknown
    and every command is safe to send again. The message is for callers: no SQL, no path.

    `recovered` says that a connection was lost and that a new one is there.
    """

    def __init__(self, detail: str, *, recovered: bool = False) -> None:
        super().__init__(detail)
        self.recovered = recovered


class DatabaseSetupError(Exception):
    """The database cannot be used at all; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Corrupt:
    """A stored row that is no well-formed record. It is never taken for an absent one."""

    detail: str


class Change(NamedTuple):
    """One run's state before and after a batch."""

    before: State
    after: RunRecord | Tombstone


Judge = Callable[[Mapping[str, State | Corrupt], datetime], Mapping[str, Change]]
"""Given the states of the runs and the instant, what to write. It may be called again."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the list: newest first, ties by run id, downwards."""

    created_at_ms: int
    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQuery:
    """Which runs to list. Filters are joined by "and"; `after` is exclusive; `within` are the
    prefixes that the caller may see, None for all."""

    limit: int
    after: Position | None = None
    status: RunStatus | None = None
    owner: str | None = None
    lease: LeaseState | None = None
    prefix: str | None = None
    labels: tuple[str, ...] = ()
    within: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Some runs, newest first, and where the next page starts when there is one."""

    runs: tuple[RunRecord, ...]
    next: Position | None


class Database(Protocol):
    """One database. All methods raise DatabaseUnavailableError when it cannot answer."""

    @property
    def lanes(self) -> int:
        """How many batches it takes at a time."""

    async def open(self) -> None:
        """Connect and check the schema. Raises DatabaseSetupError when it cannot be used."""

    async def apply(self, run_ids: Sequence[str], judge: Judge, lane: int) -> Collection[str]:
        """Judge these runs and write what changed; returns after the commit.

        Returns the runs that could not be written because another process was at them: nothing
        of theirs is changed, and their commands are to be judged again.

        Raises:
            DatabaseUnavailableError: The outcome is unknown. With `recovered` the database is back
                already, so what is safe to repeat may be judged again at once.
        """

    async def get(self, run_id: str) -> tuple[RunRecord | None, datetime]:
        """One run as last committed, and the instant of the reading.

        Raises RunIntegrityError when the stored row is malformed."""

    async def page(self, query: RunQuery) -> Page:
        """One page of runs. Raises RunIntegrityError when a stored row is malformed."""

    async def ping(self) -> None:
        """Return when the database can serve a write."""

    async def close(self) -> None:
        """Finish what runs and let go of every connection."""
