"""What a batch changes, as rows for the statements that write it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from runlease_core.record import RunRecord, Tombstone
from runlease_service.database.base import Change
from runlease_service.database.schema import (
    Guard,
    Row,
    fence_from_record,
    guard_of,
    is_same_grant,
    label_rows,
    renewal_from_record,
    row_from_record,
    row_from_tombstone,
)


@dataclass(slots=True)
class Rows:
    """A batch's rows in run id order: whole rows as in COLUMNS, renewals as in RENEWAL_COLUMNS,
    fences as in FENCE_COLUMNS.

    In `relabelled` are the updates that change labels: the label rows of those runs go, before
    those in `labels` come.
    """

    inserts: list[Row] = field(default_factory=list)
    updates: list[tuple[Row, Guard]] = field(default_factory=list)
    relabelled: list[tuple[Row, Guard]] = field(default_factory=list)
    renewals: list[tuple[Row, Guard]] = field(default_factory=list)
    fences: list[tuple[Row, Guard]] = field(default_factory=list)
    labels: list[tuple[str, str, int]] = field(default_factory=list)

    @classmethod
    def of(cls, changes: Mapping[str, Change], now_ms: int) -> Self:
        rows = cls()
        for run_id in sorted(changes):
            rows._add(changes[run_id], now_ms)
        return rows

    def _add(self, change: Change, now_ms: int) -> None:
        before, after = change.before, change.after
        if (
            isinstance(before, RunRecord)
            and isinstance(after, RunRecord)
            and is_same_grant(before, after)
        ):
            if before.checkpoint_ref == after.checkpoint_ref:
                self.renewals.append((renewal_from_record(after), guard_of(before)))
                return
            if after.checkpoint_ref is not None:
                self.fences.append((fence_from_record(after), guard_of(before)))
                return
        row = (
            row_from_tombstone(after, now_ms)
            if isinstance(after, Tombstone)
            else row_from_record(after)
        )
        old, new = _labels(before), _labels(after)
        if before is None:
            self.inserts.append(row)
            self.labels.extend(new)
        elif old == new:
            self.updates.append((row, guard_of(before)))
        else:
            self.relabelled.append((row, guard_of(before)))
            self.labels.extend(new)


def _labels(state: RunRecord | Tombstone | None) -> list[tuple[str, str, int]]:
    return label_rows(state) if isinstance(state, RunRecord) else []
