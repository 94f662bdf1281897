"""The checker finds every kind of wrong history, and finds nothing in a right one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import pytest

from tests.chaos.checker import Snapshot, counts, summary, violations
from tests.chaos.history import NOT_SENT, UNANSWERED, Call, Cut, History

TTL_MS: Final = 500


def record(version: int, token: int, owner: str = "a", **changes: Any) -> dict[str, Any]:  # noqa: ANN401
    """A running record; the owner "" leaves it queued."""
    held: dict[str, Any] = {"status": "running", "lease": {"owner": owner}}
    base = {"runId": "x", "version": version, "fencingToken": token, "attempt": 1}
    return base | (held if owner else {"status": "queued"}) | changes


def call(
    verb: str,
    at: float,
    answer: dict[str, Any] | None = None,
    *,
    owner: str = "a",
    token: int | None = None,
    status: int = 200,
    end: float | None = None,
    retry_after: bool = False,
) -> Call:
    ttl_ms = TTL_MS if verb in ("acquire", "renew", "fence-checkpoint") else 0
    body = b"" if answer is None else json.dumps(answer).encode()
    until = at + 0.01 if end is None else end
    return Call("x", verb, owner, token, ttl_ms, at, until, status, retry_after, body)


def refusal(code: str, of: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"code": code} | ({"record": of} if of else {})


def snapshot(at: float, **records: Any) -> Snapshot:  # noqa: ANN401
    return Snapshot(at, {"x": records["x"]} if "x" in records else {}, records.get("gone", {}))


ACQUIRED: Final = call("acquire", 0.0, record(1, 1), status=201)
RIGHT: Final[History] = [
    ACQUIRED,
    call("acquire", 0.1, refusal("RUN_LEASE_HELD", record(1, 1)), owner="b", status=409),
    call("renew", 0.2, record(2, 1), token=1),
    call("get", 0.3, record(2, 1)),
    # Sent before the lease of a ended, answered after it.
    call("acquire", 0.65, record(3, 2, "b", attempt=2), owner="b", end=0.75),
    call(
        "renew",
        0.8,
        refusal("RUN_LEASE_LOST", record(3, 2, "b", attempt=2)),
        token=1,
        status=409,
    ),
    call("revoke", 0.85, record(4, 3, "", attempt=2), owner=""),
    call("revoke", 0.86, record(4, 3, "", attempt=2), owner=""),  # converges
    call("acquire", 0.87, record(5, 4, attempt=2)),
    call("transition", 0.9, record(6, 4, "", attempt=2, status="completed"), token=4),
    call(
        "cancel",
        0.95,
        refusal("RUN_ALREADY_TERMINAL", record(6, 4, "", attempt=2, status="completed")),
        owner="",
        status=409,
    ),
    call("get", 0.96, status=NOT_SENT),
    call("get", 0.97, refusal("UNAVAILABLE"), status=503, retry_after=True),
]
LAST: Final = record(6, 4, "", attempt=2, status="completed")


def test_nothing_is_wrong_with_a_right_history() -> None:
    found = violations(RIGHT, [snapshot(0.5, x=record(2, 1)), snapshot(1.0, x=LAST)])

    assert found == []


def test_the_figures_of_a_history_count_every_answer() -> None:
    shown = counts(RIGHT)

    assert shown.startswith("13 requests")
    assert "1 acquire RUN_LEASE_HELD" in shown
    assert "1 get refused connection" in shown


def test_a_summary_shows_the_first_and_counts_all() -> None:
    shown = summary([f"violation {number}" for number in range(30)])

    assert shown.startswith("30 violations\nviolation 0\n")
    assert "violation 29" not in shown


WRONG: Final[dict[str, tuple[str, History]]] = {
    "an error of the service": (
        "unexpected answer",
        [call("get", 0.0, refusal("INTERNAL_ERROR"), status=500)],
    ),
    "a refusal that no load can cause": (
        "unexpected answer",
        [call("renew", 0.0, refusal("RUN_VALIDATION_ERROR"), token=1, status=422)],
    ),
    "an answer without a final status": ("unexpected status", [call("get", 0.0, status=102)]),
    "a 503 that does not say when to come again": (
        "503 without Retry-After",
        [call("get", 0.0, refusal("UNAVAILABLE"), status=503)],
    ),
    "a second owner while the first's lease is live": (
        "two live leases",
        [ACQUIRED, call("acquire", 0.4, record(2, 2, "b"), owner="b")],
    ),
    "a second owner while the first's renewed lease is live": (
        "two live leases",
        [
            ACQUIRED,
            call("renew", 0.4, record(2, 1), token=1),
            call("acquire", 0.8, record(3, 2, "b"), owner="b"),
        ],
    ),
    "a second owner, excused by a revoke that came after": (
        "two live leases",
        [
            ACQUIRED,
            call("acquire", 0.2, record(2, 2, "b"), owner="b"),
            call("revoke", 0.3, record(3, 3, ""), owner=""),
        ],
    ),
    "a second owner, whose answer came before the first's": (
        "two live leases",
        [
            call("acquire", 0.0, record(1, 1), end=0.3),
            call("acquire", 0.1, record(2, 2, "b"), owner="b"),
        ],
    ),
    "one token for two grants": (
        "token granted twice",
        [ACQUIRED, call("acquire", 0.6, record(2, 1, "b"), owner="b")],
    ),
    "a later grant with a lower token": (
        "a later grant has no higher token",
        [
            call("acquire", 0.0, record(1, 5)),
            call("acquire", 0.6, record(2, 4, "b"), owner="b"),
        ],
    ),
    "two records of one version": (
        "one version, two records",
        [ACQUIRED, call("get", 0.1, record(1, 1, attempt=2))],
    ),
    "a version that fell": (
        "the version fell",
        [call("renew", 0.0, record(7, 1), token=1), call("get", 0.1, record(6, 1))],
    ),
    "a write that made no version": (
        "a write without a version of its own",
        [ACQUIRED, call("renew", 0.1, record(1, 1), token=1)],
    ),
    "a token that fell": (
        "token or attempt fell",
        [ACQUIRED, call("get", 0.1, record(2, 0, ""))],
    ),
    "an attempt that fell": (
        "token or attempt fell",
        [call("get", 0.0, record(1, 1, attempt=2)), call("get", 0.1, record(2, 1))],
    ),
    "a finished run that runs again": (
        "a finished run changed",
        [
            call("cancel", 0.0, record(2, 2, "", status="cancelled"), owner=""),
            call("acquire", 0.1, record(3, 3)),
        ],
    ),
    "a write under a token that is over": (
        "a stale token was accepted",
        [
            call("acquire", 0.0, record(1, 2, "b"), owner="b"),
            call("renew", 0.1, record(2, 1), token=1),
        ],
    ),
    "a write whose record has another token": (
        "accepted under a token that is not the record's",
        [ACQUIRED, call("renew", 0.1, record(2, 2), token=1)],
    ),
    "one version acknowledged to two renewals": (
        "acknowledged to 2 commands",
        [
            call("renew", 0.0, record(2, 1), token=1, end=0.2),
            call("renew", 0.1, record(2, 1), token=1, end=0.2),
        ],
    ),
}


@pytest.mark.parametrize(("words", "history"), WRONG.values(), ids=WRONG)
def test_a_wrong_history_is_found(words: str, history: History) -> None:
    found = violations(history)

    assert any(words in one for one in found), found


WRONG_FILES: Final[dict[str, tuple[str, History, Snapshot]]] = {
    "an acknowledged write is gone": (
        "version 2 was acknowledged, 1 kept",
        [ACQUIRED, call("renew", 0.1, record(2, 1), token=1)],
        snapshot(0.5, x=record(1, 1)),
    ),
    "an acknowledged run is gone": (
        "version 1 was acknowledged, 0 kept",
        [ACQUIRED],
        snapshot(0.5),
    ),
    "another record is kept under the version": (
        "one version, two records",
        [ACQUIRED],
        snapshot(0.5, x=record(1, 1, "b")),
    ),
    "a write that nobody sent": (
        "version 2 is kept, 1 writes were acknowledged and 0 were open",
        [ACQUIRED],
        snapshot(0.5, x=record(2, 1)),
    ),
    "more writes than were open": (
        "version 3 is kept, 1 writes were acknowledged and 1 were open",
        [ACQUIRED, call("renew", 0.1, token=1, status=UNANSWERED)],
        snapshot(0.5, x=record(3, 1)),
    ),
    "a request that was never sent was carried out": (
        "version 2 is kept, 1 writes were acknowledged and 0 were open",
        [ACQUIRED, call("renew", 0.1, token=1, status=NOT_SENT)],
        snapshot(0.5, x=record(2, 1)),
    ),
    "the token of a deleted run is forgotten": (
        "token 1 was told, -1 kept",
        [ACQUIRED],
        snapshot(0.5),
    ),
    "a tombstone with a lower token": (
        "token 4 was told, 3 kept",
        [call("acquire", 0.0, record(1, 4))],
        snapshot(0.5, gone={"x": 3}),
    ),
}


@pytest.mark.parametrize(("words", "history", "kept"), WRONG_FILES.values(), ids=WRONG_FILES)
def test_a_wrong_file_is_found(words: str, history: History, kept: Snapshot) -> None:
    found = violations(history, [kept])

    assert any(words in one for one in found), found


AGAIN: Final[History] = [
    call("acquire", 0.0, owner="b", status=UNANSWERED),
    call("acquire", 0.1, refusal("RUN_LEASE_HELD", record(1, 1, "b")), owner="c", status=409),
    call("acquire", 0.2, record(1, 1, "b"), owner="b")._replace(again=True),
]


def test_an_acquire_that_is_sent_again_may_answer_what_the_first_one_wrote() -> None:
    kept = snapshot(1.0, x=record(1, 1, "b"))

    assert violations(AGAIN, [kept]) == []
    for wrong in (AGAIN[2]._replace(again=False), AGAIN[2]._replace(owner="a")):
        assert len(violations([*AGAIN[:2], wrong], [kept])) == 1
    assert violations([*AGAIN, AGAIN[2]], [kept])


ENDED: Final[dict[str, Call]] = {
    "a revoke": call("revoke", 0.1, record(2, 2, ""), owner=""),
    "a cancel whose answer was lost": call("cancel", 0.1, owner="", status=UNANSWERED),
    "a release": call("transition", 0.1, record(2, 1, ""), token=1),
}


@pytest.mark.parametrize("ender", ENDED.values(), ids=ENDED)
def test_a_lease_that_was_ended_excludes_nobody(ender: Call) -> None:
    taken = call("acquire", 0.2, record(3, 3, "b"), owner="b")

    assert violations([ACQUIRED, ender, taken]) == []


def test_a_renewal_may_shorten_the_lease_also_when_its_answer_is_lost() -> None:
    shorter = call("renew", 0.1, token=1, status=UNANSWERED)._replace(ttl_ms=100)
    taken = call("acquire", 0.3, record(3, 2, "b"), owner="b")

    assert violations([ACQUIRED, shorter, taken]) == []


def test_a_grant_of_ones_own_takes_the_place_of_the_one_before() -> None:
    again = call("acquire", 0.1, record(2, 2))._replace(ttl_ms=100)
    taken = call("acquire", 0.3, record(3, 3, "b"), owner="b")

    assert violations([ACQUIRED, again, taken]) == []


CUT: Final = Cut(0.12, 0.13)
DONE_TWICE: Final[dict[str, tuple[str, History, dict[str, Any]]]] = {
    "a renewal": (
        "2 writes were acknowledged and 0 were open",
        [ACQUIRED, call("renew", 0.1, record(3, 1), token=1, end=0.2)],
        record(3, 1),
    ),
    "a revoke that hit the next lease as well": (
        "two live leases",
        [
            ACQUIRED,
            call("revoke", 0.1, record(4, 4, ""), owner="", end=0.3),
            call("acquire", 0.15, record(3, 3, "b"), owner="b", end=0.25),
        ],
        record(4, 4, ""),
    ),
    "a release that was done and then refused": (
        "two live leases",
        [
            ACQUIRED,
            call(
                "transition",
                0.1,
                refusal("RUN_LEASE_LOST", record(3, 2, "b")),
                token=1,
                status=409,
                end=0.3,
            ),
            call("acquire", 0.15, record(3, 2, "b"), owner="b", end=0.25),
        ],
        record(3, 2, "b"),
    ),
}


@pytest.mark.parametrize(("words", "history", "last"), DONE_TWICE.values(), ids=DONE_TWICE)
def test_what_a_cut_met_may_have_been_done_twice(
    words: str, history: History, last: dict[str, Any]
) -> None:
    kept = snapshot(1.0, x=last)

    assert violations(history, [kept], cuts=[CUT]) == []
    assert any(words in one for one in violations(history, [kept]))
    late = [one._replace(start=one.start + 9, end=one.end + 9) for one in history]
    assert any(words in one for one in violations(late, [replace(kept, at=10.0)], cuts=[CUT]))


ONLY_TOKENS: Final[list[tuple[Callable[[str], bool], int]]] = [
    (lambda _: True, 0),
    (lambda _: False, 1),
]


@pytest.mark.parametrize(("tokens_only", "number"), ONLY_TOKENS)
def test_of_a_run_that_is_deleted_and_made_again_tokens_alone_are_judged(
    tokens_only: Callable[[str], bool], number: int
) -> None:
    before = call("get", 0.0, record(9, 1))
    anew = call("acquire", 0.1, record(1, 2, "b"), owner="b", status=201)

    found = violations([before, anew], tokens_only=tokens_only)

    assert len(found) == number
