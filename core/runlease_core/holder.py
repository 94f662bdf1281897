"""The holder: on whose behalf a ledger takes leases, and which of them are open.

Shared by both ledgers, together with the commands they send. An owner names one process: a forked
child begins anew, with another default owner and no lease, since its parent's stay with the parent.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Generic, TypeVar

from runlease_core.clock import Clock, suspend_aware_seconds
from runlease_core.commands import (
    Acquire,
    Enqueue,
    ExpectedVersion,
    Resume,
    check_lease_ttl_ms,
)
from runlease_core.errors import RunLeaseHeldError
from runlease_core.fields import OWNER_LENGTH_MAX, check_owner, malformed, no_labels
from runlease_core.local_lease import LocalLease, LossEvent, describe
from runlease_core.record import RunRecord

_HOST_LENGTH_MAX: Final = OWNER_LENGTH_MAX - 64

LOOK_SECONDS_MAX: Final = 2.0
LOOK_SECONDS_MIN: Final = 0.05

_log = logging.getLogger("runlease")

Handle = TypeVar("Handle")


def default_owner() -> str:
    """Host, process and a random part: no two processes, forks or ledgers share one."""
    host = "".join(c for c in socket.gethostname() if c.isprintable())[:_HOST_LENGTH_MAX]
    return f"{host}:{os.getpid()}:{secrets.token_hex(6)}"


class LeaseHolder(Generic[Handle]):
    """The worker's settings and its open leases."""

    def __init__(
        self,
        owner: str | None,
        lease_ttl_ms: int,
        *,
        heartbeat: bool,
        clock: Clock,
        on_lost: Callable[[Handle], object] | None,
    ) -> None:
        self._given_owner = None if owner is None else check_owner(owner)
        self._lease_ttl_ms = check_lease_ttl_ms(lease_ttl_ms)
        if not isinstance(heartbeat, bool):
            raise malformed("heartbeat", "must be true or false")
        if on_lost is not None and not callable(on_lost):
            raise malformed("on_lost", "must be a callable that takes the handle")
        self._beats = heartbeat
        self._on_lost = on_lost
        self._clock = clock
        self._closed = False
        self._begin()

    def _begin(self) -> None:
        """Start as this process: with an owner of its own and no open lease."""
        self._process = os.getpid()
        self._owner = self._given_owner or default_owner()
        self._open: dict[LocalLease, Handle] = {}
        self._open_lock = threading.Lock()

    def _here(self) -> None:
        """A fork's copy begins anew: its parent's leases and owner stay with the parent."""
        if os.getpid() != self._process:
            self._begin()

    @property
    def owner(self) -> str:
        """The worker's identity, in every lease it takes. A forked child has another default."""
        self._here()
        return self._owner

    @property
    def lease_ttl_ms(self) -> int:
        """How long a lease of this ledger stays valid without renewal."""
        return self._lease_ttl_ms

    @property
    def _wait_seconds(self) -> float:
        """How long an acquire is tried again: then the grant that its first sending may have made
        is over."""
        return self._lease_ttl_ms / 1000

    def _check_not_closed(self) -> None:
        if self._closed:
            raise RuntimeError("the ledger is closed; make another")

    def _acquire(
        self,
        run_id: str,
        labels: Mapping[str, str] | None,
        max_attempts: int | None,
        expected_version: ExpectedVersion,
    ) -> Acquire:
        self._check_not_closed()
        return Acquire(
            run_id=run_id,
            owner=self.owner,
            lease_ttl_ms=self._lease_ttl_ms,
            labels=no_labels() if labels is None else labels,
            max_attempts=max_attempts,
            idempotency_key=secrets.token_hex(16),
            expected_version=expected_version,
        )

    def _lease(
        self, run_id: str, owner: str, fencing_token: int, lost_event: LossEvent
    ) -> LocalLease:
        return LocalLease(
            run_id=run_id,
            owner=owner,
            fencing_token=fencing_token,
            lease_ttl_ms=self._lease_ttl_ms,
            clock=self._clock,
            lost_event=lost_event,
            beats=self._beats,
        )

    def _settle(self, lease: LocalLease, handle: Handle) -> bool:
        """Keep the list of open leases true after a command; whether this one is to be renewed."""
        with self._open_lock:
            if lease.is_open and not self._closed:
                self._open[lease] = handle
            else:
                self._open.pop(lease, None)
            return lease in self._open

    def _take_open(self) -> list[Handle]:
        """Close, and hand out what has to be released."""
        self._here()
        with self._open_lock:
            self._closed = True
            handles = list(self._open.values())
            self._open.clear()
            return handles


class Loss(Generic[Handle]):
    """Tells whoever waits for a loss, once."""

    def __init__(
        self, wake: Callable[[], object], on_lost: Callable[[Handle], object] | None
    ) -> None:
        self._wake = wake
        self._on_lost = on_lost
        self.handle: Handle | None = None

    def set(self) -> None:
        """Wake the waiting and call back; what the callback raises is logged."""
        self._wake()
        if self._on_lost is not None and self.handle is not None:
            try:
                self._on_lost(self.handle)
            except Exception:  # noqa: BLE001 (a foreign callback may raise anything)
                _log.exception("on_lost failed for %r", self.handle)


class WaitForLease:
    """How long to sleep between two attempts to acquire a held run.

    As long as the lease lasts, as its refusal says, but no longer than `LOOK_SECONDS_MAX`, since
    its holder may finish early.
    """

    def __init__(self, seconds: float) -> None:
        if not seconds >= 0:
            raise malformed("wait", "must be a number of seconds, 0 or more")
        self._deadline = suspend_aware_seconds() + seconds

    def seconds(self, error: RunLeaseHeldError) -> float:
        """How long to sleep now; raises the refusal when the wait is over."""
        left = self._deadline - suspend_aware_seconds()
        if left <= 0:
            raise error
        lasts = error.retry_after_seconds
        wanted = LOOK_SECONDS_MAX if lasts is None else min(lasts, LOOK_SECONDS_MAX)
        return min(max(wanted, LOOK_SECONDS_MIN), left)


def enqueue_command(
    run_id: str,
    labels: Mapping[str, str] | None,
    max_attempts: int | None,
    expected_version: ExpectedVersion,
) -> Enqueue:
    """The enqueue that a ledger's arguments mean."""
    return Enqueue(
        run_id=run_id,
        labels=no_labels() if labels is None else labels,
        max_attempts=max_attempts,
        expected_version=expected_version,
    )


def resume_command(
    run_id: str, pending_approval_ids: Iterable[str] | None, expected_version: ExpectedVersion
) -> Resume:
    """The resume that a ledger's arguments mean."""
    ids = None if pending_approval_ids is None else tuple(pending_approval_ids)
    return Resume(run_id=run_id, pending_approval_ids=ids, expected_version=expected_version)


def raise_failures(failures: list[Exception], error: BaseException | None) -> None:
    """What went wrong in closing: raised together, or told beside the body's own exception."""
    if not failures:
        return
    if error is None:
        raise ExceptionGroup("not every lease could be released", failures)
    for failure in failures:
        error.add_note(f"a lease could not be released: {describe(failure)}")


def standing(record: RunRecord | None) -> RunRecord:
    """The record that stands after a command."""
    assert record is not None, "only a delete leaves no record"
    return record
