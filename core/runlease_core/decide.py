"""The rule book: who may do what to a run, now.

    decide(state, command, now) -> Write | Converged | Refused

A pure function: no clock, no I/O, no randomness. The service's executor, the in-process ledger,
the conformance suite and the model tests all call it, and nothing else decides. One function per
command: refusals first, in the order of the design's table (section 3), then the single write.

`state` is what the store holds under the run's id: the record, the tombstone of a deleted run, or
None. An expected version is judged before anything else, so that a late duplicate touches nothing;
only a retried acquire finds its own grant first, since that grant is what moved the version.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import assert_never

from runlease_core.commands import (
    Acquire,
    AnyCommand,
    Cancel,
    CompareAndSet,
    Create,
    Delete,
    Enqueue,
    FenceCheckpoint,
    Fenced,
    Renew,
    Resume,
    Revoke,
    Transition,
)
from runlease_core.decision import (
    Converged,
    Decision,
    Forbidden,
    Refused,
    State,
    Write,
    breaks,
    finished,
    held,
    is_foreign,
    lost,
    not_found,
)
from runlease_core.errors import Code
from runlease_core.fields import COUNTER_MAX
from runlease_core.lifecycle import TERMINAL, RunStatus, can_transition_run
from runlease_core.record import (
    Lease,
    Outcome,
    RunRecord,
    Suspension,
    Tombstone,
    is_run_lease_live,
)

__all__ = ["Converged", "Decision", "Forbidden", "Refused", "State", "Write", "decide"]


def decide(state: State, command: AnyCommand, now: datetime) -> Decision:
    """Judge one command against one run's state at one instant.

    Args:
        state: What the store holds under `command.run_id`.
        command: A well-formed command.
        now: An aware UTC instant in whole milliseconds, the same for all that is judged together.

    A fenced command under another credential's lease is `Forbidden`, whatever else is wrong.
    """
    record = state if isinstance(state, RunRecord) else None
    if record is not None and isinstance(command, Fenced) and is_foreign(record, command.subject):
        return Forbidden("the lease belongs to another credential")
    if refusal := _precondition(state, command, now):
        return refusal
    match command:  # the most frequent first
        case Renew():
            return _renew(record, command, now)
        case FenceCheckpoint():
            return _fence_checkpoint(record, command, now)
        case Acquire():
            return _acquire(state, command, now)
        case Enqueue():
            return _enqueue(state, command, now)
        case Transition():
            return _transition(record, command, now)
        case Cancel():
            return _cancel(record, command, now)
        case Resume():
            return _resume(record, command, now)
        case Revoke():
            return _revoke(record, now)
        case Create():
            return _create(state, command)
        case CompareAndSet():
            return _compare_and_set(record, command)
        case Delete():
            return _delete(record, command, now)
        case _:
            assert_never(command)


def _precondition(state: State, command: AnyCommand, now: datetime) -> Refused | None:
    """Design 3, "Every command takes an optional expected version"; section 2, counters."""
    record = state if isinstance(state, RunRecord) else None
    expected = command.expected_version
    if record is None:
        if expected is not None and isinstance(command, Acquire | Enqueue | Create | Delete):
            return Refused(Code.RUN_CONFLICT, "the run does not exist, so it has no version")
    elif isinstance(expected, int) and expected != record.version:
        if isinstance(command, Acquire) and _is_own_grant(record, command, now):
            return None
        return Refused(
            Code.RUN_CONFLICT,
            f"expected version {expected}, the run has version {record.version}; read it again",
            record,
        )
    if _counters_used_up(state) and not isinstance(command, Delete):
        return Refused(
            Code.RUN_INVALID_TRANSITION,
            f"a counter of this run stands at its end, {COUNTER_MAX}; use another run id",
            record,
        )
    return None


def _counters_used_up(state: State) -> bool:
    if isinstance(state, RunRecord):
        # A finished run is never written again, so it answers as ever.
        counters = (state.version, state.attempt, state.fencing_token)
        return COUNTER_MAX in counters and state.status not in TERMINAL
    return state is not None and state.fencing_token >= COUNTER_MAX


def _acquire(state: State, command: Acquire, now: datetime) -> Decision:
    """Design 3, acquire. Only a takeover, a lease still on the record that is not this owner's
    live one, uses up an attempt; a released or resumed run comes back with the attempt it had."""
    if not isinstance(state, RunRecord):
        return Write(
            RunRecord(
                run_id=command.run_id,
                version=1,
                status=RunStatus.RUNNING,
                attempt=1,
                fencing_token=_floor(state) + 1,
                lease=_lease(command, now),
                labels=command.labels,
                max_attempts=command.max_attempts,
                created_at=now,
                updated_at=now,
            ),
            created=True,
        )
    record, live = state, is_run_lease_live(state, now)
    if record.status in TERMINAL:
        return finished(record)
    if record.status is RunStatus.SUSPENDED:
        return Refused(
            Code.RUN_SUSPENDED, "the run waits for a decision; resume it, then acquire", record
        )
    if (
        live
        and record.lease is not None
        and (record.lease.owner != command.owner or is_foreign(record, command.subject))
    ):
        return held(record, record.lease)
    if _is_own_grant(record, command, now):
        return Converged(record)
    takeover = record.lease is not None and not live
    if takeover and record.max_attempts is not None and record.attempt >= record.max_attempts:
        ended = record.written(
            now,
            status=RunStatus.FAILED,
            fencing_token=record.fencing_token + 1,
            lease=None,
            outcome=Outcome(
                "attempts_exhausted", f"no worker finished it in {record.max_attempts} attempts"
            ),
        )
        return Write(ended, refusal=finished(ended))

    return Write(
        record.written(
            now,
            status=RunStatus.RUNNING,
            attempt=record.attempt + takeover,
            fencing_token=record.fencing_token + 1,
            lease=_lease(command, now),
        )
    )


def _enqueue(state: State, command: Enqueue, now: datetime) -> Decision:
    """Design 3, enqueue. A run made again stands above its tombstone from the start."""
    if isinstance(state, RunRecord):
        return finished(state) if state.status in TERMINAL else Converged(state)

    return Write(
        RunRecord(
            run_id=command.run_id,
            version=1,
            status=RunStatus.QUEUED,
            attempt=1,
            fencing_token=0 if state is None else _floor(state) + 1,
            labels=command.labels,
            max_attempts=command.max_attempts,
            created_at=now,
            updated_at=now,
        ),
        created=True,
    )


def _renew(record: RunRecord | None, command: Renew, now: datetime) -> Decision:
    """Design 3, renew. The token decides, not the clock: a lease that ran out and that nobody
    took may still be renewed."""
    if record is None or not record.held_by(command.owner, command.fencing_token):
        return lost(record, command)

    return Write(record.written(now, lease=_renewed(record, command.lease_ttl_ms, now)))


def _fence_checkpoint(
    record: RunRecord | None, command: FenceCheckpoint, now: datetime
) -> Decision:
    """Design 3, fence-checkpoint: the reference and a fresh lease in one write."""
    if record is None or not record.held_by(command.owner, command.fencing_token):
        return lost(record, command)

    return Write(
        record.written(
            now,
            checkpoint_ref=command.checkpoint_ref,
            lease=_renewed(record, command.lease_ttl_ms, now),
        )
    )


def _transition(record: RunRecord | None, command: Transition, now: datetime) -> Decision:
    """Design 3, transition. The same status at the same token is a repeated command."""
    if record is not None and (record.status, record.fencing_token) == (
        command.to,
        command.fencing_token,
    ):
        return Converged(record)
    if record is None or not record.held_by(command.owner, command.fencing_token):
        return lost(record, command)
    if not can_transition_run(record.status, command.to):
        return Refused(
            Code.RUN_INVALID_TRANSITION, f"a {record.status} run cannot become {command.to}", record
        )

    suspended = command.to is RunStatus.SUSPENDED
    return Write(
        record.written(
            now,
            status=command.to,
            lease=None,
            suspension=Suspension(now, command.pending_approval_ids) if suspended else None,
            outcome=command.outcome,
        )
    )


def _cancel(record: RunRecord | None, command: Cancel, now: datetime) -> Decision:
    """Design 3, cancel. The token rises, so a working owner is fenced at its next write."""
    if record is None:
        return not_found()
    if record.status is RunStatus.CANCELLED:
        return Converged(record)
    if record.status in TERMINAL:
        return finished(record)

    return Write(
        record.written(
            now,
            status=RunStatus.CANCELLED,
            fencing_token=record.fencing_token + 1,
            lease=None,
            outcome=Outcome("cancelled", command.message),
        )
    )


def _resume(record: RunRecord | None, command: Resume, now: datetime) -> Decision:
    """Design 3, resume. A decision names the approvals it answers, so that one made for an
    earlier suspension cannot end a later one."""
    if record is None:
        return not_found()
    if record.status is RunStatus.QUEUED:
        return Converged(record)
    if record.status in TERMINAL:
        return finished(record)
    if record.lease is not None and is_run_lease_live(record, now):
        return held(record, record.lease)
    pending = record.suspension.pending_approval_ids if record.suspension else ()
    if command.pending_approval_ids is not None and set(command.pending_approval_ids) != set(
        pending
    ):
        return Refused(
            Code.RUN_INVALID_TRANSITION,
            "the run waits for other approvals than those named",
            record,
        )

    return Write(record.written(now, status=RunStatus.QUEUED, lease=None, suspension=None))


def _revoke(record: RunRecord | None, now: datetime) -> Decision:
    """Design 3, revoke: an operator takes the lease from a stuck worker, live or not."""
    if record is None:
        return not_found()
    if record.status in TERMINAL:
        return finished(record)
    if record.status is RunStatus.QUEUED:
        return Converged(record)
    if record.status is not RunStatus.RUNNING:
        return Refused(
            Code.RUN_INVALID_TRANSITION, f"a {record.status} run has no lease to revoke", record
        )

    return Write(
        record.written(
            now, status=RunStatus.QUEUED, fencing_token=record.fencing_token + 1, lease=None
        )
    )


def _create(state: State, command: Create) -> Decision:
    """Design 3, create. A token at or below the tombstone's was granted before."""
    if isinstance(state, RunRecord):
        return Refused(Code.RUN_CONFLICT, "the run exists already", state)
    if isinstance(state, Tombstone) and command.record.fencing_token <= state.fencing_token:
        return Refused(
            Code.RUN_VALIDATION_ERROR,
            f"fencingToken: must be above {state.fencing_token}, the last of the deleted run",
        )

    return Write(command.record, created=True)


