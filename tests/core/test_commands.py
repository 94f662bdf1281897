"""Commands: one that exists is well-formed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from typing import Any, get_args

import pytest
from hypothesis import given, settings

from runlease_core.commands import (
    Acquire,
    AnyCommand,
    Cancel,
    CompareAndSet,
    Create,
    Delete,
    Enqueue,
    Existing,
    FenceCheckpoint,
    Renew,
    Resume,
    Revoke,
    Transition,
    check_lease_ttl_ms,
)
from runlease_core.decide import decide
from runlease_core.errors import RunValidationError
from runlease_core.lifecycle import RunStatus
from runlease_core.record import Outcome
from tests import strategies
from tests.core.examples import (
    FENCED,
    FRESH,
    LIVE,
    NEXT_CHECKPOINT,
    NOW,
    QUEUED,
    RUN,
)

EVERY: dict[type[AnyCommand], AnyCommand] = {
    Acquire: Acquire(run_id=RUN, owner="a"),
    Enqueue: Enqueue(run_id=RUN),
    Renew: Renew(**FENCED),
    FenceCheckpoint: FenceCheckpoint(**FENCED, checkpoint_ref=NEXT_CHECKPOINT),
    Transition: Transition(**FENCED, to=RunStatus.COMPLETED),
    Cancel: Cancel(run_id=RUN),
    Resume: Resume(run_id=RUN),
    Revoke: Revoke(run_id=RUN),
    Create: Create(run_id=RUN, record=FRESH),
    CompareAndSet: CompareAndSet(run_id=RUN, expected_version=0, record=FRESH),
    Delete: Delete(run_id=RUN),
}
COMMANDS = pytest.mark.parametrize("command", EVERY.values(), ids=lambda c: type(c).__name__)


def refused_field(build: Callable[[], object]) -> str:
    with pytest.raises(RunValidationError) as refused:
        build()
    return refused.value.field


def test_every_command_is_told_of_here() -> None:
    assert set(EVERY) == set(get_args(AnyCommand))


@COMMANDS
def test_every_command_names_a_well_formed_run(command: AnyCommand) -> None:
    for run_id in ("", " a", "a/../b", "\0", 1, None):
        wrong: Any = run_id
        assert refused_field(lambda: replace(command, run_id=wrong)) == "runId"  # noqa: B023


@COMMANDS
def test_every_command_takes_an_expected_version(command: AnyCommand) -> None:
    for expected in (True, "5", 1.0, -1, 2**53, "*"):
        wrong: Any = expected
        field = refused_field(lambda: replace(command, expected_version=wrong))  # noqa: B023
        assert field == "expectedVersion"
    if not isinstance(command, CompareAndSet):
        for right in (None, 0, 5, Existing.ANY_VERSION):
            assert replace(command, expected_version=right).expected_version == right


@COMMANDS
def test_no_command_can_be_changed(command: AnyCommand) -> None:
    name = "run_id"
    with pytest.raises(FrozenInstanceError):
        setattr(command, name, "other")


@pytest.mark.parametrize("kind", [Acquire, Renew, FenceCheckpoint, Transition])
def test_an_owner_is_checked(kind: type[AnyCommand]) -> None:
    wrong: Any
    for wrong in ("", " ", "o" * 256, None, 1):
        command: Any = EVERY[kind]
        assert refused_field(lambda: replace(command, owner=wrong)) == "owner"  # noqa: B023


@pytest.mark.parametrize("kind", [Renew, FenceCheckpoint, Transition])
def test_a_fencing_token_is_a_counter(kind: type[AnyCommand]) -> None:
    wrong: Any
    for wrong in (True, "3", 3.0, -1, 2**53, 2**63, None, float("nan")):
        command: Any = EVERY[kind]
        field = refused_field(lambda: replace(command, fencing_token=wrong))  # noqa: B023
        assert field == "fencingToken"


@pytest.mark.parametrize("kind", [Acquire, Renew, FenceCheckpoint])
def test_a_lease_is_never_clamped(kind: type[AnyCommand]) -> None:
    command: Any = EVERY[kind]
    wrong: Any
    for wrong in (0, 99, 86_400_001, -1, True, "60000", 60_000.5, 1e400, None):
        field = refused_field(lambda: replace(command, lease_ttl_ms=wrong))  # noqa: B023
        assert field == "leaseTtlMs"
    for right in (100, 86_400_000):
        assert replace(command, lease_ttl_ms=right).lease_ttl_ms == right
    assert command.lease_ttl_ms == 60_000
    assert check_lease_ttl_ms(100) == 100


@pytest.mark.parametrize("kind", [Acquire, Enqueue])
def test_what_a_new_run_brings_is_checked(kind: type[AnyCommand]) -> None:
    command: Any = EVERY[kind]
    labels = {"team": "blue"}
    made = replace(command, labels=labels)
    labels["team"] = "red"

    assert made.labels == {"team": "blue"}
    assert refused_field(lambda: replace(command, labels={"": "v"})) == "labels key"
    wrong: Any
    for wrong in (0, 10_001, True, "1"):
        field = refused_field(lambda: replace(command, max_attempts=wrong))  # noqa: B023
        assert field == "maxAttempts"


@pytest.mark.parametrize("key", ["", "k" * 256, "\0", 1])
def test_an_idempotency_key_is_bounded_text(key: Any) -> None:  # noqa: ANN401 (wrong on purpose)
    field = refused_field(lambda: Acquire(run_id=RUN, owner="a", idempotency_key=key))

    assert field == "Idempotency-Key"


@pytest.mark.parametrize("to", ["running", "queued", "done", "", None, 1, True])
def test_a_transition_goes_to_a_status_that_can_be_written(to: Any) -> None:  # noqa: ANN401
    assert refused_field(lambda: Transition(**FENCED, to=to)) == "to"
    assert refused_field(lambda: Transition(**FENCED, to=RunStatus.RUNNING)) == "to"


@pytest.mark.parametrize("to", [RunStatus.QUEUED, RunStatus.SUSPENDED])
def test_only_an_end_has_an_outcome(to: RunStatus) -> None:
    field = refused_field(lambda: Transition(**FENCED, to=to, outcome=Outcome("x")))

    assert field == "outcome"


@pytest.mark.parametrize("to", [s for s in RunStatus if s not in ("running", "suspended")])
def test_only_a_suspension_waits_for_approvals(to: RunStatus) -> None:
    field = refused_field(lambda: Transition(**FENCED, to=to, pending_approval_ids=("a1",)))

    assert field == "pendingApprovalIds"


def test_approval_ids_are_checked() -> None:
    suspend = {"to": RunStatus.SUSPENDED, "pending_approval_ids": ("",)}
    wrong: Any = suspend

    assert refused_field(lambda: Transition(**FENCED, **wrong)) == "pendingApprovalIds[0]"
    resume = refused_field(lambda: Resume(run_id=RUN, pending_approval_ids=("a", "\0")))
    assert resume == "pendingApprovalIds[1]"


@pytest.mark.parametrize("kind", [Cancel, Revoke])
def test_an_operators_message_is_checked(kind: Callable[..., AnyCommand]) -> None:
    assert refused_field(lambda: kind(run_id=RUN, message="\0")) == "message"
    assert refused_field(lambda: kind(run_id=RUN, message="m" * 4097)) == "message"
    assert kind(run_id=RUN, message="").run_id == RUN


def test_a_raw_record_is_filed_under_its_own_id() -> None:
    assert refused_field(lambda: Create(run_id="other", record=FRESH)) == "runId"
    field = refused_field(lambda: CompareAndSet(run_id="other", expected_version=0, record=FRESH))
    assert field == "runId"


@pytest.mark.parametrize("expected", [3, 5, 6])
def test_a_swap_brings_the_next_version(expected: int) -> None:
    field = refused_field(
        lambda: CompareAndSet(run_id=RUN, expected_version=expected, record=QUEUED)
    )

    assert field == "version"


@pytest.mark.parametrize("expected", [None, Existing.ANY_VERSION])
def test_a_swap_names_a_version(expected: Existing | None) -> None:
    field = refused_field(
        lambda: CompareAndSet(run_id=RUN, expected_version=expected, record=QUEUED)
    )

    assert field == "expectedVersion"


@given(strategies.commands())
@settings(max_examples=30, deadline=None)
def test_every_command_of_the_strategies_can_be_judged(command: AnyCommand) -> None:
    decide(None, command, NOW)

    assert replace(command) == command


def test_an_acquired_run_needs_no_more_than_an_owner() -> None:
    command = Acquire(run_id=RUN, owner="a")

    assert (command.labels, command.max_attempts, command.idempotency_key) == ({}, None, None)
    assert LIVE.lease is not None
