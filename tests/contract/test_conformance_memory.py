"""The stores of the core keep the conformance suite, and wrong ones are found by it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from runlease_core import (
    AsyncMemoryStoreRunStore,
    Capabilities,
    Case,
    ConformanceError,
    MemoryRunStore,
    MemoryStoreRunStore,
    RunStore,
    conformance_cases,
    run_conformance,
    run_conformance_async,
)
from tests.contract import wrong_stores
from tests.key_values import AsyncDictStore, DictStore

GUARDED = Capabilities(guarded=True)


class SpoiledStore(MemoryStoreRunStore):
    def __init__(self) -> None:
        self.texts = DictStore()
        super().__init__(self.texts)


class AsyncSpoiledStore(AsyncMemoryStoreRunStore):
    def __init__(self) -> None:
        self.texts = AsyncDictStore()
        super().__init__(self.texts)


def spoil(store: SpoiledStore | AsyncSpoiledStore, run_id: str) -> None:
    store.texts.values[f"run:{run_id}"] = '{"schema":1}'


EVERYTHING = Capabilities(guarded=True, corrupt=spoil)


@pytest.mark.parametrize("case", conformance_cases(GUARDED), ids=str)
def test_the_memory_store_conforms(case: Case) -> None:
    case(MemoryRunStore)


@pytest.mark.parametrize("case", conformance_cases(EVERYTHING), ids=str)
def test_the_key_value_store_conforms(case: Case) -> None:
    case(SpoiledStore)


@pytest.mark.parametrize("case", conformance_cases(EVERYTHING), ids=str)
def test_the_asynchronous_key_value_store_conforms(case: Case) -> None:
    case(AsyncSpoiledStore)


async def test_an_asynchronous_store_is_judged_on_the_loop_that_runs() -> None:
    async def make() -> AsyncSpoiledStore:
        return AsyncSpoiledStore()

    report = await run_conformance_async(make, capabilities=EVERYTHING)

    assert report.ok, report
    assert len(report.passed) == len(conformance_cases(EVERYTHING))


def test_only_what_a_store_declares_away_is_skipped() -> None:
    report = run_conformance(wrong_stores.WrongStore, capabilities=Capabilities(delete=False))

    assert report.ok, report
    assert {skipped.why for skipped in report.skipped} == {
        "the store declares no delete",
        "the store does not declare that it guards raw writes",
        "the store offers no hook to corrupt a record",
    }
    assert len(report.passed) + len(report.skipped) == 24


@pytest.mark.parametrize(
    ("make_store", "rule"),
    [
        (wrong_stores.VersionIgnoringStore, "a swap needs the stored version"),
        (wrong_stores.CreateLosingStore, "a created record reads back with the same bytes"),
        (wrong_stores.CreateOverwritingStore, "a second create changes nothing"),
        (wrong_stores.StateSharingStore, "a record that was read does not change"),
        (wrong_stores.FoldingStore, "ids are compared code point by code point"),
        (wrong_stores.ForgetfulStore, "a token never comes back after a delete"),
    ],
)
def test_a_wrong_store_is_found_by_the_rule_that_it_breaks(
    make_store: Callable[[], RunStore], rule: str
) -> None:
    capabilities = Capabilities(delete=make_store is wrong_stores.ForgetfulStore)

    report = run_conformance(make_store, capabilities=capabilities)

    assert not report.ok
    assert rule in {failed.name for failed in report.failed}
    assert f"FAILED   {rule}: " in str(report)


def test_a_case_raises_what_the_store_did_wrong() -> None:
    (case,) = (
        case for case in conformance_cases() if str(case) == "a swap needs the stored version"
    )

    with pytest.raises(ConformanceError, match="expects version 1 where 2 is stored"):
        case(wrong_stores.VersionIgnoringStore)


def test_a_swap_that_is_not_atomic_is_found_by_a_race() -> None:
    rule = "of swaps that race at one version one wins"
    (case,) = (case for case in conformance_cases() if str(case) == rule)

    with pytest.raises(ConformanceError, match="the number of swaps that won"):
        case(wrong_stores.RacyStore)
