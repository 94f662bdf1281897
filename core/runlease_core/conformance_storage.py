"""The conformance suite's rules of storage: what the seam's methods do, and nothing about leases.

A function's name is the rule. It gets a subject whose store answers synchronously from any thread,
and raises `ConformanceError` when the rule is broken.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, Final

from runlease_core.conformance_subject import (
    RACERS,
    START,
    Body,
    Need,
    Subject,
    Workers,
    equal,
    expect,
    full_records,
    make_record,
    new_run_id,
    not_swapped,
    race,
    refused,
    swapped,
    unchanged,
)
from runlease_core.errors import RunIntegrityError
from runlease_core.lifecycle import RunStatus
from runlease_core.record import Lease, Suspension, record_to_text
from runlease_core.store import ATOMICITIES

SWAPS_PER_RACER: Final = 8


def a_store_declares_its_atomicity(subject: Subject) -> None:
    """The claim is one of the two there are."""
    expect(
        subject.store.atomicity in ATOMICITIES,
        f"atomicity is 'process' or 'cross-process', not {subject.store.atomicity!r}",
    )


def an_absent_run_reads_as_none(subject: Subject) -> None:
    """Absence is None, not an error."""
    equal(subject.store.get(new_run_id()), None, "an absent run")


def a_created_record_reads_back_with_the_same_bytes(subject: Subject) -> None:
    """Every field survives, whole seconds, non-ASCII text and the largest counters included."""
    for record in full_records():
        swapped(subject.store.create(record), "create of an absent run")
        read = subject.store.get(record.run_id)
        equal(read, record, "the record that was created")
        equal(record_to_text(read), record_to_text(record), "its text")


def a_swapped_record_reads_back_with_the_same_bytes(subject: Subject) -> None:
    """A swap replaces the whole record: what is absent in the new one is gone."""
    first = make_record(lease=Lease("a", START, START + timedelta(seconds=30)), labels={"k": "v"})
    subject.store.create(first)
    second = replace(
        first,
        version=2,
        status=RunStatus.SUSPENDED,
        lease=None,
        suspension=Suspension(START, ("approval-1",)),
        updated_at=START + timedelta(milliseconds=700),
    )
    swapped(subject.store.compare_and_set(first.run_id, 1, second), "a swap at its version")
    read = subject.store.get(first.run_id)
    equal(read, second, "the record that was swapped in")
    equal(record_to_text(read), record_to_text(second), "its text")


def a_second_create_changes_nothing(subject: Subject) -> None:
    """Create inserts only where there is nothing."""
    first = make_record(labels={"made": "first"})
    subject.store.create(first)
    not_swapped(subject.store.create(replace(first, labels={"made": "second"})), "a second create")
    equal(subject.store.get(first.run_id), first, "the record after a second create")


def of_creates_that_race_one_wins(subject: Subject) -> None:
    """The winner's record stands."""
    run_id = new_run_id()
    records = [make_record(run_id, labels={"racer": str(racer)}) for racer in range(RACERS)]
    answers = race([partial(subject.store.create, record) for record in records])
    equal(answers.count(True), 1, "the number of creates that won")
    equal(subject.store.get(run_id), records[answers.index(True)], "the record that stands")


def a_swap_needs_the_stored_version(subject: Subject) -> None:
    """Lower and higher ones are not swapped."""
    first = make_record()
    subject.store.create(first)
    second = replace(first, version=2, labels={"swap": "2"})
    swapped(subject.store.compare_and_set(first.run_id, 1, second), "a swap at its version")
    for expected in (1, 3):
        not_swapped(
            subject.store.compare_and_set(
                first.run_id, expected, replace(first, version=expected + 1)
            ),
            f"a swap that expects version {expected} where 2 is stored",
        )
    equal(subject.store.get(first.run_id), second, "the record after swaps that lost")


def a_swap_of_an_absent_run_makes_none(subject: Subject) -> None:
    """There is nothing to compare with."""
    record = make_record(version=2)
    not_swapped(subject.store.compare_and_set(record.run_id, 1, record), "a swap of an absent run")
    equal(subject.store.get(record.run_id), None, "the run after that")


def of_swaps_that_race_at_one_version_one_wins(subject: Subject) -> None:
    """The winner's record stands."""
    first = make_record()
    subject.store.create(first)
    records = [replace(first, version=2, labels={"racer": str(racer)}) for racer in range(RACERS)]
    answers = race(
        [partial(subject.store.compare_and_set, first.run_id, 1, record) for record in records]
    )
    equal(answers.count(True), 1, "the number of swaps that won")
    equal(subject.store.get(first.run_id), records[answers.index(True)], "the record that stands")


def no_swap_that_was_answered_is_lost(subject: Subject) -> None:
    """Under contention the version counts exactly the swaps that won."""
    first = make_record()
    subject.store.create(first)

    def swap() -> int:
        won = 0
        for _ in range(SWAPS_PER_RACER):
            read = subject.store.get(first.run_id)
            won += subject.store.compare_and_set(
                first.run_id, read.version, replace(read, version=read.version + 1)
            )
        return won

    won = sum(race([swap] * RACERS))
    equal(subject.store.get(first.run_id).version, 1 + won, "the version after all swaps")


