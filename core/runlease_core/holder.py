"""The holder: on whose behalf a ledger takes leases, and which of them are open.

Shared by both ledgers, together with the commands they send. An owner names one process: a forked
child begins anew, with another default owner and no lease, since its parent's stay with the parent.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Iterable, Mapping
from typing import Final, Generic, TypeVar

from runlease_core.clock import Clock
from runlease_core.commands import (
    Acquire,
    Enqueue,
    ExpectedVersion,
    Resume,
    check_lease_ttl_ms,
)
from runlease_core.fields import OWNER_LENGTH_MAX, check_owner, malformed, no_labels
from runlease_core.local_lease import LocalLease, LossEvent, describe
from runlease_core.record import RunRecord

_HOST_LENGTH_MAX: Final = OWNER_LENGTH_MAX - 64

Handle = TypeVar("Handle")


def default_owner() -> str:
    """Host, process and a random part: no two processes, forks or ledgers share one."""
    host = "".join(c for c in socket.gethostname() if c.isprintable())[:_HOST_LENGTH_MAX]
    return f"{host}:{os.getpid()}:{secrets.token_hex(6)}"


class LeaseHolder(Generic[Handle]):
    """The worker's settings and its open leases."""

    def __init__(
        self, owner: str | None, lease_ttl_ms: int, *, heartbeat: bool, clock: Clock
    ) -> None:
        self._given_owner = None if owner is None else check_owner(owner)
        self._lease_ttl_ms = check_lease_ttl_ms(lease_ttl_ms)
        if not isinstance(heartbeat, bool):
            raise malformed("heartbeat", "must be true or false")
        self._beats = heartbeat
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
