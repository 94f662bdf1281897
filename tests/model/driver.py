"""A random driver: commands that are likely to matter, from a seed that repeats them.

It looks at what the store holds, so that its workers know tokens, its operators know versions, and
the clock stops exactly where a lease ends. What it gives depends on nothing but the seed and the
states, so the same seed gives the same commands to any store that answers as `decide` does.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

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
from runlease_core.errors import Code, RunValidationError
from runlease_core.lifecycle import TERMINAL, RunStatus
from runlease_core.record import CheckpointRef, Lease, Outcome, RunRecord
from tests.model.invariants import State

RUN_IDS: Final = ("run-1", "a/b", "ünï", "x/acquire")
OWNERS: Final = ("worker-a", "worker-b", "worker-c")
GRANTS_MAX: Final = 24
MUTATIONS_MAX: Final = 20

APPLICABLE: Final[Mapping[type[AnyCommand], frozenset[Code]]] = {
    Acquire: frozenset(
        {Code.RUN_CONFLICT, Code.RUN_ALREADY_TERMINAL, Code.RUN_SUSPENDED, Code.RUN_LEASE_HELD}
    ),
    Enqueue: frozenset({Code.RUN_CONFLICT, Code.RUN_ALREADY_TERMINAL}),
    Renew: frozenset({Code.RUN_CONFLICT, Code.RUN_LEASE_LOST}),
    FenceCheckpoint: frozenset({Code.RUN_CONFLICT, Code.RUN_LEASE_LOST}),
    # Only a running run is held, and a running run may become anything: no illegal edge is left.
    Transition: frozenset({Code.RUN_CONFLICT, Code.RUN_LEASE_LOST}),
    Cancel: frozenset({Code.RUN_CONFLICT, Code.RUN_NOT_FOUND, Code.RUN_ALREADY_TERMINAL}),
    Resume: frozenset(
        {
            Code.RUN_CONFLICT,
            Code.RUN_NOT_FOUND,
            Code.RUN_ALREADY_TERMINAL,
            Code.RUN_LEASE_HELD,
            Code.RUN_INVALID_TRANSITION,
        }
    ),
    Revoke: frozenset(
        {
            Code.RUN_CONFLICT,
            Code.RUN_NOT_FOUND,
            Code.RUN_ALREADY_TERMINAL,
            Code.RUN_INVALID_TRANSITION,
        }
    ),
    Create: frozenset({Code.RUN_CONFLICT, Code.RUN_VALIDATION_ERROR}),
    CompareAndSet: frozenset(
        {
            Code.RUN_CONFLICT,
            Code.RUN_NOT_FOUND,
            Code.RUN_ALREADY_TERMINAL,
            Code.RUN_INVALID_TRANSITION,
        }
    ),
    Delete: frozenset({Code.RUN_CONFLICT, Code.RUN_LEASE_HELD}),
}
"""Per command the codes with which a well-formed one can be refused, but for a counter at its
end, which random sequences do not reach."""


def seed_from_environment() -> int:
    """RUNLEASE_TEST_SEED, or a new seed; printed, so that a failure can be repeated."""
    given = os.environ.get("RUNLEASE_TEST_SEED")
    seed = int(given) if given else random.SystemRandom().randrange(2**32)
    print(f"RUNLEASE_TEST_SEED={seed}")
    return seed


@dataclass
class Driver:
    """Gives one command after another. Tell it what was granted, so that workers can be stale."""

    rng: random.Random
    grants: list[tuple[str, str, int]] = field(default_factory=list)

    def pause_ms(self, states: Mapping[str, State], now: datetime) -> int:
        """How far to move the clock: often not at all, often exactly to the end of a lease."""
        ends = [
            round((state.lease.expires_at - now) / timedelta(milliseconds=1))
            for state in states.values()
            if isinstance(state, RunRecord) and state.lease and state.lease.expires_at > now
        ]
        return self.rng.choice(
            [0, 0, 0, 1, self.rng.randrange(2_000), *ends, *(e - 1 for e in ends)]
        )

    def next_command(self, states: Mapping[str, State], now: datetime) -> AnyCommand:
        run_id = self.rng.choice(RUN_IDS)
        state = states.get(run_id)
        make = self.rng.choices(
            [self._acquire, self._fenced, self._operator, self._enqueue, self._raw, self._delete],
            weights=[8, 8, 4, 2, 3, 1],
        )[0]
        return make(run_id, state, now)

    def answered(self, after: State) -> None:
        """Note a grant, so that it can be used and, later, be stale."""
        if not isinstance(after, RunRecord) or after.lease is None:
            return
        grant = (after.run_id, after.lease.owner, after.fencing_token)
        if grant not in self.grants:
            self.grants = [*self.grants, grant][-GRANTS_MAX:]

    def _expected(self, state: State) -> ExpectedVersion:
        version = state.version if isinstance(state, RunRecord) else 1
        if self.rng.random() < 0.7:
            return None
        choices: list[ExpectedVersion] = [
            version,
            version,
            max(0, version - 1),
            version + 1,
            Existing.ANY_VERSION,
        ]
        return self.rng.choice(choices)

    def _acquire(self, run_id: str, state: State, now: datetime) -> AnyCommand:
        return Acquire(
            run_id=run_id,
            expected_version=self._expected(state),
            owner=self.rng.choice(OWNERS),
            lease_ttl_ms=self.rng.choice([100, 1_000]),
            max_attempts=self.rng.choice([None, None, 1, 2]),
            labels=self.rng.choice([{}, {"team": "a"}]),
            idempotency_key=self.rng.choice([None, "k1", "k2"]),
        )

    def _enqueue(self, run_id: str, state: State, now: datetime) -> AnyCommand:
        return Enqueue(
            run_id=run_id,
            expected_version=self._expected(state),
            max_attempts=self.rng.choice([None, 1, 2]),
        )

    def _fenced(self, run_id: str, state: State, now: datetime) -> AnyCommand:
        current = [grant for grant in self.grants if _stands(grant, state)]
        grants = current if current and self.rng.random() < 0.6 else self.grants
        run_id, owner, token = self.rng.choice(grants or [(run_id, OWNERS[0], 1)])
        aimed: dict[str, Any] = {
            "run_id": run_id,
            "owner": owner,
            "fencing_token": token + self.rng.choice([0] * 8 + [1]),
            "expected_version": self._expected(state),
        }
        match self.rng.randrange(4):
            case 0 | 1:
                return Renew(lease_ttl_ms=self.rng.choice([100, 1_000]), **aimed)
            case 2:
                ref = CheckpointRef(f"snapshots/{self.rng.randrange(9)}", 1, now)
                return FenceCheckpoint(checkpoint_ref=ref, lease_ttl_ms=100, **aimed)
            case _:
                to = self.rng.choice([s for s in RunStatus if s is not RunStatus.RUNNING])
                return Transition(
                    to=to,
                    outcome=Outcome("done") if to in TERMINAL else None,
                    pending_approval_ids=("a1",) if to is RunStatus.SUSPENDED else (),
                    **aimed,
                )

    def _operator(self, run_id: str, state: State, now: datetime) -> AnyCommand:
        aimed: dict[str, Any] = {"run_id": run_id, "expected_version": self._expected(state)}
        match self.rng.randrange(5):
            case 0:
                return Cancel(message=self.rng.choice([None, "superseded"]), **aimed)
            case 1 | 2:
                approvals = self.rng.choice([None, ("a1",), ("a2",), ()])
                return Resume(pending_approval_ids=approvals, **aimed)
            case _:
                return Revoke(**aimed)

    def _delete(self, run_id: str, state: State, now: datetime) -> AnyCommand:
        return Delete(
            run_id=run_id,
            expected_version=self._expected(state),
            force=self.rng.random() < 0.3,
        )

    def _raw(self, run_id: str, state: State, now: datetime) -> AnyCommand:
        if not isinstance(state, RunRecord) or self.rng.random() < 0.2:
            floor = state.fencing_token if state else 0
            fresh = RunRecord(
                run_id=run_id,
                version=self.rng.choice([1, 1, 7]),
                status=RunStatus.QUEUED,
                attempt=1,
                fencing_token=max(0, floor + self.rng.choice([-1, 0, 1])),
                created_at=now,
                updated_at=now,
            )
            if self.rng.random() < 0.3:
                return CompareAndSet(
                    run_id=run_id, expected_version=fresh.version - 1, record=fresh
                )
            expected = None if self.rng.random() < 0.8 else self._expected(state)
            return Create(run_id=run_id, expected_version=expected, record=fresh)
        expected_version = state.version - (self.rng.random() < 0.2)
        return CompareAndSet(
            run_id=run_id,
            expected_version=expected_version,
            record=replace(self._mutated(state, now), version=expected_version + 1),
        )

    def _mutated(self, record: RunRecord, now: datetime) -> RunRecord:
        """A well-formed neighbour of a record; it may well break a promise."""
        lease = Lease(self.rng.choice(OWNERS), now, now + timedelta(milliseconds=500))
        mutations: list[Callable[[RunRecord], RunRecord]] = [
            lambda r: replace(r, updated_at=now),
            lambda r: replace(r, fencing_token=max(0, r.fencing_token - 1)),
            lambda r: replace(r, fencing_token=r.fencing_token + 1),
            lambda r: replace(r, attempt=max(1, r.attempt - 1)),
            lambda r: replace(r, attempt=r.attempt + 1),
            lambda r: replace(r, created_at=r.created_at + timedelta(milliseconds=1)),
            lambda r: replace(r, status=RunStatus.RUNNING, lease=lease, suspension=None),
            lambda r: replace(r, status=RunStatus.RUNNING, lease=None, suspension=None),
            lambda r: replace(r, status=RunStatus.QUEUED, lease=None, suspension=None),
            lambda r: replace(r, status=RunStatus.COMPLETED, lease=None),
        ]
        for _ in range(MUTATIONS_MAX):
            mutated = record
            try:
                for mutate in self.rng.sample(mutations, self.rng.choice([1, 1, 2])):
                    mutated = mutate(mutated)
            except RunValidationError:
                continue
            return mutated
        return record


def _stands(grant: tuple[str, str, int], state: State) -> bool:
    run_id, owner, token = grant
    return isinstance(state, RunRecord) and state.run_id == run_id and state.held_by(owner, token)
