"""Key-value stores in a dictionary, with the compare-and-set that run records need."""

from __future__ import annotations

import threading


class DictStore:
    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self._lock = threading.Lock()

    def get(self, key: str) -> str | None:
        return self.values.get(key)

    def compare_and_set(self, key: str, expected: str | None, value: str) -> bool:
        with self._lock:
            if self.values.get(key) != expected:
                return False
            self.values[key] = value
            return True


class AsyncDictStore:
    def __init__(self) -> None:
        self._store = DictStore()
        self.values = self._store.values

    async def get(self, key: str) -> str | None:
        return self._store.get(key)

    async def compare_and_set(self, key: str, expected: str | None, value: str) -> bool:
        return self._store.compare_and_set(key, expected, value)
