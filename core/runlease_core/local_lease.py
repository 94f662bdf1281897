"""What this process knows of one lease: what both kinds of handle share.

It keeps three promises. A fencing token is taken from a grant and never again: no read and no
error body changes it. A loss is latched: after RUN_LEASE_LOST nothing is asked or written any
more. And nobody is told that a run ended in a way that its record does not carry.

`held` is this process's own proof. It counts the lease's length from before the last request that
succeeded was sent, so it turns false no later than the store's lease, by a clock that also counts
suspend, and without asking anybody. It trusts that clock's rate, and nothing else: no instant of a
record is compared with the local time.

An ending whose answer never came is *pending*: it may stand in the record or not. Until that is
known the lease is not held, the same ending may be sent again, and a refused renewal whose record
shows that ending is no loss. A refusal that answers a renewal while an ending is under way is
none either: the ending's own answer decides.

Where a heartbeat renews, a lease that could not be proved in time is lost for good, so that a
worker which was told "not held" is never told otherwise; without one, the worker that renews by
hand may still succeed, since an expired lease that nobody took may be renewed.

The heartbeat's thread and the worker's both come here without a lock. Each fact is one assignment,
and an ending is recorded before it stops to be under way, so that no renewal's refusal is taken
for a loss in between.

No I/O, thread or task here. The methods that talk to a store are generators (`steps`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from enum import StrEnum
from operator import methodcaller
from typing import Final, Protocol

from runlease_core.clock import Clock
from runlease_core.commands import FenceCheckpoint, Fenced, Renew, Transition
from runlease_core.errors import RunIntegrityError, RunLeaseLostError, RunStoreError
from runlease_core.fields import MESSAGE_LENGTH_MAX, malformed
from runlease_core.lifecycle import RunStatus
from runlease_core.record import CheckpointRef, Outcome, RunRecord
from runlease_core.steps import Step, Steps

_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class LossReason(StrEnum):
    """Why a lease was lost."""

    TAKEN_OVER = "taken_over"
    """Another worker was granted the run since."""
    CANCELLED = "cancelled"
    """The run was cancelled."""
    REVOKED = "revoked"
    """An operator took the lease; the run is queued."""
    DELETED = "deleted"
    """The run is gone."""
    ENDED = "ended"
    """Somebody who has the same token ended or released the run."""
    UNPROVED = "unproved"
    """No renewal succeeded in time; somebody else may have the run."""


class LossEvent(Protocol):
    """A `threading.Event` or an `asyncio.Event`."""

    def set(self) -> object:
        """Wake whoever waits for the loss."""
        ...


class LocalLease:
    """One grant, as far as this process knows."""

    def __init__(
        self,
        *,
        run_id: str,
        owner: str,
        fencing_token: int,
        lease_ttl_ms: int,
        clock: Clock,
        lost_event: LossEvent,
        beats: bool = False,
    ) -> None:
        Fenced(run_id=run_id, owner=owner, fencing_token=fencing_token)
        self.run_id = run_id
        self.owner = owner
        self.fencing_token = fencing_token
        self.lease_ttl_ms = lease_ttl_ms
        self.record: RunRecord | None = None
        self.loss: RunStoreError | None = None
        self.renewed_at_seconds: float | None = None
        self.loss_reason: LossReason | None = None
        self.finished = False
        self._beats = beats
        self._pending: Transition | None = None
        self._endings_under_way = 0
        self._clock = clock
        self._lost_event = lost_event
        self._process = os.getpid()

    @property
    def is_open(self) -> bool:
        """Whether it was proved at least once, and is neither lost nor ended: to be renewed."""
        return (
            self.renewed_at_seconds is not None
            and self.loss is None
            and not self.finished
            and not self._endings_under_way
        )

    @property
    def held(self) -> bool:
        """Whether this process can prove, right now, that it may advance the run."""
        if not self.is_open or self._pending is not None or self.inherited:
            return False
        return not self.expire()

    def expire(self) -> bool:
        """Whether the local deadline has passed; where a heartbeat renews, that is a loss."""
        if self.remaining_seconds > 0:
            return False
        if self._beats and self.is_open and self._pending is None:
            self._lose(
                LossReason.UNPROVED,
                RunLeaseLostError(
                    f"no renewal of run {self.run_id!r} succeeded within {self.lease_ttl_ms} ms, "
                    "so another worker may have it; stop working on it"
                ),
            )
        return True

    @property
    def remaining_seconds(self) -> float:
        """How long this process may still count on the lease, if nothing else is heard."""
        if self.renewed_at_seconds is None:
            return 0.0
        return self.renewed_at_seconds + self.lease_ttl_ms / 1000 - self._clock.seconds()

    @property
    def inherited(self) -> bool:
        """Whether this is a fork's copy: the lease stayed with the process that acquired it."""
        return os.getpid() != self._process

    def check_here(self) -> None:
        """Refuse a fork's copy, which shares its token with a living process."""
        if self.inherited:
            raise RuntimeError(
                f"process {self._process} holds run {self.run_id!r}, and this is its fork; "
                "acquire here, or adopt the token when that process is gone"
            )

    def check(self) -> None:
        """Raise the loss, if there is one."""
        if self.is_open and not self.inherited:
            self.expire()
        if self.loss is not None:
            raise self.loss

    def renewal(self) -> Renew:
        """The command that starts the lease's length anew."""
        return Renew(
            run_id=self.run_id,
            owner=self.owner,
            fencing_token=self.fencing_token,
            lease_ttl_ms=self.lease_ttl_ms,
        )

    def renewed(self, answer: RunRecord | Exception, sent_at_seconds: float) -> None:
        """Take in what a heartbeat's renewal, sent at that time, was answered; raises it again when
        it was no record."""
        if isinstance(answer, RunRecord):
            self.keep(answer, sent_at_seconds)
            return
        if isinstance(answer, RunLeaseLostError):
            if self._endings_under_way:
                return  # the ending's own answer decides
            self._refused(answer)
            if self.finished:
                return
        raise answer

    def keep(self, record: RunRecord, sent_at_seconds: float) -> None:
        """Take in a record that proves the lease, from a request sent at that time."""
        if self.loss is not None or self.finished:
            return
        if not record.held_by(self.owner, self.fencing_token):
            raise RunIntegrityError(
                f"the answer about run {self.run_id!r} does not show the lease it grants", record
            )
        if self.record is None or record.version > self.record.version:
            self.record = record
        if self.renewed_at_seconds is None or sent_at_seconds > self.renewed_at_seconds:
            self.renewed_at_seconds = sent_at_seconds

    def renew(self) -> Steps[RunRecord]:
        """Start the lease's length anew."""
        return self._prove(self.renewal())

    def record_checkpoint(self, ref: CheckpointRef) -> Steps[RunRecord]:
        """Fence: record where the next snapshot goes, and renew."""
        if not isinstance(ref, CheckpointRef):
            raise malformed("checkpointRef", "must be a CheckpointRef")
        return self._prove(
            FenceCheckpoint(
                run_id=self.run_id,
                owner=self.owner,
                fencing_token=self.fencing_token,
                lease_ttl_ms=self.lease_ttl_ms,
                checkpoint_ref=ref,
            )
        )

    def suspend(self, pending_approval_ids: Iterable[str]) -> Steps[RunRecord]:
        """Give the lease up until a decision is recorded."""
        return self._end(self._to(RunStatus.SUSPENDED, approval_ids=pending_approval_ids))

    def complete(self, outcome: Outcome | str | None, message: str | None) -> Steps[RunRecord]:
        """End the run as completed."""
        return self._end(self._to(RunStatus.COMPLETED, _outcome(outcome, message, "ok")))

    def fail(self, outcome: Outcome | str | None, message: str | None) -> Steps[RunRecord]:
        """End the run as failed."""
        return self._end(self._to(RunStatus.FAILED, _outcome(outcome, message, "error")))

    def cancel(self, message: str | None, outcome: Outcome | str | None) -> Steps[RunRecord]:
        """End the run as cancelled, by its own worker."""
        return self._end(self._to(RunStatus.CANCELLED, _outcome(outcome, message, "cancelled")))

    def release(self) -> Steps[RunRecord]:
        """Give the lease up unfinished."""
        return self._end(self._to(RunStatus.QUEUED))

    def leave(self, error: BaseException | None) -> Steps[None]:
        """What the end of a `with` block does: complete, fail or release, and tell the truth.

        What the body ended is left alone. An ending that is pending is sent again instead of
        another. After a loss nothing is written. An interruption always goes through, since
        whoever interrupts waits for it; a failure goes through too, with a note when the record
        does not say so, except that a loss is raised in its place.
        """
        if self.finished:
            return
        if error is not None and not isinstance(error, Exception):
            if self.loss is None:
                yield from self._end_with_note(self._pending or self._to(RunStatus.QUEUED), error)
        elif self.loss is not None:
            if error is not self.loss:
                raise self.loss from error
        elif error is None:
            yield from self._end(
                self._pending or self._to(RunStatus.COMPLETED, Outcome("ok")),
            )
        else:
            failed = self._to(RunStatus.FAILED, Outcome("error", describe(error)))
            yield from self._end_with_note(self._pending or failed, error)
            if self.loss is not None:
                raise self.loss from error

    def _to(
        self, to: RunStatus, outcome: Outcome | None = None, *, approval_ids: Iterable[str] = ()
    ) -> Transition:
        return Transition(
            run_id=self.run_id,
            owner=self.owner,
            fencing_token=self.fencing_token,
            to=to,
            outcome=outcome,
            pending_approval_ids=tuple(approval_ids),
        )

    def _prove(self, command: Renew | FenceCheckpoint) -> Steps[RunRecord]:
        self.check()
        sent_at_seconds = self._clock.seconds()
        try:
            record: RunRecord = yield self._execute(command)
        except RunLeaseLostError as error:
            if not self._endings_under_way:
                self._refused(error)
            raise
        self.keep(record, sent_at_seconds)
        return record

    def _end(self, command: Transition) -> Steps[RunRecord]:
        self.check()
        before, self._pending = self._pending, command
        self._endings_under_way += 1
        try:
            record: RunRecord = yield self._execute(command)
            self._finish(record)
        except RunLeaseLostError as error:
            self._pending = before
            self._refused(error)
            raise
        except RunStoreError:
            self._pending = before
            raise
        finally:
            self._endings_under_way -= 1
        return record

    def _execute(self, command: Fenced) -> Step:
        # Nothing is tried again past the deadline: then somebody else may be at work.
        return methodcaller("execute", command, wait_seconds=max(self.remaining_seconds, 0.0))

    def _end_with_note(self, command: Transition, error: BaseException) -> Steps[None]:
        try:
            yield from self._end(command)
        except Exception as failure:  # noqa: BLE001 (the body's own exception goes first)
            error.add_note(
                f"run {self.run_id!r} could not be recorded as {command.to}: "
                f"{type(failure).__name__}: {failure}"
            )

    def _refused(self, error: RunLeaseLostError) -> None:
        """Latch the loss, unless this handle ended the run itself."""
        if self.finished or self.loss is not None:
            return
        pending, record = self._pending, error.record
        if (
            pending is not None
            and record is not None
            and (record.status, record.fencing_token) == (pending.to, self.fencing_token)
        ):
            self._finish(record)
            return
        self._lose(_reason(error.record, self.fencing_token), error)

    def _lose(self, reason: LossReason, error: RunLeaseLostError) -> None:
        self.loss_reason = reason
        self.loss = error
        self._lost_event.set()

    def _finish(self, record: RunRecord) -> None:
        self.record = record
        self.finished = True
        self._pending = None


def _reason(record: RunRecord | None, fencing_token: int) -> LossReason:
    """Why a token no longer holds the run, by the record that was shown with the refusal."""
    if record is None:
        return LossReason.DELETED
    if record.status is RunStatus.CANCELLED:
        return LossReason.CANCELLED
    if record.fencing_token == fencing_token:
        return LossReason.ENDED
    if record.lease is None and record.status is RunStatus.QUEUED:
        return LossReason.REVOKED
    return LossReason.TAKEN_OVER


def describe(error: BaseException) -> str:
    """An exception as a message that a record may hold: one type, bounded, printable."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 (a foreign __str__ may raise anything)
        text = type(error).__name__
    return _UNPRINTABLE.sub("\ufffd", text[:MESSAGE_LENGTH_MAX])


def _outcome(outcome: Outcome | str | None, message: str | None, code: str) -> Outcome:
    if isinstance(outcome, Outcome):
        if message is not None:
            raise malformed("message", "must be absent beside a whole outcome")
        return outcome
    return Outcome(code if outcome is None else outcome, message)
