"""What the rules of the conformance suite are written with: a subject, workers, and verdicts."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final, TypeAlias, TypeVar

from runlease_core.errors import RunStoreError
from runlease_core.fields import COUNTER_MAX
from runlease_core.instant import instant_from_ms
from runlease_core.ledger import RunLedger
from runlease_core.lifecycle import RunStatus
from runlease_core.record import CheckpointRef, Lease, Outcome, RunRecord, Suspension

RACERS: Final = 12
ANSWER_SECONDS_MAX: Final = 60.0
TTL_MS: Final = 30_000
START: Final = instant_from_ms(1_788_220_800_000)

T = TypeVar("T")


class ConformanceError(AssertionError):
    """The store breaks a rule; the message says what was expected and what came."""


class Need(Enum):
    """What a rule asks of a store beyond the seam's three methods."""

    DELETE = "delete"
    GUARDS = "guards"
    CORRUPTION = "corruption"


@dataclass(frozen=True, slots=True)
class Subject:
    """The store under test, and the hook that spoils a record in it."""

    store: Any
    corrupt: Callable[[str], object]


Body: TypeAlias = Callable[[Subject], None]


class HandClock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self._now = START

    def __call__(self) -> datetime:
        return self._now

    def advance(self, ms: int) -> None:
        """Move on by so many milliseconds."""
        self._now += timedelta(milliseconds=ms)


class Workers:
    """Ledgers over one store and one clock, by owner."""

    def __init__(self, subject: Subject) -> None:
        self.store = subject.store
        self.clock = HandClock()

    def __getitem__(self, owner: str) -> RunLedger:
        return RunLedger(
            self.store, owner=owner, lease_ttl_ms=TTL_MS, heartbeat=False, now=self.clock
        )


def expect(fact: bool, sentence: str) -> None:  # noqa: FBT001 (the fact itself)
    """A fact that must hold."""
    if not fact:
        raise ConformanceError(sentence)


def equal(found: object, expected: object, what: str) -> None:
    """Two values that must agree."""
    expect(found == expected, f"{what}: expected {expected!r}, found {found!r}")


def swapped(answer: object, what: str) -> None:
    """A create or swap that must win."""
    expect(answer is True, f"{what}: expected True, found {answer!r}")


def not_swapped(answer: object, what: str) -> None:
    """A create or swap that must lose."""
    expect(answer is False, f"{what}: expected False, found {answer!r}")


def refused(expected: type[RunStoreError], command: Callable[[], object]) -> None:
    """A command that must be refused with this code."""
    answer = attempt(command)
    expect(isinstance(answer, expected), f"expected {expected.code}, found {answer!r}")


def unchanged(write: Callable[[], object]) -> None:
    """A write that must not happen: refused by an error or by False."""
    answer = attempt(write)
    expect(
        answer is False or isinstance(answer, RunStoreError),
        f"expected a refusal or False, found {answer!r}",
    )


def attempt(command: Callable[[], T]) -> T | RunStoreError:
    """The answer, or the refusal as a value."""
    try:
        return command()
    except RunStoreError as error:
        return error


def race(commands: list[Callable[[], Any]]) -> list[Any]:
    """Run all at the same moment, each on a thread; their answers in order."""
    answers: list[Any] = [None] * len(commands)
    errors: list[BaseException] = []
    start = threading.Barrier(len(commands))

    def run(index: int) -> None:
        try:
            start.wait(ANSWER_SECONDS_MAX)
            answers[index] = commands[index]()
        except BaseException as error:  # noqa: BLE001 (raised again on the caller's thread)
            errors.append(error)

    threads = [
        threading.Thread(target=run, args=(index,), daemon=True) for index in range(len(commands))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(ANSWER_SECONDS_MAX)
    if errors:
        raise errors[0]
    expect(
        not any(thread.is_alive() for thread in threads),
        f"the store did not answer within {ANSWER_SECONDS_MAX:.0f} seconds",
    )
    return answers


def new_run_id() -> str:
    """An id that no other case uses, so that cases may share a store."""
    return f"conformance-{uuid.uuid4()}"


def make_record(run_id: str | None = None, **fields: Any) -> RunRecord:  # noqa: ANN401 (any field)
    """A small record of a new run; `fields` say what is different."""
    known: dict[str, Any] = {
        "run_id": run_id or new_run_id(),
        "version": 1,
        "status": RunStatus.RUNNING if "lease" in fields else RunStatus.QUEUED,
        "attempt": 1,
        "fencing_token": 1,
        "created_at": START,
        "updated_at": START,
    }
    return RunRecord(**{**known, **fields})


def full_records() -> list[RunRecord]:
    """Every optional field, present and absent, at its bounds."""
    at = START + timedelta(milliseconds=700)
    return [
        make_record(),
        make_record(
            lease=Lease("worker ü:1", START, at),
            checkpoint_ref=CheckpointRef("snapshots/ü/😀", COUNTER_MAX, at),
            labels={"team": "", "stadt": "Zürich\u00a0😀"},
            max_attempts=10_000,
        ),
        make_record(status=RunStatus.SUSPENDED, suspension=Suspension(START, ())),
        make_record(status=RunStatus.SUSPENDED, suspension=Suspension(at, ("b", "a", "ü"))),
        make_record(status=RunStatus.COMPLETED, outcome=Outcome("ok")),
        make_record(
            version=COUNTER_MAX,
            attempt=COUNTER_MAX,
            fencing_token=COUNTER_MAX,
            status=RunStatus.FAILED,
            outcome=Outcome("error", 'two\nlines\tand "quotes" \\ 😀'),
        ),
    ]
