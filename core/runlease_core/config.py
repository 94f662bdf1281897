"""What a run store's configuration says, layer over layer.

An application sets a default, a call may override it: each layer is None (not said), False (no
run store), a store alone, or a `RunStoreConfig` that says some fields. The strongest layer that
says a field decides it. False takes back everything weaker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Final, Literal, TypeAlias

from runlease_core.clock import Clock
from runlease_core.commands import check_lease_ttl_ms
from runlease_core.fields import LEASE_TTL_MS_DEFAULT, check_owner, malformed
from runlease_core.store import AsyncRunStore, RunStore, check_run_store


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStoreConfig:
    """A ledger's settings; None leaves a field to weaker layers, and then to its default."""

    store: RunStore | AsyncRunStore | None = None
    owner: str | None = None
    lease_ttl_ms: int | None = None
    heartbeat: bool | None = None
    now: Callable[[], datetime] | None = None

    def __post_init__(self) -> None:
        if self.store is not None:
            check_run_store(self.store)
        if self.owner is not None:
            check_owner(self.owner)
        if self.lease_ttl_ms is not None:
            check_lease_ttl_ms(self.lease_ttl_ms)
        if self.heartbeat is not None and not isinstance(self.heartbeat, bool):
            raise malformed("heartbeat", "must be true or false")
        Clock(self.now)


RunStoreLayer: TypeAlias = RunStoreConfig | RunStore | AsyncRunStore | Literal[False] | None

_DEFAULTS: Final = RunStoreConfig(lease_ttl_ms=LEASE_TTL_MS_DEFAULT, heartbeat=True)


def resolve_run_store_config(*layers: RunStoreLayer) -> RunStoreConfig | None:
    """Lay the layers over each other, weak to strong; None when no run store is wanted.

    What comes back has a store, a lease length and a heartbeat. Without an owner, each ledger
    makes its own.

    Raises:
        RunValidationError: RUN_VALIDATION_ERROR, a layer is malformed or no layer names a store;
            mend the configuration.
        RunStoreAtomicRequiredError: RUN_STORE_ATOMIC_REQUIRED, the store cannot swap; use another.
    """
    resolved: RunStoreConfig | None = None
    for layer in layers:
        if layer is None:
            continue
        if layer is False:
            resolved = None
            continue
        resolved = _laid_over(resolved or _DEFAULTS, _as_config(layer))
    if resolved is not None and resolved.store is None:
        raise malformed("runStore", "names no store in any layer")
    return resolved


def _as_config(layer: RunStoreConfig | RunStore | AsyncRunStore) -> RunStoreConfig:
    if isinstance(layer, RunStoreConfig):
        return layer
    if isinstance(layer, bool | int | float | str | bytes | dict | list | tuple):
        raise malformed("runStore", "must be a run store, a RunStoreConfig, False or None")
    return RunStoreConfig(store=layer)


def _laid_over(weak: RunStoreConfig, strong: RunStoreConfig) -> RunStoreConfig:
    said = {
        field.name: value
        for field in fields(strong)
        if (value := getattr(strong, field.name)) is not None
    }
    return replace(weak, **said)