def a_record_that_was_read_does_not_change(subject: Subject) -> None:
    """What a store hands out, and what it was handed, is nobody else's to change."""
    labels = {"made": "first"}
    first = make_record(labels=labels)
    subject.store.create(first)
    before = subject.store.get(first.run_id)
    text = record_to_text(before)
    subject.store.compare_and_set(
        first.run_id, 1, replace(first, version=2, labels={"made": "second"})
    )
    labels["made"] = "later"
    equal(record_to_text(before), text, "a record read before the swap")
    equal(subject.store.get(first.run_id).labels["made"], "second", "the label after the swap")


def ids_are_compared_code_point_by_code_point(subject: Subject) -> None:
    """No case folding, normalisation, collation or path rule."""
    stem = new_run_id()
    ids = [f"{stem}/{end}" for end in ("é", "e\u0301", "K", "\u212a", "k", "k/x", "%6b", "😀")]
    for run_id in ids:
        swapped(subject.store.create(make_record(run_id)), f"create of {run_id!r}")
    for run_id in ids:
        equal(subject.store.get(run_id).run_id, run_id, "the run under its id")


def a_deleted_run_reads_as_none(subject: Subject) -> None:
    """Deleting what is not there is quiet."""
    record = make_record()
    subject.store.delete(record.run_id)
    subject.store.create(record)
    subject.store.delete(record.run_id)
    equal(subject.store.get(record.run_id), None, "a deleted run")
    not_swapped(
        subject.store.compare_and_set(record.run_id, 1, replace(record, version=2)),
        "a swap of a deleted run",
    )
    subject.store.delete(record.run_id)


def a_raw_write_cannot_break_what_is_always_true(subject: Subject) -> None:
    """Terminal for ever, legal edges, counters that never fall, one owner a token."""
    lease = Lease("a", START, START + timedelta(seconds=30))
    first = make_record(status=RunStatus.RUNNING, fencing_token=5, attempt=3, lease=lease)
    subject.store.create(first)
    later = START + timedelta(seconds=1)
    changes: tuple[dict[str, Any], ...] = (
        {"version": 3},
        {"fencing_token": 4},
        {"attempt": 2},
        {"created_at": later, "updated_at": later},
        {"lease": replace(lease, owner="b")},
    )
    for change in changes:
        new = replace(first, **{"version": 2, **change})
        unchanged(partial(subject.store.compare_and_set, first.run_id, 1, new))
        equal(subject.store.get(first.run_id), first, f"the run after a swap with {change}")
    other = replace(first, run_id=new_run_id(), version=2)
    unchanged(lambda: subject.store.compare_and_set(first.run_id, 1, other))
    equal(subject.store.get(first.run_id), first, "the run after a swap with another's record")
    done = replace(first, version=2, status=RunStatus.COMPLETED, lease=None)
    subject.store.compare_and_set(first.run_id, 1, done)
    reopened = replace(done, version=3, status=RunStatus.QUEUED)
    unchanged(lambda: subject.store.compare_and_set(first.run_id, 2, reopened))
    equal(subject.store.get(first.run_id), done, "the finished run after a swap")


def a_corrupt_record_is_never_taken_for_none(subject: Subject) -> None:
    """It is reported, and nothing is written over it."""
    record = make_record()
    subject.store.create(record)
    subject.corrupt(record.run_id)
    refused(RunIntegrityError, lambda: subject.store.get(record.run_id))
    unchanged(lambda: subject.store.create(record))
    unchanged(lambda: subject.store.compare_and_set(record.run_id, 1, replace(record, version=2)))
    refused(RunIntegrityError, lambda: Workers(subject)["a"].acquire(record.run_id))
    refused(RunIntegrityError, lambda: subject.store.get(record.run_id))


STORAGE_CASES: Final[tuple[tuple[Body, Need | None], ...]] = (
    (a_store_declares_its_atomicity, None),
    (an_absent_run_reads_as_none, None),
    (a_created_record_reads_back_with_the_same_bytes, None),
    (a_swapped_record_reads_back_with_the_same_bytes, None),
    (a_second_create_changes_nothing, None),
    (of_creates_that_race_one_wins, None),
    (a_swap_needs_the_stored_version, None),
    (a_swap_of_an_absent_run_makes_none, None),
    (of_swaps_that_race_at_one_version_one_wins, None),
    (no_swap_that_was_answered_is_lost, None),
    (a_record_that_was_read_does_not_change, None),
    (ids_are_compared_code_point_by_code_point, None),
    (a_deleted_run_reads_as_none, Need.DELETE),
    (a_raw_write_cannot_break_what_is_always_true, Need.GUARDS),
    (a_corrupt_record_is_never_taken_for_none, Need.CORRUPTION),
)
