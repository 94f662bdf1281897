"""decide: who gets a run, keeps it, loses it, and what a deleted run leaves."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from runlease_core.commands import (
    Acquire,
    AnyCommand,
    Cancel,
    Create,
    Delete,
    Enqueue,
    FenceCheckpoint,
    Renew,
    Resume,
    Revoke,
    Transition,
)
from runlease_core.decide import Converged, Refused, Write, decide
from runlease_core.errors import Code
from runlease_core.lifecycle import RunStatus
from runlease_core.record import Outcome, RunRecord
from tests.core.examples import (
    BEFORE,
    CANCELLED,
    COMPLETED,
    EXPIRED,
    EXPIRED_OF_B,
    FAILED,
    FENCED,
    FRESH,
    LABELS,
    LIVE,
    LIVE_OF_B,
    MS,
    NEXT_CHECKPOINT,
    NOW,
    QUEUED,
    RUN,
    SUSPENDED,
    TO,
    TOKEN,
    TOMBSTONE,
    lease,
    refusal,
    run,
    transition,
    written,
)

# Acquire


def test_a_new_run_takes_labels_and_max_attempts_from_the_acquire() -> None:
    command = Acquire(run_id=RUN, owner="a", labels=LABELS, max_attempts=4)

    new = written(decide(None, command, NOW))

    assert (dict(new.labels), new.max_attempts) == (LABELS, 4)
    assert new.lease == lease("a", 60_000)


def test_labels_and_max_attempts_of_a_run_that_exists_stay() -> None:
    acquire = Acquire(run_id=RUN, owner="a", labels={"team": "red"}, max_attempts=9)
    enqueue = Enqueue(run_id=RUN, labels={"team": "red"}, max_attempts=9)

    assert written(decide(QUEUED, acquire, NOW)).labels == LABELS
    assert written(decide(QUEUED, acquire, NOW)).max_attempts == QUEUED.max_attempts
    assert decide(QUEUED, enqueue, NOW) == Converged(QUEUED)


def test_terminal_and_suspended_come_before_held_and_exhausted() -> None:
    acquire = Acquire(run_id=RUN, owner="a")
    used_up = run(owner="b", attempt=3)

    assert refusal(decide(replace(SUSPENDED, attempt=3), acquire, NOW)) is Code.RUN_SUSPENDED
    assert refusal(decide(replace(FAILED, attempt=3), acquire, NOW)) is Code.RUN_ALREADY_TERMINAL
    assert refusal(decide(used_up, acquire, NOW)) is Code.RUN_LEASE_HELD


def test_a_refusal_of_a_held_run_says_who_holds_it_until_when() -> None:
    decision = decide(LIVE_OF_B, Acquire(run_id=RUN, owner="a"), NOW)

    assert isinstance(decision, Refused)
    assert "held by b until 2026-01-02T03:04:05.679Z" in decision.detail


RETRY = Acquire(run_id=RUN, owner="a", lease_ttl_ms=1_000, idempotency_key="k")


def test_a_retried_acquire_finds_its_own_grant() -> None:
    granted = written(decide(QUEUED, RETRY, BEFORE))

    assert decide(granted, RETRY, BEFORE) == Converged(granted)
    assert decide(granted, replace(RETRY, lease_ttl_ms=5_000), BEFORE) == Converged(granted)


def test_a_retried_acquire_finds_its_grant_after_a_renewal_and_a_checkpoint() -> None:
    granted = written(decide(None, RETRY, BEFORE))
    fenced: dict[str, Any] = {"run_id": RUN, "owner": "a", "fencing_token": granted.fencing_token}
    renewed = written(decide(granted, Renew(**fenced), NOW))
    fence = FenceCheckpoint(**fenced, checkpoint_ref=NEXT_CHECKPOINT)
    checkpointed = written(decide(renewed, fence, NOW))

    assert decide(renewed, RETRY, NOW) == Converged(renewed)
    assert decide(checkpointed, RETRY, NOW) == Converged(checkpointed)


@pytest.mark.parametrize("expected", [1, 4, 77])
def test_a_retried_acquire_with_the_version_it_saw_at_first_finds_its_grant(expected: int) -> None:
    record = run(owner="a", grant_key="k")

    assert decide(record, replace(RETRY, expected_version=expected), NOW) == Converged(record)


def test_a_stale_version_with_another_key_is_a_conflict() -> None:
    record = run(owner="a", grant_key="other")

    assert refusal(decide(record, replace(RETRY, expected_version=1), NOW)) is Code.RUN_CONFLICT


def test_the_same_key_of_another_owner_means_nothing() -> None:
    record = run(owner="b", grant_key="k")

    assert refusal(decide(record, RETRY, NOW)) is Code.RUN_LEASE_HELD
    assert refusal(decide(record, replace(RETRY, expected_version=1), NOW)) is Code.RUN_CONFLICT


@pytest.mark.parametrize("key", [None, "other"])
def test_without_the_key_of_the_grant_an_acquire_is_a_new_grant(key: str | None) -> None:
    record = run(owner="a", grant_key="k")

    new = written(decide(record, replace(RETRY, idempotency_key=key), NOW))

    assert (new.fencing_token, new.attempt) == (TOKEN + 1, record.attempt)
    assert new.lease is not None
    assert new.lease.grant_key == key


def test_no_key_on_either_side_is_not_the_same_key() -> None:
    new = written(decide(run(owner="a"), Acquire(run_id=RUN, owner="a"), NOW))

    assert new.fencing_token == TOKEN + 1


def test_a_retried_acquire_whose_grant_ran_out_is_a_takeover() -> None:
    record = run(owner="a", expires_at=NOW, grant_key="k")

    new = written(decide(record, RETRY, NOW))

    assert (new.fencing_token, new.attempt) == (TOKEN + 1, record.attempt + 1)
    stale = replace(RETRY, expected_version=1)
    assert refusal(decide(record, stale, NOW)) is Code.RUN_CONFLICT


@pytest.mark.parametrize("giving_up", [transition(RunStatus.QUEUED), Revoke(run_id=RUN)])
def test_a_key_stands_for_one_grant_and_goes_with_it(giving_up: AnyCommand) -> None:
    released = written(decide(run(owner="a", grant_key="k"), giving_up, NOW))

    again = written(decide(released, RETRY, NOW))

    assert again.fencing_token == released.fencing_token + 1


# Attempts


def test_takeovers_use_attempts_up_to_the_bound_and_the_next_one_fails_the_run() -> None:
    record = written(decide(None, Acquire(run_id=RUN, owner="a", max_attempts=3), NOW))
    now = NOW
    for attempt in (2, 3):
        now += timedelta(milliseconds=60_000)
        record = written(decide(record, Acquire(run_id=RUN, owner="b"), now))
        assert record.attempt == attempt

    now += timedelta(milliseconds=60_000)
    decision = decide(record, Acquire(run_id=RUN, owner="c"), now)

    ended = replace(
        record,
        version=record.version + 1,
        updated_at=now,
        status=RunStatus.FAILED,
        fencing_token=record.fencing_token + 1,
        lease=None,
        outcome=Outcome("attempts_exhausted", "no worker finished it in 3 attempts"),
    )
    assert isinstance(decision, Write)
    assert decision.next == ended
    assert decision.refusal is not None
    assert decision.refusal.code is Code.RUN_ALREADY_TERMINAL
    assert decision.refusal.record == ended
    later = decide(ended, Acquire(run_id=RUN, owner="c"), now)
    assert refusal(later) is Code.RUN_ALREADY_TERMINAL
    late = Renew(run_id=RUN, owner="b", fencing_token=record.fencing_token)
    assert refusal(decide(ended, late, now)) is Code.RUN_LEASE_LOST


def test_the_owner_of_the_expired_lease_uses_an_attempt_as_well() -> None:
    decision = decide(replace(EXPIRED, attempt=3), Acquire(run_id=RUN, owner="a"), NOW)

    assert isinstance(decision, Write)
    assert decision.refusal is not None


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(replace(QUEUED, attempt=3), id="released or resumed"),
        pytest.param(replace(LIVE, attempt=3), id="the live holder itself"),
        pytest.param(replace(EXPIRED, attempt=2), id="one attempt left"),
        pytest.param(run(owner="a", expires_at=NOW, max_attempts=None), id="no bound"),
    ],
)
def test_what_is_no_takeover_past_the_bound_is_granted(record: RunRecord) -> None:
    new = written(decide(record, Acquire(run_id=RUN, owner="a"), NOW))

    assert new.status is RunStatus.RUNNING


@pytest.mark.parametrize(
    ("record", "command"),
    [
        (LIVE, transition(RunStatus.QUEUED)),
        (SUSPENDED, Resume(run_id=RUN)),
        (EXPIRED_OF_B, Resume(run_id=RUN)),
        (LIVE_OF_B, Revoke(run_id=RUN)),
    ],
)
def test_a_released_resumed_or_revoked_run_comes_back_with_its_attempt(
    record: RunRecord, command: AnyCommand
) -> None:
    queued = written(decide(record, command, NOW))

    new = written(decide(queued, Acquire(run_id=RUN, owner="c"), NOW))

    assert new.attempt == queued.attempt == record.attempt


# Fenced commands


def test_a_renewal_keeps_what_it_does_not_name() -> None:
    new = written(decide(run(owner="a", grant_key="k"), Renew(**FENCED, lease_ttl_ms=100), NOW))

    assert new == replace(LIVE, version=6, updated_at=NOW, lease=lease("a", 100))
    assert new.lease is not None
    assert new.lease.grant_key == "k"


def test_a_renewal_may_shorten_the_lease() -> None:
    record = run(owner="a", expires_at=NOW + timedelta(hours=1))

    assert written(decide(record, Renew(**FENCED, lease_ttl_ms=100), NOW)).lease == lease("a", 100)


@pytest.mark.parametrize(
    ("record", "to"),
    [
        (QUEUED, RunStatus.QUEUED),
        (SUSPENDED, RunStatus.SUSPENDED),
        (COMPLETED, RunStatus.COMPLETED),
        (FAILED, RunStatus.FAILED),
        (CANCELLED, RunStatus.CANCELLED),
    ],
)
def test_a_repeated_transition_converges_only_at_the_same_token(
    record: RunRecord, to: RunStatus
) -> None:
    assert decide(record, transition(to), NOW) == Converged(record)
    for token in (TOKEN - 1, TOKEN + 1):
        assert refusal(decide(record, transition(to, token=token), NOW)) is Code.RUN_LEASE_LOST


def test_a_repeated_transition_changes_no_outcome() -> None:
    first = written(decide(LIVE, transition(RunStatus.COMPLETED), NOW))
    other = replace(transition(RunStatus.COMPLETED), outcome=Outcome("other"))

    assert decide(first, other, NOW + MS) == Converged(first)


@pytest.mark.parametrize("to", [RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED])
def test_an_end_without_an_outcome_records_none(to: RunStatus) -> None:
    assert written(decide(LIVE, Transition(**FENCED, to=to), NOW)).outcome is None


@pytest.mark.parametrize("command", [Cancel(run_id=RUN), Revoke(run_id=RUN)])
def test_after_a_cancel_or_revoke_the_worker_cannot_write(command: AnyCommand) -> None:
    after = written(decide(LIVE, command, NOW))

    commands: list[AnyCommand] = [Renew(**FENCED), *map(transition, TO.values())]
    for late in commands:
        assert refusal(decide(after, late, NOW)) is Code.RUN_LEASE_LOST


def test_after_a_resume_of_an_abandoned_run_the_worker_cannot_write() -> None:
    after = written(decide(EXPIRED, Resume(run_id=RUN), NOW))

    assert refusal(decide(after, Renew(**FENCED), NOW)) is Code.RUN_LEASE_LOST
    late = transition(RunStatus.COMPLETED)
    assert refusal(decide(after, late, NOW)) is Code.RUN_LEASE_LOST


# Operators


def test_a_cancelled_run_keeps_the_suspension_it_waited_in() -> None:
    cancelled = written(decide(SUSPENDED, Cancel(run_id=RUN), NOW))

    assert cancelled.suspension == SUSPENDED.suspension
    assert cancelled.outcome == Outcome("cancelled")


def test_a_repeated_cancel_keeps_the_first_message() -> None:
    first = written(decide(LIVE, Cancel(run_id=RUN, message="one"), NOW))

    assert decide(first, Cancel(run_id=RUN, message="two"), NOW + MS) == Converged(first)


@pytest.mark.parametrize(
    ("named", "answer"),
    [
        (None, None),
        (("a1", "a2"), None),
        (("a2", "a1"), None),
        (("a1",), Code.RUN_INVALID_TRANSITION),
        (("a1", "a2", "a3"), Code.RUN_INVALID_TRANSITION),
        (("b1", "b2"), Code.RUN_INVALID_TRANSITION),
        ((), Code.RUN_INVALID_TRANSITION),
    ],
)
def test_a_resume_that_names_approvals_answers_only_those(
    named: tuple[str, ...] | None, answer: Code | None
) -> None:
    decision = decide(SUSPENDED, Resume(run_id=RUN, pending_approval_ids=named), NOW)

    if answer is None:
        assert written(decision).suspension is None
    else:
        assert refusal(decision) is answer


def test_a_resume_that_names_approvals_does_not_hit_an_abandoned_run() -> None:
    resume = Resume(run_id=RUN, pending_approval_ids=("a1",))

    assert refusal(decide(EXPIRED, resume, NOW)) is Code.RUN_INVALID_TRANSITION
    assert refusal(decide(LIVE, resume, NOW)) is Code.RUN_LEASE_HELD
    assert decide(QUEUED, resume, NOW) == Converged(QUEUED)
    none_named = Resume(run_id=RUN, pending_approval_ids=())
    assert written(decide(EXPIRED, none_named, NOW)).status is RunStatus.QUEUED


# Tombstones


def test_a_deleted_run_comes_back_above_its_last_token() -> None:
    deleted = decide(EXPIRED, Delete(run_id=RUN), NOW)
    assert isinstance(deleted, Write)

    acquired = written(decide(deleted.next, Acquire(run_id=RUN, owner="a"), NOW))
    queued = written(decide(deleted.next, Enqueue(run_id=RUN), NOW))
    granted = written(decide(queued, Acquire(run_id=RUN, owner="a"), NOW))

    assert acquired.fencing_token == TOKEN + 1
    assert queued.fencing_token == TOKEN + 1
    assert granted.fencing_token == TOKEN + 2
    assert (acquired.created_at, acquired.attempt, dict(acquired.labels)) == (NOW, 1, {})
    late = Renew(**FENCED)
    for again in (acquired, queued, granted):
        assert refusal(decide(again, late, NOW)) is Code.RUN_LEASE_LOST


@pytest.mark.parametrize(("token", "allowed"), [(6, False), (7, False), (8, True)])
def test_a_raw_create_at_or_below_the_tombstone_is_refused(token: int, allowed: bool) -> None:
    record = replace(FRESH, fencing_token=token)

    decision = decide(TOMBSTONE, Create(run_id=RUN, record=record), NOW)

    if allowed:
        assert decision == Write(record, created=True)
    else:
        assert refusal(decision) is Code.RUN_VALIDATION_ERROR


def test_a_tombstone_survives_a_second_delete() -> None:
    assert decide(TOMBSTONE, Delete(run_id=RUN, force=True), NOW) == Converged(None)
