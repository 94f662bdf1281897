"""The conformance suite's rules of ownership, asked through a ledger on a clock moved by hand.

They hold for any store that keeps the rules of storage: here they show that it does so for what a
ledger asks of it. A function's name is the rule, as in `conformance_storage`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from runlease_core.conformance_subject import (
    RACERS,
    START,
    TTL_MS,
    Body,
    Need,
    Subject,
    Workers,
    attempt,
    equal,
    make_record,
    new_run_id,
    race,
    refused,
    swapped,
    unchanged,
)
from runlease_core.errors import (
    RunAlreadyTerminalError,
    RunLeaseHeldError,
    RunLeaseLostError,
    RunStoreError,
    RunSuspendedError,
)
from runlease_core.handle import RunLeaseHandle
from runlease_core.record import CheckpointRef, RunRecord


def a_live_lease_keeps_others_out(subject: Subject) -> None:
    """Up to its last millisecond."""
    run_id, workers = new_run_id(), Workers(subject)
    held = workers["a"].acquire(run_id)
    workers.clock.advance(TTL_MS - 1)
    refused(RunLeaseHeldError, lambda: workers["b"].acquire(run_id))
    equal(subject.store.get(run_id), held.record, "the run after a refused acquire")


def an_expired_lease_is_taken_over_by_a_new_token_and_attempt(subject: Subject) -> None:
    """Equal to now is expired."""
    run_id, workers = new_run_id(), Workers(subject)
    workers["a"].acquire(run_id)
    workers.clock.advance(TTL_MS)
    taken = workers["b"].acquire(run_id)
    equal((taken.fencing_token, taken.attempt), (2, 2), "token and attempt after a takeover")
    equal(subject.store.get(run_id), taken.record, "the run after a takeover")


def a_stale_writer_changes_nothing(subject: Subject) -> None:
    """None of the fenced commands gets through under an old token."""
    run_id, workers = new_run_id(), Workers(subject)
    stale = workers["a"].acquire(run_id)
    workers.clock.advance(TTL_MS)
    taken = workers["b"].acquire(run_id)
    commands: tuple[Callable[[RunLeaseHandle], RunRecord], ...] = (
        lambda handle: handle.renew(),
        lambda handle: handle.record_checkpoint(CheckpointRef("stale", 1, START)),
        lambda handle: handle.complete(),
        lambda handle: handle.fail(),
        lambda handle: handle.suspend(),
        lambda handle: handle.release(),
    )
    for owner in ("a", "b"):
        for command in commands:
            handle = workers[owner].adopt(run_id, stale.fencing_token)
            refused(RunLeaseLostError, partial(command, handle))
    equal(subject.store.get(run_id), taken.record, "the run after stale writes")


def an_expired_lease_that_nobody_took_may_be_renewed(subject: Subject) -> None:
    """The token decides, not the clock."""
    run_id, workers = new_run_id(), Workers(subject)
    held = workers["a"].acquire(run_id)
    workers.clock.advance(10 * TTL_MS)
    renewed = held.renew()
    equal((renewed.fencing_token, renewed.attempt), (1, 1), "token and attempt after a renewal")
    refused(RunLeaseHeldError, lambda: workers["b"].acquire(run_id))


def of_acquires_that_race_one_is_granted(subject: Subject) -> None:
    """On a new run and on an expired lease alike."""
    run_id, workers = new_run_id(), Workers(subject)
    for token in (1, 2):
        ledgers = [workers[f"worker-{token}-{racer}"] for racer in range(RACERS)]
        answers = race([partial(attempt, partial(ledger.acquire, run_id)) for ledger in ledgers])
        granted = [answer for answer in answers if not isinstance(answer, RunStoreError)]
        refused = [answer for answer in answers if isinstance(answer, RunLeaseHeldError)]
        equal((len(granted), len(refused)), (1, RACERS - 1), "grants and refusals of a race")
        record = subject.store.get(run_id)
        equal((record.fencing_token, record.attempt), (token, token), "token and attempt")
        equal(record.lease.owner, granted[0].owner, "the owner that the record names")
        workers.clock.advance(TTL_MS)


def a_suspended_run_waits_for_its_resume(subject: Subject) -> None:
    """Resume converges, and a resumed run comes back in the same attempt."""
    run_id, workers = new_run_id(), Workers(subject)
    workers["a"].acquire(run_id).suspend(["approval-1"])
    refused(RunSuspendedError, lambda: workers["b"].acquire(run_id))
    resumed = race([lambda: workers["operator"].request_resume(run_id)] * RACERS)
    equal({record.version for record in resumed}, {3}, "the version that all resumes answer")
    again = workers["b"].acquire(run_id)
    equal((again.fencing_token, again.attempt), (2, 1), "token and attempt after a resume")
    refused(RunLeaseHeldError, lambda: workers["operator"].request_resume(run_id))


def a_finished_run_stays_as_it_is(subject: Subject) -> None:
    """No late command reopens or changes it."""
    finishes: tuple[Callable[[RunLeaseHandle], RunRecord], ...] = (
        lambda handle: handle.complete(),
        lambda handle: handle.fail(),
        lambda handle: handle.cancel(),
    )
    for finish in finishes:
        run_id, workers = new_run_id(), Workers(subject)
        handle = workers["a"].acquire(run_id)
        ended = finish(handle)
        other = workers["b"]
        for command in (other.acquire, other.enqueue, other.request_resume, other.revoke):
            refused(RunAlreadyTerminalError, partial(command, run_id))
        late = workers["a"].adopt(run_id, handle.fencing_token)
        refused(RunLeaseLostError, late.release)
        equal(subject.store.get(run_id), ended, "the finished run")


def a_cancel_fences_the_worker(subject: Subject) -> None:
    """The operator's message stands, and the worker's completion does not."""
    run_id, workers = new_run_id(), Workers(subject)
    handle = workers["a"].acquire(run_id)
    cancelled = workers["operator"].cancel(run_id, "superseded")
    refused(RunLeaseLostError, handle.complete)
    equal(cancelled.fencing_token, 2, "the token after a cancel")
    equal(subject.store.get(run_id), cancelled, "the cancelled run")


def a_token_never_comes_back_after_a_delete(subject: Subject) -> None:
    """A run made again starts above the last token, whoever makes it."""
    run_id, workers = new_run_id(), Workers(subject)
    old = workers["a"].acquire(run_id)
    refused(RunLeaseHeldError, lambda: workers["operator"].delete(run_id))
    equal(subject.store.get(run_id), old.record, "the run after a refused delete")
    workers["operator"].delete(run_id, force=True)
    unchanged(lambda: subject.store.create(make_record(run_id, fencing_token=1)))
    equal(subject.store.get(run_id), None, "the run after a create at its old token")
    if hasattr(subject.store, "tombstone"):
        equal(workers["b"].acquire(run_id).fencing_token, 2, "the token of the run made again")
    else:
        again = make_record(run_id, fencing_token=2)
        swapped(subject.store.create(again), "create above the old token")
    refused(RunLeaseLostError, old.renew)


LEASE_CASES: Final[tuple[tuple[Body, Need | None], ...]] = (
    (a_live_lease_keeps_others_out, None),
    (an_expired_lease_is_taken_over_by_a_new_token_and_attempt, None),
    (a_stale_writer_changes_nothing, None),
    (an_expired_lease_that_nobody_took_may_be_renewed, None),
    (of_acquires_that_race_one_is_granted, None),
    (a_suspended_run_waits_for_its_resume, None),
    (a_finished_run_stays_as_it_is, None),
    (a_cancel_fences_the_worker, None),
    (a_token_never_comes_back_after_a_delete, Need.DELETE),
)
