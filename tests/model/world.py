"""A handful of runs over a dictionary, with a clock that is moved by hand.

Every command given to a world is judged by `decide` and checked at once: twice judged is judged
alike, the promises of section 7 hold, and the world's own short memory of who holds what agrees.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from runlease_core.commands import AnyCommand, Fenced, Transition
from runlease_core.decide import Converged, Decision, Forbidden, Refused, Write, decide
from runlease_core.errors import Code
from runlease_core.record import RunRecord
from tests.model.invariants import BrokenInvariant, History, State

START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Grant:
    """What a worker remembers of an acquire: it does not forget when the run moves on."""

    run_id: str
    owner: str
    token: int


@dataclass
class World:
    """States, histories and holders of all runs, and a count of what was answered."""

    now: datetime = START
    states: dict[str, State] = field(default_factory=dict)
    histories: dict[str, History] = field(default_factory=lambda: defaultdict(History))
    holders: dict[str, Grant] = field(default_factory=dict)
    accepted: Counter[type[AnyCommand]] = field(default_factory=Counter)
    refused: Counter[tuple[type[AnyCommand], Code]] = field(default_factory=Counter)

    def advance(self, ms: int) -> None:
        self.now += timedelta(milliseconds=ms)

    def record(self, run_id: str) -> RunRecord | None:
        state = self.states.get(run_id)
        return state if isinstance(state, RunRecord) else None

    def give(self, command: AnyCommand) -> Decision:
        """Judge, check, store."""
        before = self.states.get(command.run_id)
        untouched = repr((before, command))

        decision = decide(before, command, self.now)

        assert decide(before, command, self.now) == decision, "twice judged is judged alike"
        assert repr((before, command)) == untouched, "a judgement changes nothing it is given"
        after = decision.next if isinstance(decision, Write) else before
        code = _code(decision)
        self.histories[command.run_id].step(before, command, after, self.now, code)
        self._check_holder(command, decision)
        self._remember(command, decision, after)
        return decision

    def _check_holder(self, command: AnyCommand, decision: Decision) -> None:
        """The holder's fenced write is accepted, and nobody else's."""
        if not isinstance(command, Fenced) or _code(decision) is Code.RUN_CONFLICT:
            return
        holder = self.holders.get(command.run_id)
        holds = holder == Grant(command.run_id, command.owner, command.fencing_token)
        if holds != isinstance(decision, Write):
            raise BrokenInvariant(f"{holder} holds the run, and {command} got {decision}")
        if isinstance(decision, Converged) and not isinstance(command, Transition):
            raise BrokenInvariant(f"{command} was not written")

    def _remember(self, command: AnyCommand, decision: Decision, after: State) -> None:
        code = _code(decision)
        if code is None:
            self.accepted[type(command)] += 1
        else:
            self.refused[type(command), code] += 1
        if not isinstance(decision, Write):
            return
        self.states[command.run_id] = after
        self.holders.pop(command.run_id, None)
        if isinstance(after, RunRecord) and after.lease is not None:
            self.holders[command.run_id] = Grant(
                command.run_id, after.lease.owner, after.fencing_token
            )


def _code(decision: Decision) -> Code | None:
    match decision:
        case Refused():
            return decision.code
        case Write(refusal=Refused(code=code)):
            return code
        case Write() | Converged():
            return None
        case Forbidden():
            raise BrokenInvariant(f"nobody here has a credential: {decision}")
