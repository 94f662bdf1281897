"""The list's query, the same for every database.

Pages are keyset pages: each starts after the last row of the one before, so that a page costs the
same at any depth and a run made meanwhile neither repeats nor hides another.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, bindparam, or_, select, true

from runlease_core.instant import ms_from_instant
from runlease_service.database.base import Page, Position, RunQuery
from runlease_service.database.schema import record_from_row, run_labels, runs

_SURROGATES = range(0xD800, 0xE000)


def select_page(query: RunQuery, now_ms: int) -> Select[Any]:
    """The runs that the query names, one more than its limit, newest first."""
    statement = (
        select(runs)
        .where(runs.c.deleted_at.is_(None))
        .order_by(runs.c.created_at.desc(), runs.c.run_id.desc())
    )
    if query.after is not None:
        at, run_id = query.after.created_at_ms, query.after.run_id
        # The first comparison alone lets the index seek; the second cuts ties exactly.
        statement = statement.where(
            runs.c.created_at <= at, or_(runs.c.created_at < at, runs.c.run_id < run_id)
        )
    if query.status is not None:
        statement = statement.where(runs.c.status == query.status.value)
    if query.owner is not None:
        statement = statement.where(runs.c.lease_owner == query.owner)
    if query.lease == "none":
        statement = statement.where(runs.c.lease_owner.is_(None))
    elif query.lease == "live":
        statement = statement.where(runs.c.status == "running", runs.c.lease_expires_at > now_ms)
    elif query.lease == "expired":
        statement = statement.where(runs.c.status == "running", runs.c.lease_expires_at <= now_ms)
    if query.prefix:
        statement = statement.where(_has_prefix(query.prefix))
    if query.within is not None and "" not in query.within:
        statement = statement.where(or_(*(_has_prefix(prefix) for prefix in query.within)))
    for label in query.labels:
        of_label = run_labels.alias()
        statement = statement.join(
            of_label, and_(of_label.c.run_id == runs.c.run_id, of_label.c.label == label)
        )
    return statement.limit(query.limit + 1)


def _has_prefix(prefix: str) -> ColumnElement[bool]:
    end = end_of_prefix(prefix)
    return and_(runs.c.run_id >= prefix, true() if end is None else runs.c.run_id < end)


def select_run() -> Select[Any]:
    """The run whose id is the parameter `run_id`, unless it is deleted."""
    return select(runs).where(runs.c.run_id == bindparam("run_id"), runs.c.deleted_at.is_(None))


def page_of(rows: Sequence[Sequence[Any]], limit: int) -> Page:
    """The page that `select_page` selected: the row past the limit only says that there are more.

    Raises:
        RunIntegrityError: RUN_INTEGRITY_ERROR, a row is no well-formed record.
    """
    records = [record_from_row(row) for row in rows[:limit]]
    following = None
    if len(rows) > limit:
        last = records[-1]
        following = Position(ms_from_instant(last.created_at), last.run_id)
    return Page(tuple(records), following)


def end_of_prefix(prefix: str) -> str | None:
    """The least text above every text with this prefix, by code points; None when there is none.

    A range in place of LIKE: no wildcards, no collation, and the primary key serves it.
    """
    for length in range(len(prefix), 0, -1):
        following = ord(prefix[length - 1]) + 1
        if following in _SURROGATES:
            following = _SURROGATES.stop
        if following <= sys.maxunicode:
            return prefix[: length - 1] + chr(following)
    return None
