"""Random sequences against the rules: section 7 holds after every step.

Two drivers: hypothesis, which shrinks what it breaks, and a long seeded run, which ends only when
every command was accepted and every applicable code was refused. RUNLEASE_TEST_SEED repeats it.
"""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from typing import Final, get_args

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

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
from runlease_core.decide import Converged, Write
from runlease_core.errors import Code, RunValidationError
from runlease_core.lifecycle import TERMINAL, RunStatus
from runlease_core.record import CheckpointRef, Lease, Outcome, RunRecord, is_run_lease_live
from tests.model.driver import APPLICABLE, Driver, seed_from_environment
from tests.model.world import Grant, World

STEPS_MAX: Final = 60_000
RUN_IDS = st.sampled_from(["run-1", "run-2"])
WORKERS = st.sampled_from(["worker-a", "worker-b", "worker-c"])
TTLS = st.sampled_from([100, 101, 1_000])
KEYS = st.none() | st.sampled_from(["k1", "k2"])
APPROVALS = st.sampled_from([(), ("a1",), ("a2",), ("a1", "a2")])
VERSIONS = st.just(None) | st.sampled_from([-1, 0, 0, 1]) | st.just(Existing.ANY_VERSION)
ENDS = st.sampled_from([status for status in RunStatus if status is not RunStatus.RUNNING])


