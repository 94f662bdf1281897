"""Stores with one fault each, that a conformance suite has to find."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Literal

from runlease_core import MemoryRunStore, RunRecord


class WrongStore:
    """A right store to begin with, unguarded and without a delete."""

    atomicity: Literal["process"] = "process"

    def __init__(self) -> None:
        self.records: dict[str, RunRecord] = {}
        self.inner = MemoryRunStore()

    def get(self, run_id: str) -> RunRecord | None:
        return self.inner.get(run_id)

    def create(self, record: RunRecord) -> bool:
        return self.inner.create(record)

    def compare_and_set(self, run_id: str, expected_version: int, next_record: RunRecord) -> bool:
        return self.inner.compare_and_set(run_id, expected_version, next_record)


class VersionIgnoringStore(WrongStore):
    """Swaps whatever version is stored."""

    def get(self, run_id: str) -> RunRecord | None:
        return self.records.get(run_id)

    def create(self, record: RunRecord) -> bool:
        return self.records.setdefault(record.run_id, record) is record

    def compare_and_set(self, run_id: str, expected_version: int, next_record: RunRecord) -> bool:
        if run_id not in self.records:
            return False
        self.records[run_id] = next_record
        return True


class CreateLosingStore(WrongStore):
    """Says that it created what it never stored."""

    def create(self, record: RunRecord) -> bool:
        return self.inner.get(record.run_id) is None


class CreateOverwritingStore(VersionIgnoringStore):
    """Lets a second create take the first one's place."""

    def create(self, record: RunRecord) -> bool:
        self.records[record.run_id] = record
        return True

    def compare_and_set(self, run_id: str, expected_version: int, next_record: RunRecord) -> bool:
        stored = self.records.get(run_id)
        if stored is None or stored.version != expected_version:
            return False
        self.records[run_id] = next_record
        return True


class StateSharingStore(WrongStore):
    """Hands out the one object that it changes later."""

    def get(self, run_id: str) -> RunRecord | None:
        return self.records.get(run_id)

    def create(self, record: RunRecord) -> bool:
        return self.records.setdefault(record.run_id, record) is record

    def compare_and_set(self, run_id: str, expected_version: int, next_record: RunRecord) -> bool:
        stored = self.records.get(run_id)
        if stored is None or stored.version != expected_version:
            return False
        for name in RunRecord.__dataclass_fields__:
            object.__setattr__(stored, name, getattr(next_record, name))
        return True


class FoldingStore(WrongStore):
    """Compares ids without regard to case."""

    def get(self, run_id: str) -> RunRecord | None:
        return self.records.get(run_id.casefold())

    def create(self, record: RunRecord) -> bool:
        return self.records.setdefault(record.run_id.casefold(), record) is record


class ForgetfulStore(MemoryRunStore):
    """Deletes a run together with its last token."""

    def delete(self, run_id: str) -> None:
        self._states.pop(run_id, None)


class RacyStore(MemoryRunStore):
    """Compares, lets another thread compare too, and sets: two writers both win."""

    def __init__(self) -> None:
        super().__init__()
        self._both_compared = threading.Barrier(2)

    def compare_and_set(self, run_id: str, expected_version: int, next_record: RunRecord) -> bool:
        stored = self._states.get(run_id)
        if not isinstance(stored, RunRecord) or stored.version != expected_version:
            return False
        with suppress(threading.BrokenBarrierError):
            self._both_compared.wait(timeout=1)
        self._states[run_id] = next_record
        return True
