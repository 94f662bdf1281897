"""What no history of a correct service shows. Pure functions: each reads a history and returns the
violations that it found, as sentences.

Only what a client can know is used. A request that was answered happened somewhere between its
start and its end, so "before" always means: ended before the other started. One whose answer never
came, or was 503, may have happened or not. Versions of a run are told apart by its `createdAt`
only where a test deletes runs; there, tokens alone are judged (`tokens_only`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.chaos.history import (
    FENCED,
    GRANTS,
    LEASES,
    NOT_SENT,
    READS,
    TERMINAL,
    UNAVAILABLE,
    Call,
    Cut,
    Event,
    canonical,
)

CLOCK_S: Final = 0.001
"""Instants are cut to whole milliseconds, so a lease may end this much early."""
UNKNOWN_S: Final = 15.0
"""How long after a lost answer its command may still be carried out."""
CUT_S: Final = 0.5
"""How long after it was ordered a cut may still hit a command."""
GRANTS_COMPARED: Final = 8
"""With how many of the grants that follow it a grant is compared."""
SHOWN_MAX: Final = 20
REFUSALS: Final = frozenset(
    {
        "RUN_LEASE_HELD",
        "RUN_LEASE_LOST",
        "RUN_ALREADY_TERMINAL",
        "RUN_SUSPENDED",
        "RUN_INVALID_TRANSITION",
        "RUN_NOT_FOUND",
    }
)
"""What a load may be told beside 2xx and 503."""


@dataclass(frozen=True)
class Snapshot:
    """What lay in the file at a moment when nobody could write."""

    at: float
    records: Mapping[str, Mapping[str, object]]
    tombstones: Mapping[str, int]

    def token(self, run_id: str) -> int:
        record = self.records.get(run_id)
        if record is None:
            return self.tombstones.get(run_id, -1)
        token = record["fencingToken"]
        assert isinstance(token, int)
        return token


def violations(
    history: Iterable[Call],
    snapshots: Sequence[Snapshot] = (),
    *,
    tokens_only: Callable[[str], bool] = lambda _: False,
    cuts: Collection[Cut] = (),
) -> list[str]:
    """Everything that is wrong with a history and the files that it left."""
    by_run: dict[str, list[Event]] = defaultdict(list)
    for call in history:
        met = [cut for cut in cuts if call.start < cut.end + CUT_S and cut.start < call.end]
        by_run[call.run_id].append(Event(call, 0 if call.status == NOT_SENT else len(met)))
    found = unexpected_answers(event for events in by_run.values() for event in events)
    for run_id, events in sorted(by_run.items()):
        found += grants_that_repeat_a_token(events)
        found += grants_of_others(events)
        found += leases_that_overlap(events)
        found += lost_tokens(run_id, events, snapshots)
        if not tokens_only(run_id):
            seen = [*events, *_as_events(run_id, snapshots)]
            found += versions_that_differ(seen)
            found += steps_backwards(seen)
            found += writes_under_an_old_token(seen)
            found += versions_acknowledged_twice(events)
            found += lost_writes(run_id, events, snapshots)
    return found


def unexpected_answers(events: Iterable[Event]) -> list[str]:
    """5xx other than 503, a 503 that does not say when to come again, a refusal that the load
    cannot have caused."""
    found = []
    for event in events:
        status = event.call.status
        if status == UNAVAILABLE:
            if not event.call.retry_after:
                found.append(f"503 without Retry-After: {event}")
        elif status >= 500 or (status >= 300 and event.code not in REFUSALS):
            found.append(f"unexpected answer: {event}")
        elif 0 < status < 200:
            found.append(f"unexpected status: {event}")
    return found


def grants_that_repeat_a_token(events: Sequence[Event]) -> list[str]:
    """A token is granted once, and a later grant has a higher one."""
    grants = [event for event in events if event.done and event.call.verb in GRANTS]
    count = Counter(event.token for event in grants)
    found = [f"token granted twice: {event}" for event in grants if count[event.token] > 1]
    return found + [
        f"a later grant has no higher token: {event} after {before}"
        for event, before in _with_highest_before(grants, grants, _token)
        if event.token <= before.token
    ]


def grants_of_others(events: Iterable[Event]) -> list[str]:
    """Whoever is granted a run is who asked."""
    return [
        f"a grant of somebody else's lease: {event}"
        for event in events
        if event.done
        and event.call.verb in GRANTS
        and (event.record or {}).get("lease", {}).get("owner") != event.call.owner
    ]


def leases_that_overlap(events: Sequence[Event]) -> list[str]:
    """While a worker may count on its lease, no other worker is granted the run: from its answer
    until the lease's length after the last renewal was *sent*. A cancel, a revoke and the worker's
    own end of the lease end it sooner."""
    believed = _believed_until(events)
    enders = [event for event in events if _may_end_a_lease(event)]
    grants = sorted((one for one in events if one.call.verb in GRANTS and one.done), key=_token)
    found = []
    for position, held in enumerate(grants, 1):
        until = believed[held.token]
        for taken in grants[position : position + GRANTS_COMPARED]:
            if taken.call.owner == held.call.owner:
                break  # a grant of its own took this one's place, and is compared by itself
            if taken.call.end < until - CLOCK_S and not any(
                _ended_between(held, ender, taken) for ender in enders
            ):
                found.append(f"two live leases: {held} until {until:.6f}, then {taken}")
    return found


def _believed_until(events: Sequence[Event]) -> dict[int, float]:
    """Until when the holder of each token counts on it: the last renewal decides, since it may
    also make the lease shorter, and one whose answer was lost may have been the last."""
    last: dict[int, Event] = {}
    for event in events:
        if event.done and _leases(event) and event.version >= _version(last.get(event.token)):
            last[event.token] = event
    until = {token: _end_of_lease(event) for token, event in last.items()}
    for event in events:
        token = event.call.token
        if event.unknown and _leases(event) and token in until:
            until[token] = min(until[token], _end_of_lease(event))
    return until


def _leases(event: Event) -> bool:
    return event.call.verb in LEASES


def _end_of_lease(event: Event) -> float:
    return event.call.start + event.call.ttl_ms / 1000


def _may_end_a_lease(event: Event) -> bool:
    if event.call.verb in READS | {"renew", "fence-checkpoint"}:
        return False
    if event.unknown or event.cuts:
        return True
    return event.done and not (event.record or {}).get("lease")


def _ended_between(held: Event, ender: Event, taken: Event) -> bool:
    if ender.call.start > taken.call.end:
        return False
    if ender.call.verb in GRANTS and ender.call.owner != held.call.owner:
        return False  # a grant to a third ends nothing: it would have to be refused
    if ender.done and ender.record and not ender.cuts:
        return held.version < ender.version < taken.version
    return ender.call.end + (UNKNOWN_S if ender.unknown else 0) > held.call.start


def versions_that_differ(events: Sequence[Event]) -> list[str]:
    """Whoever sees a version sees the same record."""
    texts: dict[int, Event] = {}
    found = []
    for event in events:
        if event.record is not None:
            first = texts.setdefault(event.version, event)
            if first.text != event.text:
                found.append(f"one version, two records: {first.text} and {event.text} ({event})")
    return found


def steps_backwards(events: Sequence[Event]) -> list[str]:
    """What was told once is never taken back: version, token and attempt do not fall, a write
    rises above all that was told before it, and a finished run stays as it is."""
    known = [event for event in events if event.record is not None]
    found = []
    for event, before in _with_highest_before(known, known, lambda one: one.version):
        assert event.record is not None
        assert before.record is not None
        if event.version < before.version:
            found.append(f"the version fell: {event} after {before}")
        elif _always_writes(event) and event.version == before.version:
            found.append(f"a write without a version of its own: {event} after {before}")
        elif event.token < before.token or event.record["attempt"] < before.record["attempt"]:
            found.append(f"token or attempt fell: {event} after {before}")
        elif before.record["status"] in TERMINAL and event.version != before.version:
            found.append(f"a finished run changed: {event} after {before}")
    return found


def writes_under_an_old_token(events: Sequence[Event]) -> list[str]:
    """Nothing is accepted under token N once any answer told of N+1, and what is accepted under N
    makes a record with token N."""
    accepted = [event for event in events if event.done and event.call.verb in FENCED]
    found = [
        f"accepted under a token that is not the record's: {event}"
        for event in accepted
        if event.token != event.call.token
    ]
    known = [event for event in events if event.record is not None]
    return found + [
        f"a stale token was accepted: {event} after {before}"
        for event, before in _with_highest_before(accepted, known, _token)
        if (event.call.token or 0) < before.token
    ]


def versions_acknowledged_twice(events: Sequence[Event]) -> list[str]:
    """A version is acknowledged to one write. A command that converges repeats the version that
    it found, but a renewal, a checkpoint and a grant always make their own."""
    writers: Counter[int] = Counter()
    for event in events:
        if event.done and event.call.verb not in READS:
            writers[event.version] += 1
    return [
        f"a version was acknowledged to {writers[event.version]} commands: {event}"
        for event in events
        if _always_writes(event) and writers[event.version] > 1
    ]


def lost_writes(run_id: str, events: Sequence[Event], snapshots: Sequence[Snapshot]) -> list[str]:
    """A file holds every write that was acknowledged before it was read. What it holds beyond
    them are writes whose answers were still to come, so not more than there were of those."""
    found = []
    for snapshot in snapshots:
        done = [event for event in events if _is_write(event) and event.call.end <= snapshot.at]
        acknowledged = {event.version for event in done}
        version = snapshot.records.get(run_id, {}).get("version", 0)
        assert isinstance(version, int)
        if version < max(acknowledged, default=0):
            found.append(f"{run_id}: version {max(acknowledged)} was acknowledged, {version} kept")
            continue
        open_then = sum(
            (event.unknown or event.call.end > snapshot.at) + event.cuts
            for event in events
            if event.call.verb not in READS
            and event.call.status != NOT_SENT
            and event.call.start < snapshot.at
        )
        if version - len(acknowledged) > open_then:
            found.append(
                f"{run_id}: version {version} is kept, {len(acknowledged)} writes were "
                f"acknowledged and {open_then} were open"
            )
    return found


def lost_tokens(run_id: str, events: Sequence[Event], snapshots: Sequence[Snapshot]) -> list[str]:
    """The file's token, a tombstone's too, is at least the highest that was told."""
    found = []
    for snapshot in snapshots:
        told = [one.token for one in events if one.record and one.call.end <= snapshot.at]
        if snapshot.token(run_id) < max(told, default=-1):
            kept = snapshot.token(run_id)
            found.append(f"{run_id}: token {max(told)} was told, {kept} kept")
    return found


def summary(found: Collection[str]) -> str:
    """The violations as a test's message: the first of them, and how many there are."""
    shown = list(found)[:SHOWN_MAX]
    return "\n".join([f"{len(found)} violations", *shown])


