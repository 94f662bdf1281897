"""Run stores that do something on the way: count, fail, hang. What is stored stays true."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal

from runlease_core import MemoryRunStore, RunRecord


class LostAnswerError(OSError):
    """The transport broke; nobody knows whether the write landed."""


class TroubledStore:
    """A memory store whose swaps pass a hook first, and may lose their answer afterwards."""

    atomicity: Literal["process"] = "process"

    def __init__(self) -> None:
        self.inner = MemoryRunStore()
        self.before_swap: Callable[[RunRecord], None] = lambda _: None
        self.after_swap: Callable[[RunRecord], None] = lambda _: None
        self.answers = True
        self.swaps = 0
        self.swapped = threading.Condition()

    def get(self, run_id: str) -> RunRecord | None:
        assert self.answers, "the store was asked"
        return self.inner.get(run_id)

    def create(self, record: RunRecord) -> bool:
        return self.inner.create(record)

    def compare_and_set(self, run_id: str, expected_version: int, next_record: RunRecord) -> bool:
        self.before_swap(next_record)
        done = self.inner.compare_and_set(run_id, expected_version, next_record)
        with self.swapped:
            self.swaps += 1
            self.swapped.notify_all()
        self.after_swap(next_record)
        return done

    def wait_for_swaps(self, count: int) -> None:
        with self.swapped:
            assert self.swapped.wait_for(lambda: self.swaps >= count, timeout=20)


class AsyncTroubledStore:
    """The same with awaitable methods."""

    atomicity: Literal["process"] = "process"

    def __init__(self) -> None:
        self.sync = TroubledStore()

    async def get(self, run_id: str) -> RunRecord | None:
        return self.sync.get(run_id)

    async def create(self, record: RunRecord) -> bool:
        return self.sync.create(record)

    async def compare_and_set(
        self, run_id: str, expected_version: int, next_record: RunRecord
    ) -> bool:
        return self.sync.compare_and_set(run_id, expected_version, next_record)


def lose_the_answer(_: RunRecord) -> None:
    raise LostAnswerError("connection reset")
