"""What is always true of a run (design, section 7), as a checker of single steps and of histories.

It knows nothing of `decide`: it is given what was there before, the command, what is there after,
the instant and whether the command was refused, and says which promise is broken. So the same
checker serves the pure function, a database and the service. Who cannot see tombstones gives None
in their place; `History` then still remembers the last token.

    history = History()
    history.step(before, command, after, now, refused)   # raises BrokenInvariant
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

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
from runlease_core.errors import Code
from runlease_core.lifecycle import EDGES, TERMINAL, RunStatus
from runlease_core.record import Lease, Outcome, RunRecord, Suspension, Tombstone

State = RunRecord | Tombstone | None


class BrokenInvariant(AssertionError):  # noqa: N818 (it is what it says, and fails a test)
    """Something of section 7 does not hold."""


@dataclass
class History:
    """All steps of one run: each must start where the last one ended, and no token comes back."""

    state: State = None
    token: int | None = None
    granted: set[int] = field(default_factory=set)

    def step(
        self,
        before: State,
        command: AnyCommand,
        after: State,
        now: datetime,
        refused: Code | None = None,
    ) -> None:
        _demand(before == self.state, "the step starts where the last one ended")
        check_step(before, command, after, now, refused)
        if isinstance(command, Fenced) and refused is None and self.token is not None:
            _demand(command.fencing_token >= self.token, "no write under an outrun token")
        if isinstance(after, RunRecord):
            born = not isinstance(before, RunRecord)
            if self.token is not None and born:
                _demand(after.fencing_token > self.token, "a run made again stands above its token")
            if self.token is not None:
                _demand(after.fencing_token >= self.token, "the token never falls")
            if _is_grant(before, command, after):
                _demand(after.fencing_token not in self.granted, "a token is granted once")
                self.granted.add(after.fencing_token)
        if isinstance(after, RunRecord | Tombstone):
            self.token = max(after.fencing_token, self.token or 0)
        self.state = after


def check_step(
    before: State, command: AnyCommand, after: State, now: datetime, refused: Code | None = None
) -> None:
    """Raise BrokenInvariant unless this one step keeps every promise that one step can show.

    Args:
        before: What the store held.
        command: What was asked.
        after: What the store holds now.
        now: The instant at which it was judged.
        refused: The code, or None when it was written or converged.
    """
    if refused is not None:
        _check_refusal_is_true(before, command, now, refused, after)
        if after != before:
            _check_exhausted(before, command, after, now, refused)
        return
    _check_expected_version(before, command, changed=after != before)
    match before, after:
        case RunRecord(), RunRecord():
            if isinstance(command, Fenced):
                _check_fence(before, command, changed=after != before)
            if after == before:
                _check_converged(before, command, now)
            else:
                _check_write(before, command, after, now)
        case RunRecord(), Tombstone() | None:
            _check_death(before, command, after, now)
        case Tombstone() | None, RunRecord():
            _check_birth(before, command, after, now)
        case _:
            _demand(after == before, "what is deleted stays as it is")
            _demand(isinstance(command, Delete), f"{_name(command)} needs a run")


def _check_write(before: RunRecord, command: AnyCommand, after: RunRecord, now: datetime) -> None:
    _demand(not isinstance(command, Create | Enqueue | Delete), "no write over an existing run")
    _demand(after.run_id == before.run_id, "the id never changes")
    _demand(after.version == before.version + 1, "version rises by exactly one a write")
    _demand(before.status not in TERMINAL, "terminal is for ever")
    _demand(after.created_at == before.created_at, "createdAt never changes")
    _demand(after.attempt >= before.attempt, "attempt never falls")
    _demand(after.fencing_token >= before.fencing_token, "the token never falls")
    if after.status is not before.status:
        _demand(after.status in EDGES[before.status], "the lifecycle has this edge")
    if _is_grant(before, command, after) or isinstance(command, Cancel | Revoke):
        _demand(after.fencing_token > before.fencing_token, "the token rises on this command")
    if isinstance(command, CompareAndSet):
        _demand(after == command.record, "a raw write stands as it was given")
        return
    rises = isinstance(command, Acquire | Cancel | Revoke)
    _demand(after.fencing_token == before.fencing_token + rises, "the token moves only on a grant")
    _demand(after.updated_at == now, "updatedAt is the instant of the write")
    _demand(
        (after.labels, after.max_attempts) == (before.labels, before.max_attempts),
        "labels and maxAttempts are set when the run is made",
    )
    _demand(after.status is _target(command), "the status is the command's")
    takeover = isinstance(command, Acquire) and _lapsed(before, now)
    _demand(after.attempt == before.attempt + takeover, "only a takeover uses an attempt")
    _check_lease(before, command, after, now)
    _demand(not takeover or _attempts_left(before), "maxAttempts bounds the takeovers")
    _check_parts(before, command, after, now)
    moved = after.checkpoint_ref != before.checkpoint_ref
    _demand(not moved or isinstance(command, FenceCheckpoint), "only a fence moves the checkpoint")
    if isinstance(command, FenceCheckpoint):
        _demand(after.checkpoint_ref == command.checkpoint_ref, "the checkpoint is the command's")


def _check_parts(before: RunRecord, command: AnyCommand, after: RunRecord, now: datetime) -> None:
    suspension = before.suspension if isinstance(command, Cancel) else None
    outcome = None
    if isinstance(command, Cancel):
        outcome = Outcome("cancelled", command.message)
    if isinstance(command, Transition):
        outcome = command.outcome
        if command.to is RunStatus.SUSPENDED:
            suspension = Suspension(now, command.pending_approval_ids)
    _demand(
        after.suspension == suspension, "a suspension lasts until resumed, or is kept on cancel"
    )
    _demand(after.outcome == outcome, "the outcome is the command's")
    if isinstance(command, Resume) and command.pending_approval_ids is not None:
        pending = before.suspension.pending_approval_ids if before.suspension else ()
        _demand(
            set(command.pending_approval_ids) == set(pending),
            "a resume that names approvals answers exactly those",
        )


def _check_lease(before: RunRecord, command: AnyCommand, after: RunRecord, now: datetime) -> None:
    if not isinstance(command, Acquire | Renew | FenceCheckpoint):
        _demand(after.lease is None, "whoever does not hold or take the run leaves no lease")
        return
    _demand(
        after.lease
        == Lease(command.owner, now, now + timedelta(milliseconds=command.lease_ttl_ms)),
        "the lease is the command's, from now on",
    )
    if isinstance(command, Acquire):
        live = before.lease is not None and before.lease.expires_at > now
        _demand(
            not live or (before.lease is not None and before.lease.owner == command.owner),
            "at most one live lease",
        )
        _demand(before.status is not RunStatus.SUSPENDED, "a suspended run is resumed first")


def _check_fence(before: RunRecord, command: Fenced, *, changed: bool) -> None:
    repeated = (
        isinstance(command, Transition)
        and not changed
        and (before.status, before.fencing_token) == (command.to, command.fencing_token)
    )
    _demand(repeated or _holds(before, command), "only the holder's fenced write is accepted")


def _check_converged(before: RunRecord, command: AnyCommand, now: datetime) -> None:
    match command:
        case Transition():
            there = before.status is command.to
        case Cancel():
            there = before.status is RunStatus.CANCELLED
        case Resume() | Revoke():
            there = before.status is RunStatus.QUEUED
        case Enqueue():
            there = before.status not in TERMINAL
        case Acquire():
            there = (
                command.idempotency_key is not None
                and before.lease is not None
                and before.lease.owner == command.owner
                and before.lease.expires_at > now
            )
        case CompareAndSet():
            there = False
        case _:
            there = False
    _demand(there, f"{_name(command)} is answered without a write only when its effect is there")


def _check_birth(
    before: Tombstone | None, command: AnyCommand, after: RunRecord, now: datetime
) -> None:
    floor = before.fencing_token if before else None
    _demand(floor is None or after.fencing_token > floor, "a run made again stands above its token")
    if isinstance(command, Create):
        _demand(after == command.record, "a raw write stands as it was given")
        return
    _demand(isinstance(command, Acquire | Enqueue), "only acquire, enqueue and create make a run")
    assert isinstance(command, Acquire | Enqueue)
    acquired = isinstance(command, Acquire)
    _demand((after.version, after.attempt) == (1, 1), "a new run starts at one")
    first = acquired if floor is None else floor + 1
    _demand(after.fencing_token == first, "the first token is the next one")
    _demand(after.created_at == after.updated_at == now, "a new run is made now")
    _demand(after.status is _target(command), "the status is the command's")
    _demand(
        (dict(after.labels), after.max_attempts) == (dict(command.labels), command.max_attempts),
        "labels and maxAttempts are the command's",
    )
    if isinstance(command, Acquire):
        expires_at = now + timedelta(milliseconds=command.lease_ttl_ms)
        _demand(after.lease == Lease(command.owner, now, expires_at), "the lease is the command's")


def _check_death(
    before: RunRecord, command: AnyCommand, after: Tombstone | None, now: datetime
) -> None:
    _demand(isinstance(command, Delete), "only delete removes a run")
    assert isinstance(command, Delete)
    live = before.lease is not None and before.lease.expires_at > now
    _demand(command.force or not live, "a live lease keeps its run")
    if after is not None:
        _demand(
            after == Tombstone(before.run_id, before.fencing_token),
            "the tombstone keeps the last token",
        )


def _check_exhausted(
    before: State, command: AnyCommand, after: State, now: datetime, refused: Code
) -> None:
    exhausted = (
        isinstance(command, Acquire)
        and isinstance(before, RunRecord)
        and isinstance(after, RunRecord)
        and refused is Code.RUN_ALREADY_TERMINAL
        and _lapsed(before, now)
        and not _attempts_left(before)
    )
    _demand(exhausted, "a refused command changes nothing")
    assert isinstance(before, RunRecord)
    assert isinstance(after, RunRecord)
    _demand(
        after.outcome is not None
        and after.outcome.code == "attempts_exhausted"
        and after.status is RunStatus.FAILED
        and after.lease is None
        and after.version == before.version + 1
        and after.fencing_token == before.fencing_token + 1
        and after.attempt == before.attempt
        and after.updated_at == now
        and after.created_at == before.created_at,
        "a run whose attempts are used up fails in one write",
    )


def _check_refusal_is_true(
    before: State, command: AnyCommand, now: datetime, refused: Code, after: State
) -> None:
    record = before if isinstance(before, RunRecord) else None
    lease = record.lease if record else None
    match refused:
        case Code.RUN_LEASE_LOST:
            true = isinstance(command, Fenced) and not (record and _holds(record, command))
        case Code.RUN_LEASE_HELD:
            true = lease is not None and lease.expires_at > now
            if isinstance(command, Acquire) and lease is not None:
                true = true and lease.owner != command.owner
            if isinstance(command, Delete):
                true = true and not command.force
        case Code.RUN_ALREADY_TERMINAL:
            true = any(
                isinstance(state, RunRecord) and state.status in TERMINAL
                for state in (before, after)
            )
        case Code.RUN_SUSPENDED:
            true = record is not None and record.status is RunStatus.SUSPENDED
        case Code.RUN_NOT_FOUND:
            true = record is None
        case Code.RUN_CONFLICT:
            expected = command.expected_version
            true = isinstance(command, Create) and record is not None
            true = true or (expected is not None and (not record or expected != record.version))
        case Code.RUN_INVALID_TRANSITION:
            true = record is not None or isinstance(before, Tombstone)
        case Code.RUN_VALIDATION_ERROR:
            true = isinstance(command, Create) and record is None
        case _:
            true = False
    _demand(true, f"{refused} is said only when it is so")


def _check_expected_version(before: State, command: AnyCommand, *, changed: bool) -> None:
    expected = command.expected_version
    if expected is None or (isinstance(command, Acquire) and not changed):
        return
    _demand(isinstance(before, RunRecord), "an expected version needs a run")
    assert isinstance(before, RunRecord)
    _demand(
        not isinstance(expected, int) or expected == before.version,
        "another version than the expected one is refused",
    )


def _is_grant(before: State, command: AnyCommand, after: RunRecord) -> bool:
    if after.lease is None or before == after:
        return False
    if isinstance(command, Acquire) or not isinstance(before, RunRecord):
        return True
    return before.lease is None or before.lease.owner != after.lease.owner


def _holds(record: RunRecord, command: Fenced) -> bool:
    return (
        record.lease is not None
        and record.lease.owner == command.owner
        and record.fencing_token == command.fencing_token
    )


def _lapsed(record: RunRecord, now: datetime) -> bool:
    return record.lease is not None and record.lease.expires_at <= now


def _attempts_left(record: RunRecord) -> bool:
    return record.max_attempts is None or record.attempt < record.max_attempts


def _target(command: AnyCommand) -> RunStatus | None:
    match command:
        case Acquire() | Renew() | FenceCheckpoint():
            return RunStatus.RUNNING
        case Enqueue() | Resume() | Revoke():
            return RunStatus.QUEUED
        case Cancel():
            return RunStatus.CANCELLED
        case Transition():
            return command.to
        case _:
            return None


def _name(command: AnyCommand) -> str:
    return type(command).__name__


def _demand(holds: bool, promise: str) -> None:
    if not holds:
        raise BrokenInvariant(promise)
