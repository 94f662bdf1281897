"""The run that the core's tests tell of: `run-1`, at NOW, with workers `a` and `b`; and the
commands and answers that they tell it in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

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
from runlease_core.decide import Decision, Refused, State, Write
from runlease_core.errors import Code
from runlease_core.lifecycle import RunStatus
from runlease_core.record import (
    CheckpointRef,
    Lease,
    Outcome,
    RunRecord,
    Suspension,
    Tombstone,
)

RUN: Final = "run-1"
NOW: Final = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
BORN: Final = NOW - timedelta(hours=1)
BEFORE: Final = NOW - timedelta(minutes=1)
MS: Final = timedelta(milliseconds=1)
TOKEN: Final = 3
CHECKPOINT: Final = CheckpointRef("snapshots/1", 1, BEFORE)
NEXT_CHECKPOINT: Final = CheckpointRef("snapshots/2", 2, NOW)
LABELS: Final[Mapping[str, str]] = {"team": "blue"}


def run(
    status: RunStatus = RunStatus.RUNNING,
    *,
    owner: str | None = None,
    expires_at: datetime = NOW + MS,
    grant_key: str | None = None,
    outcome: Outcome | None = None,
    suspension: Suspension | None = None,
    max_attempts: int | None = 3,
    version: int = 5,
    attempt: int = 2,
    fencing_token: int = TOKEN,
) -> RunRecord:
    """A record with version 5, attempt 2 and token 3; with an owner it holds a lease."""
    return RunRecord(
        run_id=RUN,
        version=version,
        status=status,
        attempt=attempt,
        fencing_token=fencing_token,
        lease=Lease(owner, BEFORE, expires_at, grant_key) if owner else None,
        checkpoint_ref=CHECKPOINT,
        outcome=outcome,
        suspension=suspension,
        labels=LABELS,
        max_attempts=max_attempts,
        created_at=BORN,
        updated_at=BEFORE,
    )


QUEUED: Final = run(RunStatus.QUEUED)
LIVE: Final = run(owner="a")
LIVE_OF_B: Final = run(owner="b")
EXPIRED: Final = run(owner="a", expires_at=NOW)
EXPIRED_OF_B: Final = run(owner="b", expires_at=NOW)
UNLEASED: Final = run()
SUSPENDED: Final = run(RunStatus.SUSPENDED, suspension=Suspension(BEFORE, ("a1", "a2")))
COMPLETED: Final = run(RunStatus.COMPLETED, outcome=Outcome("ok"))
FAILED: Final = run(RunStatus.FAILED, outcome=Outcome("error", "it broke"))
CANCELLED: Final = run(RunStatus.CANCELLED, outcome=Outcome("cancelled"))
ENDED: Final = (COMPLETED, FAILED, CANCELLED)
TOMBSTONE: Final = Tombstone(RUN, 7)

FRESH: Final = RunRecord(
    run_id=RUN,
    version=1,
    status=RunStatus.QUEUED,
    attempt=1,
    fencing_token=9,
    created_at=NOW,
    updated_at=NOW,
)
"""What a raw create brings."""


STATES: dict[str, State] = {
    "absent": None,
    "tombstone": TOMBSTONE,
    "queued": QUEUED,
    "own-live": LIVE,
    "other-live": LIVE_OF_B,
    "own-expired": EXPIRED,
    "other-expired": EXPIRED_OF_B,
    "unleased": UNLEASED,
    "suspended": SUSPENDED,
    "completed": COMPLETED,
    "failed": FAILED,
    "cancelled": CANCELLED,
}
OUTCOME = Outcome("done", "all of it")
TO = {f"to {status}": status for status in RunStatus if status is not RunStatus.RUNNING}
FENCED: dict[str, Any] = {"run_id": RUN, "owner": "a", "fencing_token": TOKEN}


def swap(stored: RunRecord, **changes: Any) -> CompareAndSet:  # noqa: ANN401 (any field of it)
    """Swap the stored record for a changed one, at its version."""
    new = replace(stored, version=stored.version + 1, **changes)
    return CompareAndSet(run_id=RUN, expected_version=stored.version, record=new)


def transition(to: RunStatus, *, owner: str = "a", token: int = TOKEN) -> Transition:
    ends = to in (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED)
    return Transition(
        run_id=RUN,
        owner=owner,
        fencing_token=token,
        to=to,
        outcome=OUTCOME if ends else None,
        pending_approval_ids=("a1",) if to is RunStatus.SUSPENDED else (),
    )


def command_named(name: str, state: State) -> AnyCommand:
    if name in TO:
        return transition(TO[name])
    stored = state if isinstance(state, RunRecord) else QUEUED
    named: dict[str, AnyCommand] = {
        "acquire": Acquire(run_id=RUN, owner="a", lease_ttl_ms=1_000),
        "enqueue": Enqueue(run_id=RUN),
        "renew": Renew(**FENCED, lease_ttl_ms=1_000),
        "fence-checkpoint": FenceCheckpoint(
            **FENCED, lease_ttl_ms=1_000, checkpoint_ref=NEXT_CHECKPOINT
        ),
        "cancel": Cancel(run_id=RUN, message="superseded"),
        "resume": Resume(run_id=RUN),
        "revoke": Revoke(run_id=RUN),
        "create": Create(run_id=RUN, record=FRESH),
        "compareAndSet": swap(stored, checkpoint_ref=NEXT_CHECKPOINT),
        "delete": Delete(run_id=RUN),
        "delete forced": Delete(run_id=RUN, force=True),
    }
    return named[name]


def written(decision: Decision) -> RunRecord:
    """The record that a decision writes and answers with."""
    assert isinstance(decision, Write), decision
    assert decision.refusal is None, decision
    assert isinstance(decision.next, RunRecord), decision
    return decision.next


def refusal(decision: Decision) -> Code:
    """The code of a decision that writes nothing."""
    assert isinstance(decision, Refused), decision
    return decision.code


def lease(owner: str, ttl_ms: int) -> Lease:
    return Lease(owner, NOW, NOW + timedelta(milliseconds=ttl_ms))
