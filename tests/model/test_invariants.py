"""The checker is itself checked: it takes every right history and rejects each wrong one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from runlease_core.commands import (
    Acquire,
    AnyCommand,
    Cancel,
    CompareAndSet,
    Create,
    Delete,
    Enqueue,
    FenceCheckpoint,
    Renew,
    Resume,
    Revoke,
    Transition,
)
from runlease_core.decide import Write, decide
from runlease_core.errors import Code
from runlease_core.lifecycle import RunStatus
from runlease_core.record import Lease, RunRecord, Tombstone
from tests.core.examples import (
    BORN,
    CANCELLED,
    COMPLETED,
    EXPIRED,
    EXPIRED_OF_B,
    FENCED,
    FRESH,
    LIVE,
    LIVE_OF_B,
    MS,
    NEXT_CHECKPOINT,
    NOW,
    QUEUED,
    RUN,
    SUSPENDED,
    TOKEN,
    TOMBSTONE,
    run,
    swap,
)
from tests.model.invariants import BrokenInvariant, History, State, check_step

ACQUIRE = Acquire(run_id=RUN, owner="a")
RENEW = Renew(**FENCED)
COMPLETE = Transition(**FENCED, to=RunStatus.COMPLETED)
FENCE = FenceCheckpoint(**FENCED, checkpoint_ref=NEXT_CHECKPOINT)


def right(before: State, command: AnyCommand) -> RunRecord:
    """What the rules write."""
    decision = decide(before, command, NOW)
    assert isinstance(decision, Write)
    assert isinstance(decision.next, RunRecord)
    return decision.next


@dataclass(frozen=True)
class Wrong:
    """One wrong step: what there was, what was asked, and what should never be there after."""

    before: State
    command: AnyCommand
    after: State
    refused: Code | None = None


def turned(before: State, command: AnyCommand, **changes: Any) -> Wrong:  # noqa: ANN401
    """The right step with something turned wrong."""
    return Wrong(before, command, replace(right(before, command), **changes))


LEASE = Lease("a", NOW, NOW + timedelta(milliseconds=60_000))
USED_UP = run(owner="b", expires_at=NOW, attempt=3)

WRONG_STEPS = {
    "version stays": turned(LIVE, RENEW, version=5),
    "version jumps": turned(LIVE, RENEW, version=7),
    "updatedAt stays": turned(LIVE, RENEW, updated_at=LIVE.updated_at),
    "createdAt moves": turned(LIVE, RENEW, created_at=NOW),
    "another run": turned(LIVE, RENEW, run_id="run-2"),
    "token stays on a grant": turned(QUEUED, ACQUIRE, fencing_token=TOKEN),
    "token stays on a regrant": turned(LIVE, ACQUIRE, fencing_token=TOKEN),
    "token jumps on a grant": turned(QUEUED, ACQUIRE, fencing_token=TOKEN + 2),
    "token stays on cancel": turned(LIVE, Cancel(run_id=RUN), fencing_token=TOKEN),
    "token stays on revoke": turned(LIVE, Revoke(run_id=RUN), fencing_token=TOKEN),
    "token falls": turned(LIVE, RENEW, fencing_token=TOKEN - 1),
    "token rises on a renewal": turned(LIVE, RENEW, fencing_token=TOKEN + 1),
    "token rises on a release": turned(LIVE, COMPLETE, fencing_token=TOKEN + 1),
    "attempt falls": turned(EXPIRED, ACQUIRE, attempt=1),
    "attempt stays on a takeover": turned(EXPIRED_OF_B, ACQUIRE, attempt=2),
    "attempt rises after a release": turned(QUEUED, ACQUIRE, attempt=3),
    "attempt rises on a renewal": turned(LIVE, RENEW, attempt=3),
    "labels change": turned(LIVE, RENEW, labels={}),
    "maxAttempts changes": turned(LIVE, RENEW, max_attempts=None),
    "checkpoint lost": turned(LIVE, RENEW, checkpoint_ref=None),
    "checkpoint not taken": turned(LIVE, FENCE, checkpoint_ref=LIVE.checkpoint_ref),
    "lease stays on a resume": Wrong(
        EXPIRED, Resume(run_id=RUN), replace(EXPIRED, version=6, updated_at=NOW)
    ),
    "lease not renewed": turned(LIVE, RENEW, lease=LIVE.lease),
    "lease of another": turned(LIVE, RENEW, lease=replace(LEASE, owner="b")),
    "lease too long": turned(QUEUED, ACQUIRE, lease=replace(LEASE, expires_at=NOW + 60_001 * MS)),
    "two live leases": Wrong(
        LIVE_OF_B, ACQUIRE, replace(LIVE, version=6, updated_at=NOW, fencing_token=4, lease=LEASE)
    ),
    "suspended run granted": Wrong(
        SUSPENDED,
        ACQUIRE,
        replace(
            SUSPENDED,
            version=6,
            updated_at=NOW,
            fencing_token=4,
            status=RunStatus.RUNNING,
            suspension=None,
            lease=LEASE,
        ),
    ),
    "fenced write by another": Wrong(LIVE_OF_B, RENEW, right(LIVE, RENEW)),
    "fenced write with an old token": Wrong(
        replace(LIVE, fencing_token=4), RENEW, replace(right(LIVE, RENEW), fencing_token=4)
    ),
    "fenced answer to nobody's run": Wrong(LIVE_OF_B, COMPLETE, LIVE_OF_B),
    "renewal without a write": Wrong(LIVE, RENEW, LIVE),
    "swap without a write": Wrong(LIVE, swap(LIVE), LIVE),
    "cancel without a write": Wrong(LIVE, Cancel(run_id=RUN), LIVE),
    "resume without a write": Wrong(SUSPENDED, Resume(run_id=RUN), SUSPENDED),
    "acquire without a grant": Wrong(QUEUED, ACQUIRE, QUEUED),
    "acquire without a key finds a grant": Wrong(LIVE, ACQUIRE, LIVE),
    "takeover past maxAttempts": Wrong(
        USED_UP,
        ACQUIRE,
        replace(right(replace(USED_UP, max_attempts=9), ACQUIRE), max_attempts=3),
    ),
    "suspension lost on cancel": turned(SUSPENDED, Cancel(run_id=RUN), suspension=None),
    "outcome not the command's": turned(LIVE, COMPLETE, outcome=COMPLETED.outcome),
    "resume of another suspension": Wrong(
        SUSPENDED,
        Resume(run_id=RUN, pending_approval_ids=("a1",)),
        right(SUSPENDED, Resume(run_id=RUN)),
    ),
    "wrong status": turned(LIVE, COMPLETE, status=RunStatus.FAILED),
    "terminal run reopened": Wrong(
        COMPLETED,
        swap(COMPLETED, status=RunStatus.QUEUED, outcome=None),
        swap(COMPLETED, status=RunStatus.QUEUED, outcome=None).record,
    ),
    "terminal run rewritten": Wrong(COMPLETED, swap(COMPLETED), swap(COMPLETED).record),
    "completed run cancelled": Wrong(
        COMPLETED,
        Cancel(run_id=RUN),
        replace(CANCELLED, version=6, updated_at=NOW, fencing_token=4),
    ),
    "enqueue accepted on a finished run": Wrong(COMPLETED, Enqueue(run_id=RUN), COMPLETED),
    "illegal edge": Wrong(
        QUEUED,
        swap(QUEUED, status=RunStatus.COMPLETED),
        swap(QUEUED, status=RunStatus.COMPLETED).record,
    ),
    "raw grant at the same token": Wrong(
        EXPIRED_OF_B, swap(EXPIRED_OF_B, lease=LEASE), swap(EXPIRED_OF_B, lease=LEASE).record
    ),
    "raw token falls": Wrong(LIVE, swap(LIVE, fencing_token=2), swap(LIVE, fencing_token=2).record),
    "raw attempt falls": Wrong(LIVE, swap(LIVE, attempt=1), swap(LIVE, attempt=1).record),
    "raw createdAt moves": Wrong(
        LIVE, swap(LIVE, created_at=NOW), swap(LIVE, created_at=NOW).record
    ),
    "raw write changed on the way": Wrong(
        LIVE, swap(LIVE), replace(swap(LIVE).record, updated_at=BORN)
    ),
    "create over a run": Wrong(
        QUEUED,
        Create(run_id=RUN, record=replace(FRESH, version=6)),
        replace(FRESH, version=6, created_at=BORN),
    ),
    "create at the tombstone's token": Wrong(
        TOMBSTONE,
        Create(run_id=RUN, record=replace(FRESH, fencing_token=7)),
        replace(FRESH, fencing_token=7),
    ),
    "acquire below the tombstone": turned(TOMBSTONE, ACQUIRE, fencing_token=1),
    "enqueue below the tombstone": turned(TOMBSTONE, Enqueue(run_id=RUN), fencing_token=0),
    "new run at version 2": turned(None, ACQUIRE, version=2),
    "new run at attempt 2": turned(None, ACQUIRE, attempt=2),
    "new run at token 2": turned(None, ACQUIRE, fencing_token=2),
    "new run with an old birth": turned(None, ACQUIRE, created_at=BORN),
    "new run without its labels": turned(
        None, Acquire(run_id=RUN, owner="a", labels={"k": "v"}), labels={}
    ),
    "run made by a renewal": Wrong(None, RENEW, right(None, ACQUIRE)),
    "run made by a swap": Wrong(None, swap(QUEUED), swap(QUEUED).record),
    "cancel of nothing": Wrong(None, Cancel(run_id=RUN), None),
    "tombstone lost": Wrong(TOMBSTONE, Delete(run_id=RUN), None),
    "tombstone with another token": Wrong(QUEUED, Delete(run_id=RUN), Tombstone(RUN, TOKEN - 1)),
    "live run deleted": Wrong(LIVE, Delete(run_id=RUN), Tombstone(RUN, TOKEN)),
    "run gone after a cancel": Wrong(QUEUED, Cancel(run_id=RUN), None),
    "expected version passed over": Wrong(
        LIVE, replace(RENEW, expected_version=4), right(LIVE, RENEW)
    ),
    "expected version of nothing": Wrong(
        None, replace(ACQUIRE, expected_version=1), right(None, ACQUIRE)
    ),
    "refused and written": Wrong(LIVE, RENEW, right(LIVE, RENEW), Code.RUN_LEASE_LOST),
    "refused another owner and written": Wrong(
        LIVE_OF_B, RENEW, right(LIVE, RENEW), Code.RUN_LEASE_LOST
    ),
    "exhausted with attempts left": Wrong(
        replace(USED_UP, attempt=2),
        ACQUIRE,
        replace(run(RunStatus.FAILED, version=6, attempt=2, fencing_token=4), updated_at=NOW),
        Code.RUN_ALREADY_TERMINAL,
    ),
    "exhausted without an outcome": Wrong(
        USED_UP,
        ACQUIRE,
        replace(run(RunStatus.FAILED, version=6, attempt=3, fencing_token=4), updated_at=NOW),
        Code.RUN_ALREADY_TERMINAL,
    ),
    "the holder is told that it lost": Wrong(LIVE, RENEW, LIVE, Code.RUN_LEASE_LOST),
    "held, they say, of an expired lease": Wrong(
        EXPIRED_OF_B, ACQUIRE, EXPIRED_OF_B, Code.RUN_LEASE_HELD
    ),
    "held, they say, by oneself": Wrong(LIVE, ACQUIRE, LIVE, Code.RUN_LEASE_HELD),
    "held, they say, to force": Wrong(
        LIVE, Delete(run_id=RUN, force=True), LIVE, Code.RUN_LEASE_HELD
    ),
    "terminal, they say, of a queued run": Wrong(
        QUEUED, ACQUIRE, QUEUED, Code.RUN_ALREADY_TERMINAL
    ),
    "suspended, they say, of a queued run": Wrong(QUEUED, ACQUIRE, QUEUED, Code.RUN_SUSPENDED),
    "not found, they say, of a run": Wrong(QUEUED, Cancel(run_id=RUN), QUEUED, Code.RUN_NOT_FOUND),
    "conflict without an expectation": Wrong(QUEUED, ACQUIRE, QUEUED, Code.RUN_CONFLICT),
    "conflict at the right version": Wrong(
        QUEUED, replace(ACQUIRE, expected_version=5), QUEUED, Code.RUN_CONFLICT
    ),
    "a code no rule gives": Wrong(QUEUED, ACQUIRE, QUEUED, Code.RUN_INTEGRITY_ERROR),
}


@pytest.mark.parametrize("wrong", WRONG_STEPS.values(), ids=WRONG_STEPS.keys())
def test_a_wrong_step_is_rejected(wrong: Wrong) -> None:
    with pytest.raises(BrokenInvariant):
        check_step(wrong.before, wrong.command, wrong.after, NOW, wrong.refused)


def test_a_right_history_is_taken() -> None:
    history, state = History(), None
    now = NOW
    steps: list[tuple[AnyCommand, Code | None]] = [
        (Acquire(run_id=RUN, owner="a", lease_ttl_ms=100), None),
        (Acquire(run_id=RUN, owner="b"), Code.RUN_LEASE_HELD),
        (Delete(run_id=RUN, force=True), None),
        (Enqueue(run_id=RUN), None),
        (Acquire(run_id=RUN, owner="b"), None),
        (Renew(run_id=RUN, owner="a", fencing_token=1), Code.RUN_LEASE_LOST),
        (Renew(run_id=RUN, owner="b", fencing_token=3), None),
    ]
    current: State = state
    for command, refused in steps:
        now += MS
        decision = decide(current, command, now)
        after = decision.next if isinstance(decision, Write) else current
        history.step(current, command, after, now, refused)
        current = after

    assert history.token == 3
    assert history.granted == {1, 3}


def test_a_history_without_tombstones_still_remembers_the_token() -> None:
    history = History()
    first = right(None, ACQUIRE)
    history.step(None, ACQUIRE, first, NOW)
    history.step(first, Delete(run_id=RUN, force=True), None, NOW)

    with pytest.raises(BrokenInvariant, match="above its token"):
        history.step(None, ACQUIRE, first, NOW)


def test_a_history_may_not_change_between_its_steps() -> None:
    history = History()
    first = right(None, ACQUIRE)
    history.step(None, ACQUIRE, first, NOW)

    with pytest.raises(BrokenInvariant, match="where the last one ended"):
        history.step(LIVE, RENEW, right(LIVE, RENEW), NOW)


def test_a_token_is_granted_once_even_through_a_raw_create() -> None:
    history = History()
    born: datetime = NOW
    leased = replace(FRESH, status=RunStatus.RUNNING, lease=LEASE, created_at=born)
    history.step(None, Create(run_id=RUN, record=leased), leased, NOW)
    history.step(leased, Delete(run_id=RUN, force=True), None, NOW)

    with pytest.raises(BrokenInvariant):
        history.step(None, Create(run_id=RUN, record=leased), leased, NOW)


def test_a_raw_swap_that_is_right_is_taken() -> None:
    command: CompareAndSet = swap(EXPIRED_OF_B, lease=LEASE, fencing_token=TOKEN + 1)

    check_step(EXPIRED_OF_B, command, command.record, NOW)
