"""What each field may hold: design, section 2."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings

from runlease_core import fields
from runlease_core.errors import RunValidationError
from runlease_core.fields import (
    COUNTER_MAX,
    check_approval_ids,
    check_counter,
    check_labels,
    check_message,
    check_owner,
    check_run_id,
    check_text,
)
from tests import strategies

CONTROLS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))]
SURROGATES = ["\ud800", "\udbff", "\udc00", "\udfff", "a\ud83d", "\ude00\ud83d"]
SPACES = [
    chr(code) for code in range(0x20, 0x3002) if chr(code).isspace() and chr(code) not in CONTROLS
]


def test_the_bounds_are_the_designs() -> None:
    assert COUNTER_MAX == 9_007_199_254_740_991
    assert (fields.RUN_ID_LENGTH_MAX, fields.OWNER_LENGTH_MAX) == (512, 255)
    assert (fields.LABELS_MAX, fields.LABEL_KEY_LENGTH_MAX) == (16, 63)
    assert (fields.LABEL_VALUE_LENGTH_MAX, fields.MAX_ATTEMPTS_MAX) == (255, 10_000)
    assert (fields.LEASE_TTL_MS_MIN, fields.LEASE_TTL_MS_MAX) == (100, 86_400_000)
    assert fields.LEASE_TTL_MS_DEFAULT == 60_000


# Run ids


@pytest.mark.parametrize(
    "run_id",
    [
        "r",
        "run-1",
        "a/b",
        "a/b/c",
        "x/acquire",
        "renew",
        "a:b+c@d%e",
        "100%",
        "a%2Fb",
        "%2e%2e",
        "%2F",
        "a?b#c",
        "a b",
        "a\u2003b",
        "...",
        ".a",
        "a.",
        "..a/b..",
        ".../x",
        "*",
        "_%",
        "\\..\\",
        "ü",
        "\u200b",
        "\ufeff",
        "\U0010ffff",
        "r" * 512,
        "\U0001f3c3" * 512,
        "/".join("a" * 256),
    ],
)
def test_a_run_id_may_hold_this(run_id: str) -> None:
    assert check_run_id(run_id) == run_id


@pytest.mark.parametrize(
    "run_id",
    [
        "",
        "r" * 513,
        "\U0001f3c3" * 513,
        ".",
        "..",
        "/",
        "//",
        "/a",
        "a/",
        "a//b",
        "./a",
        "../a",
        "a/.",
        "a/..",
        "a/./b",
        "a/../b",
        "a/b/..",
        "a/b//c",
        "a/b/",
    ],
)
def test_a_run_id_may_not_be_this(run_id: str) -> None:
    with pytest.raises(RunValidationError) as refused:
        check_run_id(run_id)

    assert refused.value.field == "runId"


def test_a_run_id_neither_begins_nor_ends_with_white_space_of_any_kind() -> None:
    assert "\u00a0" in SPACES
    assert "\u3000" in SPACES
    for space in SPACES:
        for run_id in (space, f"{space}a", f"a{space}", f"a/{space}", f"{space}/a"):
            with pytest.raises(RunValidationError):
                check_run_id(run_id)
        assert check_run_id(f"a{space}b")


@given(strategies.run_ids())
@settings(max_examples=100, deadline=None)
def test_every_id_that_the_design_allows_is_allowed(run_id: str) -> None:
    assert check_run_id(run_id) == run_id


def test_ids_that_only_look_the_same_stay_different() -> None:
    composed, decomposed = "\u00e9", "e\u0301"
    kelvin, upper, lower = "\u212a", "K", "k"

    ids = {check_run_id(run_id) for run_id in (composed, decomposed, kelvin, upper, lower)}

    assert len(ids) == 5
    assert unicodedata.normalize("NFC", decomposed) == composed
    assert check_run_id(decomposed) == decomposed


# Text


@pytest.mark.parametrize("bads", [CONTROLS, SURROGATES], ids=["controls", "surrogates"])
def test_no_text_holds_a_control_character_or_a_lone_surrogate(bads: list[str]) -> None:
    checks: list[Callable[[str], object]] = [
        check_run_id,
        check_owner,
        lambda text: check_text(text, "key", length_max=99),
        lambda text: check_labels({text: ""}),
        lambda text: check_labels({"k": text}),
        lambda text: check_approval_ids([text]),
    ]
    for bad in bads:
        for text in (bad, f"a{bad}b", f"{bad}a", f"a{bad}"):
            for check in checks:
                with pytest.raises(RunValidationError):
                    check(text)
            if bad not in "\t\n":
                with pytest.raises(RunValidationError):
                    check_message(text, "message")


def test_a_message_may_be_empty_and_hold_tab_and_newline() -> None:
    for message in ("", "\n", "a\tb\nc", "m" * 4096):
        assert check_message(message, "message") == message
    for no_message in ("m" * 4097, None, 1, b"m", ["m"]):
        with pytest.raises(RunValidationError):
            check_message(no_message, "message")


@pytest.mark.parametrize("owner", ["", " ", "\u2003\u00a0", "o" * 256, None, 1, b"a", ["a"]])
def test_an_owner_is_255_characters_at_most_and_not_blank(owner: object) -> None:
    with pytest.raises(RunValidationError) as refused:
        check_owner(owner)

    assert refused.value.field == "owner"


@pytest.mark.parametrize("owner", ["o", " o ", "o" * 255, "\U0001f3c3" * 255, "host:1/2"])
def test_an_owner_may_be_this(owner: str) -> None:
    assert check_owner(owner) == owner


def test_lengths_are_counted_in_code_points() -> None:
    assert check_text("\U0001f3c3" * 3, "t", length_max=3)
    with pytest.raises(RunValidationError):
        check_text("e\u0301" * 2, "t", length_max=3)


# Counters


@pytest.mark.parametrize(
    "value",
    [True, False, 1.0, 1.5, float("nan"), float("inf"), "1", b"1", None, [], -1, 2**53, 2**63],
)
def test_a_counter_is_a_true_integer_in_bounds(value: object) -> None:
    with pytest.raises(RunValidationError) as refused:
        check_counter(value, "version")

    assert refused.value.field == "version"


def test_the_ends_of_a_counter_are_allowed() -> None:
    assert check_counter(0, "c") == 0
    assert check_counter(COUNTER_MAX, "c") == COUNTER_MAX
    assert check_counter(3, "c", least=3, most=3) == 3
    for outside in (2, 4):
        with pytest.raises(RunValidationError):
            check_counter(outside, "c", least=3, most=3)


# Labels and approvals


@pytest.mark.parametrize(
    "labels", [None, 1, "ab", [], [("a", "b")], {"k": 1}, {"k": None}, {1: "v"}]
)
def test_labels_are_an_object_of_strings(labels: object) -> None:
    with pytest.raises(RunValidationError) as refused:
        check_labels(labels)

    assert refused.value.field.startswith("labels")


def test_labels_come_back_as_a_copy_that_cannot_be_changed() -> None:
    given_labels = {"z": "1", "a": "", "k" * 63: "v" * 255}

    checked: Any = check_labels(given_labels)
    given_labels["z"] = "2"

    assert list(checked.items()) == [("z", "1"), ("a", ""), ("k" * 63, "v" * 255)]
    with pytest.raises(TypeError):
        checked["z"] = "3"
    assert isinstance(check_labels({}), MappingProxyType)


@pytest.mark.parametrize("ids", [None, "a1", {"a1": 1}, {"a1"}, 1, [1], [None], [""], ["a"] * 257])
def test_approval_ids_are_an_array_of_bounded_text(ids: object) -> None:
    with pytest.raises(RunValidationError) as refused:
        check_approval_ids(ids)

    assert refused.value.field.startswith("pendingApprovalIds")


def test_approval_ids_keep_their_order() -> None:
    assert check_approval_ids(["b", "a", "b"]) == ("b", "a", "b")
    assert check_approval_ids([]) == ()
