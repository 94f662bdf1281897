"""The record: what a well-formed one is, and that its JSON is the seed's."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from hypothesis import given, settings

from runlease_core.errors import RunValidationError
from runlease_core.lifecycle import RunStatus
from runlease_core.parsing import parse_record, record_from_text
from runlease_core.record import (
    CheckpointRef,
    Lease,
    Outcome,
    RunRecord,
    Suspension,
    is_run_lease_live,
    record_to_text,
)
from tests import strategies
from tests.core.examples import (
    BEFORE,
    CANCELLED,
    COMPLETED,
    EXPIRED,
    FAILED,
    LIVE,
    MS,
    NOW,
    QUEUED,
    SUSPENDED,
    TOKEN,
    UNLEASED,
    run,
)

SEED_FIELDS = [
    "schema",
    "runId",
    "version",
    "status",
    "attempt",
    "fencingToken",
    "lease",
    "checkpointRef",
    "outcome",
    "suspension",
    "createdAt",
    "updatedAt",
]
ADDED_FIELDS = ["labels", "maxAttempts"]
FULL = replace(
    run(RunStatus.FAILED, outcome=Outcome("error", "it broke"), suspension=SUSPENDED.suspension)
)


# JSON


def test_the_json_of_a_running_run() -> None:
    assert record_to_text(LIVE) == (
        '{"schema":1,"runId":"run-1","version":5,"status":"running","attempt":2,"fencingToken":3,'
        '"lease":{"owner":"a","acquiredAt":"2026-01-02T03:03:05.678Z",'
        '"expiresAt":"2026-01-02T03:04:05.679Z"},'
        '"checkpointRef":{"key":"snapshots/1","snapshotVersion":1,'
        '"savedAt":"2026-01-02T03:03:05.678Z"},'
        '"labels":{"team":"blue"},"maxAttempts":3,'
        '"createdAt":"2026-01-02T02:04:05.678Z","updatedAt":"2026-01-02T03:03:05.678Z"}'
    )


def test_the_json_of_the_other_parts() -> None:
    data = FULL.to_json()

    assert data["outcome"] == {"code": "error", "message": "it broke"}
    assert data["suspension"] == {
        "suspendedAt": "2026-01-02T03:03:05.678Z",
        "pendingApprovalIds": ["a1", "a2"],
    }


def test_absent_fields_are_left_out_never_null() -> None:
    bare = replace(QUEUED, checkpoint_ref=None, labels={}, max_attempts=None)
    without_message = replace(CANCELLED, outcome=Outcome("cancelled"))
    nothing_pending = replace(SUSPENDED, suspension=Suspension(BEFORE))

    assert list(bare.to_json()) == [
        "schema",
        "runId",
        "version",
        "status",
        "attempt",
        "fencingToken",
        "createdAt",
        "updatedAt",
    ]
    assert without_message.to_json()["outcome"] == {"code": "cancelled"}
    assert nothing_pending.to_json()["suspension"]["pendingApprovalIds"] == []


def test_an_empty_message_is_a_message() -> None:
    record = replace(CANCELLED, outcome=Outcome("cancelled", ""))

    assert record.to_json()["outcome"] == {"code": "cancelled", "message": ""}
    assert parse_record(record.to_json()) == record


@given(strategies.records())
@settings(max_examples=30, deadline=None)
def test_the_fields_come_in_the_seeds_order(record: RunRecord) -> None:
    data = record.to_json()

    seeds = [name for name in data if name not in ADDED_FIELDS]
    assert seeds == [name for name in SEED_FIELDS if name in data]
    assert set(data) <= {*SEED_FIELDS, *ADDED_FIELDS}
    assert None not in data.values()


@given(strategies.records())
@settings(max_examples=60, deadline=None)
def test_a_record_survives_its_text_and_the_text_survives_the_record(record: RunRecord) -> None:
    text = record_to_text(record)

    for read in (
        record_from_text(text),
        record_from_text(text.encode()),
        record_from_text(text, stored=True),
        parse_record(json.loads(text)),
    ):
        assert read == record
        assert record_to_text(read) == text


@given(strategies.records())
@settings(max_examples=20, deadline=None)
def test_any_json_writer_and_order_of_fields_gives_the_same_record(record: RunRecord) -> None:
    data = record.to_json()
    shuffled = dict(reversed(data.items()))

    assert record_from_text(json.dumps(shuffled, indent=2)) == record


def test_labels_keep_the_order_they_came_in() -> None:
    record = replace(QUEUED, labels={"z": "1", "a": "2"})

    assert list(record_from_text(record_to_text(record)).labels) == ["z", "a"]


def test_the_grant_key_is_never_sent_and_never_seen() -> None:
    record = run(owner="a", grant_key="secret-key")

    assert record == LIVE
    assert "secret-key" not in record_to_text(record) + repr(record)


# Well-formed


def test_a_record_cannot_be_changed() -> None:
    name = "version"
    with pytest.raises(FrozenInstanceError):
        setattr(LIVE, name, 6)

    with pytest.raises(TypeError):
        LIVE.labels["team"] = "red"  # type: ignore[index]


def test_labels_are_a_copy_of_what_was_given() -> None:
    given_labels = {"team": "blue"}
    record = replace(QUEUED, labels=given_labels)

    given_labels["team"] = "red"

    assert record.labels == {"team": "blue"}


@pytest.mark.parametrize("record", [QUEUED, LIVE, SUSPENDED, COMPLETED])
def test_records_can_be_hashed(record: RunRecord) -> None:
    assert len({record, replace(record)}) == 1


def test_a_record_can_be_sent_to_another_process() -> None:
    record = run(owner="a", grant_key="k")

    copied = pickle.loads(pickle.dumps(record))  # noqa: S301 (our own bytes)

    assert copied == record
    assert copied.lease.grant_key == "k"
    with pytest.raises(TypeError):
        copied.labels["team"] = "red"


@pytest.mark.parametrize("status", list(RunStatus))
def test_which_status_may_carry_which_part(status: RunStatus) -> None:
    running = status is RunStatus.RUNNING
    ended = status in (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED)
    parts: list[tuple[str, dict[str, Any], bool]] = [
        ("lease", {"lease": LIVE.lease}, running),
        ("outcome", {"outcome": Outcome("x")}, ended),
        ("suspension", {"suspension": Suspension(NOW)}, ended or status is RunStatus.SUSPENDED),
    ]
    for field, part, allowed in parts:
        if allowed:
            assert replace(run(status), **part).status is status
        else:
            with pytest.raises(RunValidationError) as refused:
                replace(run(status), **part)
            assert refused.value.field == field


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("schema", {"schema": 2}),
    ("schema", {"schema": True}),
    ("schema", {"schema": 1.0}),
    ("schema", {"schema": "1"}),
    ("runId", {"run_id": ""}),
    ("version", {"version": 0}),
    ("version", {"version": True}),
    ("version", {"version": 2**53}),
    ("status", {"status": "queued"}),
    ("attempt", {"attempt": 0}),
    ("fencingToken", {"fencing_token": -1}),
    ("createdAt", {"created_at": NOW.replace(tzinfo=None)}),
    ("createdAt", {"created_at": NOW.replace(microsecond=1)}),
    ("updatedAt", {"updated_at": "2026-01-01T00:00:00.000Z"}),
    ("labels", {"labels": {str(n): "" for n in range(17)}}),
    ("maxAttempts", {"max_attempts": 0}),
    ("maxAttempts", {"max_attempts": 10_001}),
    ("maxAttempts", {"max_attempts": True}),
]


@pytest.mark.parametrize(("field", "changes"), WRONG)
def test_a_constructor_refuses_what_is_malformed(field: str, changes: dict[str, Any]) -> None:
    with pytest.raises(RunValidationError) as refused:
        replace(QUEUED, **changes)

    assert refused.value.field == field


def test_the_parts_refuse_what_is_malformed() -> None:
    cases: list[tuple[str, Callable[[], object]]] = [
        ("lease.owner", lambda: Lease(" ", NOW, NOW)),
        ("lease.expiresAt", lambda: Lease("a", NOW, NOW - MS)),
        ("lease.acquiredAt", lambda: Lease("a", NOW.replace(tzinfo=None), NOW)),
        ("checkpointRef.key", lambda: CheckpointRef("", 1, NOW)),
        ("checkpointRef.key", lambda: CheckpointRef("k" * 1025, 1, NOW)),
        ("checkpointRef.snapshotVersion", lambda: CheckpointRef("k", -1, NOW)),
        ("outcome.code", lambda: Outcome("")),
        ("outcome.code", lambda: Outcome("c" * 65)),
        ("outcome.message", lambda: Outcome("c", "m" * 4097)),
        ("outcome.message", lambda: Outcome("c", "\r")),
        ("suspension.pendingApprovalIds", lambda: Suspension(NOW, ("a",) * 257)),
        ("suspension.pendingApprovalIds[1]", lambda: Suspension(NOW, ("a", ""))),
        ("suspension.pendingApprovalIds[0]", lambda: Suspension(NOW, ("a" * 256,))),
    ]

    for field, build in cases:
        with pytest.raises(RunValidationError) as refused:
            build()
        assert refused.value.field == field


def test_the_bounds_themselves_are_allowed() -> None:
    record = replace(
        run(RunStatus.CANCELLED),
        run_id="r" * 512,
        version=2**53 - 1,
        attempt=2**53 - 1,
        fencing_token=2**53 - 1,
        checkpoint_ref=CheckpointRef("k" * 1024, 2**53 - 1, NOW),
        outcome=Outcome("c" * 64, "m" * 4096),
        suspension=Suspension(NOW, tuple("a" * 255 for _ in range(256))),
        labels={f"{n:02}" + "k" * 61: "v" * 255 for n in range(16)},
        max_attempts=10_000,
    )
    leased = replace(LIVE, lease=Lease("o" * 255, NOW, NOW), max_attempts=1, fencing_token=0)

    assert record_from_text(record_to_text(record)) == record
    assert record_from_text(record_to_text(leased)) == leased


# What it says of itself


def test_the_holder_is_the_owner_with_the_token_live_or_not() -> None:
    assert LIVE.held_by("a", TOKEN)
    assert EXPIRED.held_by("a", TOKEN)
    assert not LIVE.held_by("b", TOKEN)
    assert not LIVE.held_by("a", TOKEN + 1)
    assert not UNLEASED.held_by("a", TOKEN)


def test_a_lease_is_live_while_its_end_lies_after_now() -> None:
    assert is_run_lease_live(LIVE, NOW)
    assert not is_run_lease_live(LIVE, NOW + MS)
    assert not is_run_lease_live(EXPIRED, NOW)
    assert not is_run_lease_live(UNLEASED, NOW)


def test_a_written_record_moves_version_and_updated_at_and_nothing_else() -> None:
    assert FAILED.written(NOW) == replace(FAILED, version=6, updated_at=NOW)
