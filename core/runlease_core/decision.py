"""What the rules answer: write, converged or refused; and the refusals that several rules share."""

from __future__ import annotations

from typing import NamedTuple

from runlease_core.commands import Fenced
from runlease_core.errors import Code
from runlease_core.instant import format_instant
from runlease_core.record import Lease, RunRecord, Tombstone

State = RunRecord | Tombstone | None


class Refused(NamedTuple):
    """A rule said no. `record` is the one it was judged against, if there is one."""

    code: Code
    detail: str
    record: RunRecord | None = None


class Forbidden(NamedTuple):
    """The lease belongs to another credential. Whoever knows its owner and token still may not use
    it: a fencing token is no secret."""

    detail: str


class Converged(NamedTuple):
    """The command's effect is already there: answer with this record, write nothing."""

    record: RunRecord | None


class Write(NamedTuple):
    """Store `next` in place of the state that was judged.

    `created` marks a run that did not exist. With `refusal` the write stands and the caller is
    refused all the same: the attempts of a run are used up.
    """

    next: RunRecord | Tombstone
    created: bool = False
    refusal: Refused | None = None


Decision = Write | Converged | Refused | Forbidden


def is_foreign(record: RunRecord, subject: str | None) -> bool:
    """Whether the lease was taken by another credential. One taken without any belongs to whoever
    has its token, and without credentials nothing is checked (design, section 9)."""
    return (
        subject is not None
        and record.lease is not None
        and record.lease.subject is not None
        and record.lease.subject != subject
    )


def finished(record: RunRecord) -> Refused:
    """Terminal is for ever."""
    return Refused(Code.RUN_ALREADY_TERMINAL, f"the run is {record.status} and stays so", record)


def held(record: RunRecord, lease: Lease) -> Refused:
    """Another owner may not have it before the lease runs out."""
    return Refused(
        Code.RUN_LEASE_HELD,
        f"held by {lease.owner} until {format_instant(lease.expires_at)}; "
        "try again after that, or cancel or revoke the run",
        record,
    )


def lost(record: RunRecord | None, command: Fenced) -> Refused:
    """Owner and token do not hold the run."""
    if record is None:
        return Refused(Code.RUN_LEASE_LOST, "the run does not exist; stop working on it")
    return Refused(
        Code.RUN_LEASE_LOST,
        f"fencing token {command.fencing_token} of {command.owner} does not hold this run; "
        "stop working on it",
        record,
    )


def not_found() -> Refused:
    """Operators name runs that exist."""
    return Refused(Code.RUN_NOT_FOUND, "there is no such run")


def breaks(record: RunRecord, detail: str) -> Refused:
    """The record would break what section 7 says is always true."""
    return Refused(Code.RUN_INVALID_TRANSITION, detail, record)