def _compare_and_set(record: RunRecord | None, command: CompareAndSet) -> Decision:
    """Design 3, compareAndSet, and what section 7 says is always true. Whether a lease is live is
    the business of the ledger above the seam, on its clock, and not judged here."""
    new = command.record
    if record is None:
        return not_found()
    if record.status in TERMINAL:
        return finished(record)
    if new.status is not record.status and not can_transition_run(record.status, new.status):
        return breaks(record, f"a {record.status} run cannot become {new.status}")
    if new.fencing_token < record.fencing_token:
        return breaks(record, "fencingToken must not fall")
    if new.attempt < record.attempt:
        return breaks(record, "attempt must not fall")
    if new.created_at != record.created_at:
        return breaks(record, "createdAt must not change")
    holder = record.lease.owner if record.lease else None
    if new.lease and new.lease.owner != holder and new.fencing_token == record.fencing_token:
        return breaks(record, "a lease for another owner needs a higher fencingToken")

    return Write(new)


def _delete(record: RunRecord | None, command: Delete, now: datetime) -> Decision:
    """Design 3, delete. The last token stays behind as a tombstone."""
    if record is None:
        return Converged(None)
    if not command.force and record.lease is not None and is_run_lease_live(record, now):
        return held(record, record.lease)

    return Write(Tombstone(record.run_id, record.fencing_token))


def _floor(state: Tombstone | None) -> int:
    return state.fencing_token if state else 0


def _lease(command: Acquire, now: datetime) -> Lease:
    return Lease(
        owner=command.owner,
        acquired_at=now,
        expires_at=now + timedelta(milliseconds=command.lease_ttl_ms),
        grant_key=command.idempotency_key,
        subject=command.subject,
    )


def _renewed(record: RunRecord, lease_ttl_ms: int, now: datetime) -> Lease:
    assert record.lease is not None, "only a held run is renewed"
    return Lease(
        owner=record.lease.owner,
        acquired_at=now,
        expires_at=now + timedelta(milliseconds=lease_ttl_ms),
        grant_key=record.lease.grant_key,
        subject=record.lease.subject,
    )


def _is_own_grant(record: RunRecord, command: Acquire, now: datetime) -> bool:
    """A retried acquire: same owner, same key, and the grant it made is still live. The key goes
    with the lease, so it stands for exactly the current token."""
    return (
        command.idempotency_key is not None
        and record.lease is not None
        and record.lease.grant_key == command.idempotency_key
        and record.lease.owner == command.owner
        and not is_foreign(record, command.subject)
        and is_run_lease_live(record, now)
    )