class Rules(RuleBasedStateMachine):
    """Workers that work, crash and come back late; operators; raw writers; a clock by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.grants: list[Grant] = []

    @initialize(max_attempts=st.none() | st.integers(1, 2))
    def a_queued_run(self, max_attempts: int | None) -> None:
        self.world.give(Enqueue(run_id="run-2", max_attempts=max_attempts))

    def _version(self, run_id: str, offset: int | Existing | None) -> ExpectedVersion:
        if not isinstance(offset, int):
            return offset
        record = self.world.record(run_id)
        return max(0, (record.version if record else 1) + offset)

    @rule(run_id=RUN_IDS, owner=WORKERS, ttl=TTLS, key=KEYS, offset=VERSIONS)
    def acquire(
        self, run_id: str, owner: str, ttl: int, key: str | None, offset: int | Existing | None
    ) -> None:
        before = self.world.record(run_id)
        decision = self.world.give(
            Acquire(
                run_id=run_id,
                expected_version=self._version(run_id, offset),
                owner=owner,
                lease_ttl_ms=ttl,
                idempotency_key=key,
                max_attempts=2,
            )
        )
        if isinstance(decision, Write) and decision.refusal is None:
            assert isinstance(decision.next, RunRecord)
            self.grants.append(Grant(run_id, owner, decision.next.fencing_token))
        if isinstance(decision, Converged):
            assert before is not None
            assert Grant(run_id, owner, before.fencing_token) in self.grants

    @rule(run_id=RUN_IDS)
    def enqueue(self, run_id: str) -> None:
        self.world.give(Enqueue(run_id=run_id, max_attempts=1))

    @precondition(lambda self: self.grants)
    @rule(data=st.data(), ttl=TTLS, offset=VERSIONS)
    def renew(self, data: st.DataObject, ttl: int, offset: int | Existing | None) -> None:
        grant = self._grant(data)
        self.world.give(
            Renew(
                run_id=grant.run_id,
                owner=grant.owner,
                fencing_token=grant.token,
                lease_ttl_ms=ttl,
                expected_version=self._version(grant.run_id, offset),
            )
        )

    @precondition(lambda self: self.grants)
    @rule(data=st.data(), ttl=TTLS, number=st.integers(0, 5))
    def checkpoint(self, data: st.DataObject, ttl: int, number: int) -> None:
        grant = self._grant(data)
        self.world.give(
            FenceCheckpoint(
                run_id=grant.run_id,
                owner=grant.owner,
                fencing_token=grant.token,
                lease_ttl_ms=ttl,
                checkpoint_ref=CheckpointRef("snapshots", number, self.world.now),
            )
        )

    @precondition(lambda self: self.grants)
    @rule(data=st.data(), to=ENDS, pending=APPROVALS)
    def give_up(self, data: st.DataObject, to: RunStatus, pending: tuple[str, ...]) -> None:
        grant = self._grant(data)
        self.world.give(
            Transition(
                run_id=grant.run_id,
                owner=grant.owner,
                fencing_token=grant.token,
                to=to,
                outcome=Outcome("done", "text") if to in TERMINAL else None,
                pending_approval_ids=pending if to is RunStatus.SUSPENDED else (),
            )
        )

    @precondition(lambda self: self.grants)
    @rule(data=st.data(), thief=WORKERS, step=st.sampled_from([-1, 0, 1]))
    def forge(self, data: st.DataObject, thief: str, step: int) -> None:
        """A token is guessed, or taken from another worker."""
        grant = self._grant(data)
        self.world.give(
            Renew(run_id=grant.run_id, owner=thief, fencing_token=max(0, grant.token + step))
        )

    def _grant(self, data: st.DataObject) -> Grant:
        """Any grant ever made: a worker that crashed and comes back knows only its own."""
        return data.draw(st.sampled_from(self.grants[::-1]))

    @rule(run_id=RUN_IDS, offset=VERSIONS)
    def cancel(self, run_id: str, offset: int | Existing | None) -> None:
        version = self._version(run_id, offset)
        self.world.give(Cancel(run_id=run_id, expected_version=version, message="superseded"))

    @rule(run_id=RUN_IDS, pending=st.none() | APPROVALS, offset=VERSIONS)
    def resume(
        self, run_id: str, pending: tuple[str, ...] | None, offset: int | Existing | None
    ) -> None:
        version = self._version(run_id, offset)
        self.world.give(
            Resume(run_id=run_id, expected_version=version, pending_approval_ids=pending)
        )

    @rule(run_id=RUN_IDS, offset=VERSIONS)
    def revoke(self, run_id: str, offset: int | Existing | None) -> None:
        self.world.give(Revoke(run_id=run_id, expected_version=self._version(run_id, offset)))

    @rule(run_id=RUN_IDS, force=st.booleans(), offset=VERSIONS)
    def delete(self, run_id: str, force: bool, offset: int | Existing | None) -> None:
        version = self._version(run_id, offset)
        self.world.give(Delete(run_id=run_id, expected_version=version, force=force))

    @rule(run_id=RUN_IDS, token=st.integers(0, 8), owner=st.none() | WORKERS)
    def raw_create(self, run_id: str, token: int, owner: str | None) -> None:
        now = self.world.now
        record = RunRecord(
            run_id=run_id,
            version=1,
            status=RunStatus.RUNNING if owner else RunStatus.QUEUED,
            attempt=1,
            fencing_token=token,
            lease=Lease(owner, now, now + timedelta(milliseconds=100)) if owner else None,
            created_at=now,
            updated_at=now,
        )
        decision = self.world.give(Create(run_id=run_id, record=record))
        if owner and isinstance(decision, Write):
            self.grants.append(Grant(run_id, owner, token))

    @precondition(lambda self: any(map(self.world.record, ["run-1", "run-2"])))
    @rule(
        data=st.data(),
        status=st.none() | st.sampled_from(RunStatus),
        owner=st.none() | WORKERS,
        steps=st.tuples(*[st.sampled_from([0, 0, 0, -1, 1])] * 4),
    )
    def raw_swap(
        self,
        data: st.DataObject,
        status: RunStatus | None,
        owner: str | None,
        steps: tuple[int, int, int, int],
    ) -> None:
        """Any well-formed neighbour of the record, legal or not."""
        stored = [record for run in ("run-1", "run-2") if (record := self.world.record(run))]
        record = data.draw(st.sampled_from(stored))
        now = self.world.now
        try:
            mutated = replace(
                record,
                version=record.version + 1,
                status=status or record.status,
                lease=Lease(owner, now, now + timedelta(milliseconds=100)) if owner else None,
                suspension=None,
                outcome=None,
                fencing_token=record.fencing_token + steps[0],
                attempt=record.attempt + steps[1],
                created_at=record.created_at + timedelta(milliseconds=max(0, steps[2])),
            )
        except RunValidationError:
            return
        expected = record.version + min(0, steps[3])
        mutated = replace(mutated, version=expected + 1)
        decision = self.world.give(
            CompareAndSet(run_id=record.run_id, expected_version=expected, record=mutated)
        )
        if owner and isinstance(decision, Write):
            self.grants.append(Grant(record.run_id, owner, mutated.fencing_token))

    @rule(ms=st.sampled_from([1, 99, 100, 1_000]))
    def time_passes(self, ms: int) -> None:
        self.world.advance(ms)

    @rule(run_id=RUN_IDS, short=st.sampled_from([0, 0, 1]))
    def until_a_lease_ends(self, run_id: str, short: int) -> None:
        """Exactly to the end, or one millisecond short of it."""
        record = self.world.record(run_id)
        if record is None or record.lease is None or not is_run_lease_live(record, self.world.now):
            return
        self.world.now = record.lease.expires_at - timedelta(milliseconds=short)
        assert is_run_lease_live(record, self.world.now) == bool(short)

    @invariant()
    def the_store_holds_what_the_histories_say(self) -> None:
        for run_id, history in self.world.histories.items():
            assert self.world.states.get(run_id) == history.state


Rules.TestCase.settings = settings(
    max_examples=250,
    stateful_step_count=50,
    deadline=None,
    print_blob=True,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow],
)
TestRules = Rules.TestCase


def test_a_long_random_run_ends_when_every_command_and_every_refusal_was_seen() -> None:
    rng = random.Random(seed_from_environment())
    driver, world = Driver(rng), World()
    missing = _missing(world)
    steps = 0

    while (missing or steps < 5_000) and steps < STEPS_MAX:
        steps += 1
        world.advance(driver.pause_ms(world.states, world.now))
        command = driver.next_command(world.states, world.now)
        world.give(command)
        driver.answered(world.states.get(command.run_id))
        missing = _missing(world)

    assert not missing, f"never seen in {steps} steps: {sorted(missing)}"
    unknown = {pair for pair in world.refused if pair[1] not in APPLICABLE[pair[0]]}
    assert not unknown, "a command was refused with a code that the table does not give it"


def test_the_table_of_applicable_codes_names_every_command() -> None:
    assert set(APPLICABLE) == set(get_args(AnyCommand))
    assert set().union(*APPLICABLE.values()) == set(Code) - {
        Code.RUN_INTEGRITY_ERROR,
        Code.RUN_STORE_ATOMIC_REQUIRED,
    }


def _missing(world: World) -> set[str]:
    return {
        f"{command.__name__} accepted" for command in APPLICABLE if not world.accepted[command]
    } | {
        f"{command.__name__} {code}"
        for command, codes in APPLICABLE.items()
        for code in codes
        if not world.refused[command, code]
    }
