"""PostgreSQL's statements, written in SQLAlchemy Core and compiled once for asyncpg.

A batch goes in as arrays, one for each column, and is unnested by the server: one statement writes
any number of rows, and its text never changes, so it is prepared once. Every write over a row is
guarded by the version and token that were read, and returns the ids of the rows that it wrote; a
row that is not returned was changed by somebody else, and its commands are decided again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    FromClause,
    Text,
    bindparam,
    column,
    delete,
    exists,
    func,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY, asyncpg, insert
from sqlalchemy.sql import ClauseElement, Select
from sqlalchemy.sql.dml import ReturningInsert, ReturningUpdate
from sqlalchemy.types import TypeEngine

from runlease_service.database.queries import select_run
from runlease_service.database.schema import (
    COLUMNS,
    FENCE_COLUMNS,
    RENEWAL_COLUMNS,
    Guard,
    Row,
    run_labels,
    runs,
)

_GUARD_NAMES: Final = ("guard_run_id", "guard_version", "guard_token")


class Statement:
    """SQL text for asyncpg and the order of its arguments."""

    def __init__(self, clause: ClauseElement) -> None:
        compiled = clause.compile(dialect=asyncpg.dialect())  # type: ignore[no-untyped-call]
        self.text = str(compiled)
        self._order: list[str] = list(compiled.positiontup or ())  # type: ignore[attr-defined]
        self._defaults: dict[str, Any] = dict(compiled.params)

    def arguments(self, given: Mapping[str, Any]) -> list[Any]:
        """The values in the order in which the statement wants them; what stands in the clause
        itself need not be given."""
        values = self._defaults | dict(given)
        return [values[name] for name in self._order]


def _rows(name: str, columns: Sequence[str]) -> FromClause:
    """The batch: one array parameter a column, unnested side by side."""
    types = [_type(one) for one in columns]
    arrays = [
        bindparam(f"{name}_{one}", type_=ARRAY(kind))
        for one, kind in zip(columns, types, strict=True)
    ]
    return (
        func.unnest(*arrays)
        .table_valued(
            *(column(one, kind) for one, kind in zip(columns, types, strict=True)), name=name
        )
        .render_derived(name=name)
    )


def _type(name: str) -> TypeEngine[Any]:
    """The parameter's type; the column's own collation is the column's business."""
    if name in ("guard_run_id", "label"):
        return Text()
    kind = runs.c[name].type if name in runs.c else BigInteger()
    return Text() if isinstance(kind, Text) else kind


def arrays(
    name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]
) -> dict[str, list[Any]]:
    """The batch's rows turned into the arrays that `_rows` names."""
    turned = list(zip(*rows, strict=True)) or [()] * len(columns)
    return {f"{name}_{one}": list(values) for one, values in zip(columns, turned, strict=True)}


def guarded(rows: Iterable[tuple[Row, Guard]]) -> Iterable[tuple[Any, ...]]:
    """Rows with their guards, as an `Update` takes them."""
    return ((*row, *guard) for row, guard in rows)


# The clock comes with the read, also when there is no row: no lock is waited for in between, and
# what is judged by it is written only if the row has not changed since.
NOW_MS: Final = func.floor(
    func.extract("epoch", func.clock_timestamp()) * literal_column("1000")
).cast(BigInteger)
_ASKED = (
    func.unnest(bindparam("run_ids", type_=ARRAY(Text)))
    .table_valued(column("run_id", Text), name="asked")
    .render_derived(name="asked")
)
SELECT: Final = Statement(
    select(NOW_MS.label("now_ms"), runs).select_from(
        _ASKED.outerjoin(runs, runs.c.run_id == _ASKED.c.run_id)
    )
)

LABEL_COLUMNS: Final = ("run_id", "label", "created_at")


def _insert() -> ReturningInsert[Any]:
    """A run that somebody else made meanwhile is not returned."""
    new = _rows("new", COLUMNS)
    return (
        insert(runs)
        .from_select(COLUMNS, select(*(new.c[name] for name in COLUMNS)))
        .on_conflict_do_nothing()
        .returning(runs.c.run_id)
    )


def _update(
    columns: Sequence[str], names: Sequence[str], *, skip_locked: bool = False
) -> ReturningUpdate[Any]:
    """A row that changed since it was read is not returned, nor, with `skip_locked`, one that
    somebody else holds: that form never waits, so it can neither stall nor deadlock."""
    new = _rows("new", names)
    is_same = runs.c.run_id == new.c.guard_run_id
    is_unchanged = (
        runs.c.version == new.c.guard_version,
        runs.c.fencing_token == new.c.guard_token,
    )
    statement = (
        update(runs)
        .values({name: new.c[name] for name in columns})
        .where(is_same, *is_unchanged)
        .returning(runs.c.run_id)
    )
    if skip_locked:
        free = (
            select(runs.c.run_id)
            .join(new, is_same)
            .where(*is_unchanged)
            .order_by(runs.c.run_id)
            .with_for_update(of=runs, skip_locked=True)
            .cte("free")
            .prefix_with("MATERIALIZED")
        )
        statement = statement.where(runs.c.run_id == free.c.run_id)
    return statement


def _with_labels(write: ReturningInsert[Any] | ReturningUpdate[Any]) -> Select[Any]:
    """The same write, and in the same statement the label rows of the runs that it wrote."""
    written = write.cte("written")
    label = _rows("label", LABEL_COLUMNS)
    kept = select(label.c.label).where(
        label.c.run_id == run_labels.c.run_id, label.c.label == run_labels.c.label
    )
    gone = (
        delete(run_labels)
        .where(run_labels.c.run_id.in_(select(written.c.run_id)), ~exists(kept))
        .returning(run_labels.c.run_id)
        .cte("gone")
    )
    come = (
        insert(run_labels)
        .from_select(
            LABEL_COLUMNS,
            select(*(label.c[name] for name in LABEL_COLUMNS)).join(
                written, written.c.run_id == label.c.run_id
            ),
        )
        .on_conflict_do_nothing()
        .returning(run_labels.c.run_id)
        .cte("come")
    )
    return select(written.c.run_id).add_cte(gone, come)


SELECT_NOW: Final = Statement(select(NOW_MS))
SELECT_RUN: Final = Statement(select_run().add_columns(NOW_MS))
INSERT: Final = Statement(_insert())
INSERT_LABELLED: Final = Statement(_with_labels(_insert()))


class Update(NamedTuple):
    """A guarded write over rows that exist: what it takes, and its two forms."""

    columns: Sequence[str]
    usual: Statement
    skipping: Statement


def _forms(names: Sequence[str], *, labelled: bool = False) -> Update:
    taken = (*names, *_GUARD_NAMES)
    changed = [name for name in names if name != "run_id"]
    writes = [_update(changed, taken, skip_locked=skip) for skip in (False, True)]
    usual, skipping = [Statement(_with_labels(one) if labelled else one) for one in writes]
    return Update(taken, usual, skipping)


RENEWS: Final = _forms(RENEWAL_COLUMNS)
FENCES: Final = _forms(FENCE_COLUMNS)
UPDATES: Final = _forms(COLUMNS)
LABELLED_UPDATES: Final = _forms(COLUMNS, labelled=True)
