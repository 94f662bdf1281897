"""decide: every state × every command, liveness, and expected versions."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runlease_core.commands import (
    Acquire,
    AnyCommand,
    CompareAndSet,
    Create,
    Delete,
    Existing,
    FenceCheckpoint,
    Renew,
    Resume,
)
from runlease_core.decide import Converged, Refused, State, Write, decide
from runlease_core.errors import Code
from runlease_core.lifecycle import RunStatus
from runlease_core.record import Outcome, RunRecord, Suspension, Tombstone
from tests import strategies
from tests.core import decision_table
from tests.core.examples import (
    BEFORE,
    EXPIRED,
    FENCED,
    LIVE,
    MS,
    NEXT_CHECKPOINT,
    NOW,
    OUTCOME,
    RUN,
    STATES,
    TO,
    TOKEN,
    TOMBSTONE,
    command_named,
    lease,
    refusal,
    run,
    transition,
    written,
)
from tests.model.invariants import check_step


def test_the_table_answers_each_pair_once() -> None:
    pairs = [(command, state) for command, state, _ in decision_table.ROWS]

    assert sorted(pairs) == sorted(
        (command, state) for command in decision_table.COMMANDS for state in decision_table.STATES
    )
    assert set(STATES) == set(decision_table.STATES)


@pytest.mark.parametrize(("command", "state", "answer"), decision_table.ROWS)
def test_every_state_and_command(command: str, state: str, answer: str) -> None:
    before = STATES[state]
    given_command = command_named(command, before)

    decision = decide(before, given_command, NOW)

    record = before if isinstance(before, RunRecord) else None
    match answer.split():
        case ["="]:
            assert decision == Converged(record)
        case [code] if code.startswith("RUN_"):
            assert isinstance(decision, Refused)
            assert (decision.code, decision.record) == (code, record)
            assert decision.detail
        case ["new", status, "token", token]:
            assert isinstance(decision, Write)
            assert decision.created
            new = written(decision)
            assert (new.status, new.fencing_token) == (status, int(token))
            assert (new.version, new.attempt) == (1, 1)
            assert new.created_at == new.updated_at == NOW
        case ["gone", "token", token]:
            assert decision == Write(Tombstone(RUN, int(token)))
        case ["as", "given"]:
            assert isinstance(given_command, Create | CompareAndSet)
            assert decision == Write(given_command.record, created=record is None)
        case [status, *risen]:
            assert record is not None
            assert isinstance(decision, Write)
            assert not decision.created
            new = written(decision)
            assert new == replace(
                record,
                version=record.version + 1,
                updated_at=NOW,
                status=RunStatus(status),
                attempt=record.attempt + ("attempt+1" in risen),
                fencing_token=record.fencing_token + ("token+1" in risen),
                lease=new.lease,
                suspension=new.suspension,
                outcome=new.outcome,
                checkpoint_ref=new.checkpoint_ref,
            )
        case _:
            pytest.fail(f"no such answer: {answer}")


WRITES = [row for row in decision_table.ROWS if row[2].split()[0] in {"new", *RunStatus}]


@pytest.mark.parametrize(("command", "state", "answer"), WRITES)
def test_what_a_write_leaves_besides_its_counters(command: str, state: str, answer: str) -> None:
    before = STATES[state]
    record = before if isinstance(before, RunRecord) else None

    new = written(decide(before, command_named(command, before), NOW))

    leases = command in ("acquire", "renew", "fence-checkpoint")
    assert new.lease == (lease("a", 1_000) if leases else None)
    suspension = {
        "to suspended": Suspension(NOW, ("a1",)),
        "cancel": record.suspension if record else None,
    }
    assert new.suspension == suspension.get(command)
    ends = command in ("to completed", "to failed", "to cancelled")
    cancelled = Outcome("cancelled", "superseded") if command == "cancel" else None
    assert new.outcome == (OUTCOME if ends else cancelled)
    kept = record.checkpoint_ref if record else None
    assert new.checkpoint_ref == (NEXT_CHECKPOINT if command == "fence-checkpoint" else kept)


@pytest.mark.parametrize("state", STATES)
def test_every_row_keeps_the_promises_of_section_7(state: str) -> None:
    before = STATES[state]
    for name in decision_table.COMMANDS:
        command = command_named(name, before)

        decision = decide(before, command, NOW)

        after = decision.next if isinstance(decision, Write) else before
        refused = decision.code if isinstance(decision, Refused) else None
        check_step(before, command, after, NOW, refused)


@given(
    st.none() | strategies.records(RUN) | strategies.tombstones(st.just(RUN)),
    strategies.commands(RUN),
    strategies.instants(),
)
@settings(max_examples=60, deadline=None)
def test_any_state_and_command_get_an_answer_that_is_always_the_same(
    state: State, command: AnyCommand, now: datetime
) -> None:
    seen = repr((state, command, now))

    decision = decide(state, command, now)

    assert decide(state, command, now) == decision
    assert repr((state, command, now)) == seen
    after = decision.next if isinstance(decision, Write) else state
    refused = decision.code if isinstance(decision, Refused) else None
    check_step(state, command, after, now, refused)


# Liveness


@pytest.mark.parametrize(
    ("left_ms", "answer"),
    [(1, Code.RUN_LEASE_HELD), (0, None), (-1, None)],
)
def test_a_lease_that_ends_exactly_now_is_expired(left_ms: int, answer: Code | None) -> None:
    record = run(owner="b", expires_at=NOW + left_ms * MS)

    acquired = decide(record, Acquire(run_id=RUN, owner="a"), NOW)
    resumed = decide(record, Resume(run_id=RUN), NOW)
    deleted = decide(record, Delete(run_id=RUN), NOW)

    for decision in (acquired, resumed, deleted):
        assert (decision.code if isinstance(decision, Refused) else None) == answer


def test_an_expired_lease_that_nobody_took_may_still_be_used_by_its_holder() -> None:
    long_ago = run(owner="a", expires_at=BEFORE)

    assert written(decide(long_ago, Renew(**FENCED), NOW)).lease == lease("a", 60_000)
    for to in TO.values():
        assert written(decide(long_ago, transition(to), NOW)).status is to


@pytest.mark.parametrize(
    ("owner", "token"), [("b", TOKEN), ("a", TOKEN - 1), ("a", TOKEN + 1), ("A", TOKEN)]
)
@pytest.mark.parametrize("record", [LIVE, EXPIRED])
def test_only_the_owner_with_the_token_holds_the_run(
    record: RunRecord, owner: str, token: int
) -> None:
    fenced: dict[str, Any] = {"run_id": RUN, "owner": owner, "fencing_token": token}

    commands: list[AnyCommand] = [
        Renew(**fenced),
        FenceCheckpoint(**fenced, checkpoint_ref=NEXT_CHECKPOINT),
        *(transition(to, owner=owner, token=token) for to in TO.values()),
    ]
    for command in commands:
        assert refusal(decide(record, command, NOW)) is Code.RUN_LEASE_LOST


# Expected versions

VERSIONED = [name for name in decision_table.COMMANDS if name != "compareAndSet"]
RUNS = {name: state for name, state in STATES.items() if isinstance(state, RunRecord)}


@pytest.mark.parametrize("name", VERSIONED)
def test_another_version_than_the_expected_one_is_a_conflict_before_anything_else(
    name: str,
) -> None:
    for record in RUNS.values():
        for stale in (0, record.version - 1, record.version + 1):
            command = replace(command_named(name, record), expected_version=stale)

            decision = decide(record, command, NOW)

            assert isinstance(decision, Refused)
            assert (decision.code, decision.record) == (Code.RUN_CONFLICT, record)


@pytest.mark.parametrize("expected", [5, Existing.ANY_VERSION])
@pytest.mark.parametrize("name", VERSIONED)
def test_the_expected_version_changes_no_answer_when_it_is_there(
    name: str, expected: int | Existing
) -> None:
    for record in RUNS.values():
        command = command_named(name, record)

        plain = decide(record, command, NOW)

        assert decide(record, replace(command, expected_version=expected), NOW) == plain


@pytest.mark.parametrize("expected", [0, 5, Existing.ANY_VERSION])
@pytest.mark.parametrize("state", [None, TOMBSTONE])
@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("acquire", Code.RUN_CONFLICT),
        ("enqueue", Code.RUN_CONFLICT),
        ("create", Code.RUN_CONFLICT),
        ("delete", Code.RUN_CONFLICT),
        ("renew", Code.RUN_LEASE_LOST),
        ("fence-checkpoint", Code.RUN_LEASE_LOST),
        ("to queued", Code.RUN_LEASE_LOST),
        ("cancel", Code.RUN_NOT_FOUND),
        ("resume", Code.RUN_NOT_FOUND),
        ("revoke", Code.RUN_NOT_FOUND),
    ],
)
def test_an_expected_version_of_a_run_that_is_not_there_never_makes_one(
    state: State, name: str, code: Code, expected: int | Existing
) -> None:
    command = replace(command_named(name, state), expected_version=expected)

    assert refusal(decide(state, command, NOW)) is code
