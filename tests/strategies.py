"""Hypothesis strategies for what is well-formed: ids, instants, records and commands.

Each is built from the design's words (section 2), not from the checks of the code, so that a check
that is too strict shows. Instants stay between 1970 and 2200, where adding a lease's length is
always possible; `any_instants` reaches from year 1 to 9999.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from hypothesis import strategies as st

from runlease_core.commands import (
    Acquire,
    AnyCommand,
    Cancel,
    CompareAndSet,
    Create,
    Delete,
    Enqueue,
    Existing,
    ExpectedVersion,
    FenceCheckpoint,
    Renew,
    Resume,
    Revoke,
    Transition,
)
from runlease_core.lifecycle import RunStatus
from runlease_core.record import CheckpointRef, Lease, Outcome, RunRecord, Suspension, Tombstone

COUNTER_MAX: Final = 2**53 - 1
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
TERMINAL: Final = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED)

_CHARACTERS = st.characters(exclude_categories=["Cs", "Cc"])
_MESSAGE_CHARACTERS = _CHARACTERS | st.sampled_from("\t\n")


def texts(length_max: int, *, length_min: int = 1) -> st.SearchStrategy[str]:
    """Text without control characters and lone surrogates."""
    return st.text(_CHARACTERS, min_size=length_min, max_size=min(length_max, 12))


def run_ids() -> st.SearchStrategy[str]:
    segments = st.text(
        st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/"),
        min_size=1,
        max_size=8,
    ).filter(lambda segment: segment not in {".", ".."})
    return (
        st.lists(segments, min_size=1, max_size=4)
        .map("/".join)
        .filter(lambda run_id: run_id == run_id.strip())
    )


def owners() -> st.SearchStrategy[str]:
    return texts(255).filter(lambda owner: owner.strip() != "")


def messages() -> st.SearchStrategy[str]:
    return st.text(_MESSAGE_CHARACTERS, max_size=12)


def instants() -> st.SearchStrategy[datetime]:
    return _instants(0, 7_258_118_400_000)


def any_instants() -> st.SearchStrategy[datetime]:
    return _instants(-62_135_596_800_000, 253_402_300_799_999)


def _instants(earliest_ms: int, latest_ms: int) -> st.SearchStrategy[datetime]:
    return st.integers(earliest_ms, latest_ms).map(lambda ms: EPOCH + timedelta(milliseconds=ms))


def counters(least: int = 0) -> st.SearchStrategy[int]:
    return st.integers(least, 20) | st.integers(least, COUNTER_MAX)


def labels() -> st.SearchStrategy[Mapping[str, str]]:
    return st.dictionaries(texts(63), texts(255, length_min=0), max_size=4)


def max_attempts() -> st.SearchStrategy[int | None]:
    return st.none() | st.integers(1, 10_000)


def checkpoint_refs() -> st.SearchStrategy[CheckpointRef]:
    return st.builds(CheckpointRef, texts(1024), counters(), instants())


def outcomes() -> st.SearchStrategy[Outcome]:
    return st.builds(Outcome, texts(64), st.none() | messages())


def approval_ids() -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(texts(255), max_size=3).map(tuple)


def tombstones(run_id: st.SearchStrategy[str] | None = None) -> st.SearchStrategy[Tombstone]:
    return st.builds(Tombstone, run_ids() if run_id is None else run_id, counters())


@st.composite
def leases(draw: st.DrawFn) -> Lease:
    acquired_at = draw(instants())
    return Lease(
        owner=draw(owners()),
        acquired_at=acquired_at,
        expires_at=acquired_at + timedelta(milliseconds=draw(st.integers(0, 86_400_000))),
    )


@st.composite
def records(draw: st.DrawFn, run_id: str | None = None, *, counter_max: int = 0) -> RunRecord:
    """A well-formed record in any status; `counter_max` keeps the counters away from their end."""
    status = draw(st.sampled_from(RunStatus))
    ended = status in TERMINAL
    counts = st.integers(1, counter_max) if counter_max else counters(1)
    return RunRecord(
        run_id=draw(run_ids()) if run_id is None else run_id,
        version=draw(counts),
        status=status,
        attempt=draw(counts),
        fencing_token=draw(counts | st.just(0)),
        lease=draw(st.none() | leases()) if status is RunStatus.RUNNING else None,
        checkpoint_ref=draw(st.none() | checkpoint_refs()),
        outcome=draw(st.none() | outcomes()) if ended else None,
        suspension=(
            draw(st.none() | st.builds(Suspension, instants(), approval_ids()))
            if ended or status is RunStatus.SUSPENDED
            else None
        ),
        labels=draw(labels()),
        max_attempts=draw(max_attempts()),
        created_at=draw(instants()),
        updated_at=draw(instants()),
    )


def _expected() -> st.SearchStrategy[ExpectedVersion]:
    return st.none() | st.just(Existing.ANY_VERSION) | counters()


def _ttls() -> st.SearchStrategy[int]:
    return st.integers(100, 86_400_000)


@st.composite
def _transitions(draw: st.DrawFn, run_id: st.SearchStrategy[str]) -> Transition:
    to = draw(st.sampled_from([status for status in RunStatus if status != "running"]))
    return Transition(
        run_id=draw(run_id),
        expected_version=draw(_expected()),
        owner=draw(owners()),
        fencing_token=draw(counters()),
        to=to,
        outcome=draw(st.none() | outcomes()) if to in TERMINAL else None,
        pending_approval_ids=draw(approval_ids()) if to is RunStatus.SUSPENDED else (),
    )


@st.composite
def _creates(draw: st.DrawFn, run_id: st.SearchStrategy[str]) -> Create:
    record = draw(records(draw(run_id)))
    return Create(run_id=record.run_id, expected_version=draw(_expected()), record=record)


@st.composite
def _compare_and_sets(draw: st.DrawFn, run_id: st.SearchStrategy[str]) -> CompareAndSet:
    record = draw(records(draw(run_id)))
    return CompareAndSet(run_id=record.run_id, expected_version=record.version - 1, record=record)


def commands(run_id: str | None = None) -> st.SearchStrategy[AnyCommand]:
    """Any well-formed command, for the given run or for any."""
    ids = run_ids() if run_id is None else st.just(run_id)
    aimed = {"run_id": ids, "expected_version": _expected()}
    birth = {"labels": labels(), "max_attempts": max_attempts()}
    fenced = {"owner": owners(), "fencing_token": counters()}
    return st.one_of(
        st.builds(
            Acquire,
            owner=owners(),
            lease_ttl_ms=_ttls(),
            idempotency_key=st.none() | texts(255),
            **aimed,
            **birth,
        ),
        st.builds(Enqueue, **aimed, **birth),
        st.builds(Renew, lease_ttl_ms=_ttls(), **aimed, **fenced),
        st.builds(
            FenceCheckpoint,
            lease_ttl_ms=_ttls(),
            checkpoint_ref=checkpoint_refs(),
            **aimed,
            **fenced,
        ),
        _transitions(ids),
        st.builds(Cancel, message=st.none() | messages(), **aimed),
        st.builds(Resume, pending_approval_ids=st.none() | approval_ids(), **aimed),
        st.builds(Revoke, message=st.none() | messages(), **aimed),
        _creates(ids),
        _compare_and_sets(ids),
        st.builds(Delete, force=st.booleans(), **aimed),
    )
