"""What any run store must do: the seed's suite, without a test framework.

    report = run_conformance(lambda: PostgresRunStore(pool))
    assert report.ok, report

or, a case at a time under pytest:

    @pytest.mark.parametrize("case", conformance_cases(), ids=str)
    def test_the_store_conforms(case):
        case(lambda: PostgresRunStore(pool))

A case makes its own store, or gets a shared one: run ids are new each time. An asynchronous store
runs on an event loop of a thread made for the case, or, with `run_conformance_async`, on the
caller's loop. What a store cannot do is declared in `Capabilities` and shows as skipped; nothing
else is skipped.

The suite cannot prove atomicity among processes from inside one: a `cross-process` store needs an
integration test of its own against the live backend.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from inspect import isawaitable
from typing import Any, Final, TypeAlias

from runlease_core.conformance_leases import LEASE_CASES
from runlease_core.conformance_storage import STORAGE_CASES
from runlease_core.conformance_subject import ANSWER_SECONDS_MAX, Body, Need, Subject
from runlease_core.store import AsyncRunStore, RunStore

MakeStore: TypeAlias = Callable[[], RunStore | AsyncRunStore | Awaitable[RunStore | AsyncRunStore]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a store declares beyond the seam's three methods.

    Args:
        delete: It has `delete`, and keeps the last token of a deleted run.
        guarded: It refuses by itself a raw write that breaks what is always true of a run.
        corrupt: Puts something that is no record in the place of a run: called with the store
            and the run id; for an asynchronous store it may be awaitable.
    """

    delete: bool = True
    guarded: bool = False
    corrupt: Callable[[Any, str], object] | None = None

    def lacks(self, need: Need | None) -> str | None:
        """Why a case with this need is skipped, or None when it is run."""
        match need:
            case Need.DELETE if not self.delete:
                return "the store declares no delete"
            case Need.GUARDS if not self.guarded:
                return "the store does not declare that it guards raw writes"
            case Need.CORRUPTION if self.corrupt is None:
                return "the store offers no hook to corrupt a record"
            case _:
                return None


ALL_BUT_HOOKS: Final = Capabilities()


@dataclass(frozen=True, slots=True)
class Case:
    """One rule that a store must keep. Calling it raises when the store breaks it."""

    name: str
    body: Body
    need: Need | None
    capabilities: Capabilities

    def __call__(self, make_store: MakeStore) -> None:
        """Make a store and hold it to this rule.

        Raises:
            ConformanceError: the store breaks it; mend the store.
        """
        with _event_loop() as loop:
            _judge(self, make_store, loop)

    def __str__(self) -> str:
        """The sentence."""
        return self.name


@dataclass(frozen=True, slots=True)
class Failed:
    """A rule that the store breaks."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """A rule that the store declares to be none of its own."""

    name: str
    why: str


@dataclass(slots=True)
class Report:
    """What came of the suite; prints readably."""

    passed: list[str] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not self.failed

    def __str__(self) -> str:
        """One line a case, and the sums."""
        lines = [f"passed   {name}" for name in self.passed]
        lines += [f"skipped  {skip.name}: {skip.why}" for skip in self.skipped]
        lines += [f"FAILED   {failure.name}: {failure.reason}" for failure in self.failed]
        sums = f"{len(self.passed)} passed, {len(self.failed)} failed, {len(self.skipped)} skipped"
        return "\n".join([*lines, sums])


def conformance_cases(capabilities: Capabilities = ALL_BUT_HOOKS) -> list[Case]:
    """The cases that a store with these capabilities must pass, each to be called with a maker."""
    return [case for case in _every_case(capabilities) if not capabilities.lacks(case.need)]


def run_conformance(make_store: MakeStore, *, capabilities: Capabilities = ALL_BUT_HOOKS) -> Report:
    """Hold a store, synchronous or not, to every rule; an asynchronous one on a loop made here."""
    with _event_loop() as loop:
        return _report(make_store, capabilities, loop)


async def run_conformance_async(
    make_store: MakeStore, *, capabilities: Capabilities = ALL_BUT_HOOKS
) -> Report:
    """The same, with an asynchronous store's calls on the running event loop."""
    loop = asyncio.get_running_loop()
    return await asyncio.to_thread(_report, make_store, capabilities, loop)


def _every_case(capabilities: Capabilities) -> list[Case]:
    return [
        Case(body.__name__.replace("_", " "), body, need, capabilities)
        for body, need in (*STORAGE_CASES, *LEASE_CASES)
    ]


def _report(
    make_store: MakeStore, capabilities: Capabilities, loop: asyncio.AbstractEventLoop
) -> Report:
    report = Report()
    for case in _every_case(capabilities):
        if why := capabilities.lacks(case.need):
            report.skipped.append(Skipped(case.name, why))
            continue
        try:
            _judge(case, make_store, loop)
        except Exception as error:  # noqa: BLE001 (whatever a store raises is its failure)
            report.failed.append(Failed(case.name, f"{type(error).__name__}: {error}"))
        else:
            report.passed.append(case.name)
    return report


def _judge(case: Case, make_store: MakeStore, loop: asyncio.AbstractEventLoop) -> None:
    answer = partial(_answer, loop)
    store = answer(make_store())
    corrupt = case.capabilities.corrupt
    subject = Subject(
        store=_Bridge(store, answer),
        corrupt=lambda run_id: answer(corrupt(store, run_id)) if corrupt else None,
    )
    case.body(subject)


def _answer(loop: asyncio.AbstractEventLoop, value: object) -> Any:  # noqa: ANN401 (a store's)
    """The answer itself: an awaitable one is awaited on the loop, within a bound."""
    if not isawaitable(value):
        return value

    async def wait() -> object:
        return await asyncio.wait_for(value, ANSWER_SECONDS_MAX)

    return asyncio.run_coroutine_threadsafe(wait(), loop).result()


class _Bridge:
    """A store of either kind, called from any thread as a synchronous one."""

    def __init__(self, store: object, answer: Callable[[Any], Any]) -> None:
        self._store = store
        self._answer = answer

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 (whatever the store has)
        value = getattr(self._store, name)
        if not callable(value):
            return value
        return lambda *arguments: self._answer(value(*arguments))


@contextmanager
def _event_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop on a thread of its own, for the stores that want one."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="runlease-conformance", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(ANSWER_SECONDS_MAX)
        loop.close()
