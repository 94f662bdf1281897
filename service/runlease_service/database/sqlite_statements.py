"""SQLite's statements, written in SQLAlchemy Core and compiled once.

The writer runs them on the driver itself: compiling, and binding by name, would cost more than the
statements do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import bindparam, delete, func, insert, literal_column, select, update
from sqlalchemy.dialects import sqlite as dialect
from sqlalchemy.sql import ClauseElement

from runlease_service.database.schema import (
    COLUMNS,
    FENCE_COLUMNS,
    RENEWAL_COLUMNS,
    run_labels,
    runs,
)


def _sql(statement: ClauseElement, paramstyle: str = "qmark") -> str:
    return str(statement.compile(dialect=dialect.dialect(paramstyle=paramstyle)))


def _values(names: Sequence[str]) -> dict[str, Any]:
    return {name: bindparam(f"new_{name}") for name in names}


# The hot statements, compiled once. One JSON parameter names all runs of a batch, so that the text
# of the statement never changes with their number.
_NAMED = select(func.json_each(bindparam("run_ids")).table_valued("value").c.value)
SELECT_RUNS: Final = _sql(select(runs).where(runs.c.run_id.in_(_NAMED)).order_by(runs.c.run_id))
_GUARD = (
    runs.c.run_id == bindparam("run"),
    runs.c.version == bindparam("version_read"),
    runs.c.fencing_token == bindparam("token_read"),
)


def _update(names: Sequence[str]) -> str:
    # Values are bound by place: they come in the order of the names, not of the table.
    return _sql(update(runs).ordered_values(*_values(names).items()).where(*_GUARD))


INSERT_RUN: Final = _sql(insert(runs).values(_values(COLUMNS)))
UPDATE_RUN: Final = _update(COLUMNS[1:])
FENCE_RUN: Final = _update(FENCE_COLUMNS)
RENEW_RUN: Final = _update(RENEWAL_COLUMNS)
INSERT_LABEL: Final = _sql(
    insert(run_labels).values(_values([column.name for column in run_labels.columns]))
)
DELETE_LABELS: Final = _sql(delete(run_labels).where(run_labels.c.run_id == bindparam("run")))
# Held leases move with the clock; then none may end later than its own length from now.
_HELD = (runs.c.status == literal_column("'running'"), runs.c.lease_owner.is_not(None))
_NEXT_VERSION = runs.c.version + literal_column("1")
MOVE_LEASES: Final = _sql(
    update(runs)
    .values(
        version=_NEXT_VERSION,
        lease_acquired_at=runs.c.lease_acquired_at + bindparam("moved"),
        lease_expires_at=runs.c.lease_expires_at + bindparam("moved"),
        updated_at=bindparam("now"),
    )
    .where(*_HELD),
    paramstyle="named",
)
CUT_LEASES: Final = _sql(
    update(runs)
    .values(
        version=_NEXT_VERSION,
        lease_acquired_at=bindparam("now"),
        lease_expires_at=bindparam("now") + runs.c.lease_expires_at - runs.c.lease_acquired_at,
        updated_at=bindparam("now"),
    )
    .where(*_HELD, runs.c.lease_acquired_at > bindparam("now")),
    paramstyle="named",
)