def counts(history: Sequence[Call]) -> str:
    """How much happened, for the figures that a test prints."""
    verbs: Counter[str] = Counter()
    for call in history:
        told = {NOT_SENT: "refused connection", 0: "unanswered"}.get(call.status)
        if told is None:
            told = "ok" if call.status < 300 else Event(call).code
        verbs[f"{call.verb} {told}"] += 1
    waits = sorted(call.end - call.start for call in history if call.status > 0) or [0.0]
    p50, p99 = waits[len(waits) // 2], waits[len(waits) * 99 // 100]
    lines = [f"  {number:7} {verb}" for verb, number in sorted(verbs.items())]
    head = (
        f"{len(history)} requests, p50 {p50 * 1000:.1f} ms, p99 {p99 * 1000:.1f} ms, "
        f"longest {waits[-1] * 1000:.0f} ms"
    )
    return "\n".join([head, *lines])


def _ended(event: Event) -> float:
    return event.call.end


def _token(event: Event) -> int:
    return event.token


def _version(event: Event | None) -> int:
    return event.version if event else 0


def _always_writes(event: Event) -> bool:
    return event.done and event.call.verb in LEASES and not event.call.again


def _is_write(event: Event) -> bool:
    return event.done and event.record is not None and event.call.verb not in READS


def _as_events(run_id: str, snapshots: Sequence[Snapshot]) -> Iterator[Event]:
    for snapshot in snapshots:
        if run_id in snapshot.records:
            body = canonical(snapshot.records[run_id]).encode()
            at = snapshot.at
            yield Event(
                Call(run_id, "stored", "", None, 0, at, at, 200, retry_after=False, body=body)
            )


def _with_highest_before(
    events: Iterable[Event], others: Iterable[Event], height: Callable[[Event], int]
) -> Iterator[tuple[Event, Event]]:
    """Each event with the highest of those that had ended before it started, if any had."""
    ended = sorted(others, key=_ended)
    highest: Event | None = None
    position = 0
    for event in sorted(events, key=lambda one: one.call.start):
        while position < len(ended) and ended[position].call.end < event.call.start:
            if highest is None or height(ended[position]) >= height(highest):
                highest = ended[position]
            position += 1
        if highest is not None and highest is not event:
            yield event, highest
