"""How the layers of a run store's configuration are laid over each other."""

from __future__ import annotations

from typing import Any

import pytest

from runlease_core import (
    MemoryRunStore,
    RunStoreAtomicRequiredError,
    RunStoreConfig,
    RunValidationError,
    resolve_run_store_config,
)
from tests.clock import ManualClock


@pytest.mark.parametrize("layers", [(), (None,), (None, False), (MemoryRunStore(), False)])
def test_no_store_is_wanted_when_nothing_is_said_or_the_strongest_word_is_false(
    layers: tuple[Any, ...],
) -> None:
    assert resolve_run_store_config(*layers) is None


def test_a_store_alone_is_a_configuration_with_the_defaults() -> None:
    store = MemoryRunStore()

    resolved = resolve_run_store_config(store, None)

    assert resolved == RunStoreConfig(store=store, lease_ttl_ms=60_000, heartbeat=True)


def test_the_strongest_layer_that_says_a_field_decides_it() -> None:
    weak, strong, clock = MemoryRunStore(), MemoryRunStore(), ManualClock()

    resolved = resolve_run_store_config(
        RunStoreConfig(store=weak, owner="weak", lease_ttl_ms=1_000, heartbeat=False),
        None,
        RunStoreConfig(owner="strong", now=clock),
        strong,
    )

    assert resolved == RunStoreConfig(
        store=strong, owner="strong", lease_ttl_ms=1_000, heartbeat=False, now=clock
    )


def test_false_takes_back_everything_weaker() -> None:
    store = MemoryRunStore()
    layers: list[Any] = [RunStoreConfig(store=store, owner="weak"), False, store]

    resolved = resolve_run_store_config(*layers)

    assert resolved is not None
    assert resolved.owner is None


@pytest.mark.parametrize(
    "layers",
    [
        (True,),
        (0,),
        ("memory:",),
        ({"store": MemoryRunStore()},),
        (object(),),
        (RunStoreConfig(owner="worker"),),
        (MemoryRunStore(), False, RunStoreConfig(owner="worker")),
    ],
)
def test_a_malformed_layer_or_one_without_any_store_is_refused(layers: tuple[Any, ...]) -> None:
    with pytest.raises(RunValidationError):
        resolve_run_store_config(*layers)


@pytest.mark.parametrize(
    "field",
    [
        {"owner": " "},
        {"lease_ttl_ms": 99},
        {"lease_ttl_ms": True},
        {"heartbeat": "yes"},
        {"now": 5},
        {"store": "memory:"},
    ],
)
def test_a_malformed_field_is_refused_where_it_is_said(field: dict[str, Any]) -> None:
    with pytest.raises(RunValidationError):
        RunStoreConfig(**field)


def test_a_store_that_cannot_swap_is_refused() -> None:
    class PlainStore:
        atomicity = "process"

        def get(self, run_id: str) -> None: ...

        def create(self, record: object) -> bool:
            return True

    layer: Any = PlainStore()
    with pytest.raises(RunStoreAtomicRequiredError):
        resolve_run_store_config(layer)
