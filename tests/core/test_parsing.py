"""Reading records: everything malformed is refused, with the field's name and the right class."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runlease_core.errors import Code, RunIntegrityError, RunValidationError
from runlease_core.lifecycle import RunStatus
from runlease_core.parsing import (
    parse_checkpoint_ref,
    parse_lease,
    parse_outcome,
    parse_record,
    parse_suspension,
    record_from_text,
    stored_record,
    strict_json,
)
from runlease_core.record import Outcome, RunRecord, record_to_text
from tests.core.examples import LIVE, QUEUED, SUSPENDED, run

FAILED = run(RunStatus.FAILED, outcome=Outcome("error", "it broke"))
GONE = object()
NO_COUNTERS: list[Any] = [
    True,
    False,
    "1",
    1.0,
    1.5,
    float("inf"),
    float("nan"),
    2**53,
    2**63,
    10**400,
    -1,
    None,
    [],
    {},
]
NO_TEXTS: list[Any] = [None, 1, True, [], {}, "\0", "a\x1fb", "\x7f", "\x85", "\ud800", "a\udfff"]


def changed(data: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """A deep copy of JSON data with one place changed, or taken out with GONE."""
    copy: dict[str, Any] = json.loads(json.dumps(data))
    *parents, name = path.split(".")
    place = copy
    for parent in parents:
        place = place[parent]
    if value is GONE:
        del place[name]
    else:
        place[name] = value
    return copy


def refusal_of(data: object) -> str:
    """The field that is refused; a stored record is refused alike, as corrupt."""
    with pytest.raises(RunValidationError) as sent:
        parse_record(data)
    with pytest.raises(RunIntegrityError) as stored:
        parse_record(data, stored=True)

    assert sent.value.code is Code.RUN_VALIDATION_ERROR
    assert sent.value.detail.startswith(sent.value.field)
    assert stored.value.code is Code.RUN_INTEGRITY_ERROR
    assert sent.value.detail in stored.value.detail
    assert isinstance(stored.value.__cause__, RunValidationError)
    sent.value.detail.encode()
    return sent.value.field


COUNTERS = ["version", "attempt", "fencingToken", "maxAttempts", "checkpointRef.snapshotVersion"]


@pytest.mark.parametrize("path", COUNTERS)
def test_a_counter_is_an_integer_that_every_reader_keeps(path: str) -> None:
    for value in NO_COUNTERS:
        assert refusal_of(changed(LIVE.to_json(), path, value)) == path


@pytest.mark.parametrize("path", ["version", "attempt", "maxAttempts"])
def test_these_counters_start_at_one(path: str) -> None:
    assert refusal_of(changed(LIVE.to_json(), path, 0)) == path


@pytest.mark.parametrize("number", ["1e400", "1.0", "1e0", "NaN", "Infinity", "-Infinity", "-0.0"])
def test_a_number_in_text_that_is_no_integer_is_refused(number: str) -> None:
    text = record_to_text(LIVE).replace('"version":5', f'"version":{number}')

    with pytest.raises(RunValidationError):
        record_from_text(text)
    with pytest.raises(RunIntegrityError):
        record_from_text(text, stored=True)


def test_a_number_of_very_many_digits_is_refused() -> None:
    text = record_to_text(LIVE).replace('"version":5', '"version":' + "9" * 100_000)

    with pytest.raises(RunValidationError, match="too many digits"):
        record_from_text(text)
    with pytest.raises(RunIntegrityError):
        record_from_text(text, stored=True)


@pytest.mark.parametrize(
    ("record", "path"),
    [
        (LIVE, "runId"),
        (LIVE, "lease.owner"),
        (LIVE, "checkpointRef.key"),
        (FAILED, "outcome.code"),
        (FAILED, "outcome.message"),
        (LIVE, "labels.team"),
    ],
)
def test_text_is_a_string_without_control_characters_and_lone_surrogates(
    record: RunRecord, path: str
) -> None:
    for value in NO_TEXTS:
        assert refusal_of(changed(record.to_json(), path, value)) == path


def test_approval_ids_are_text_as_well() -> None:
    path = "suspension.pendingApprovalIds"

    for value in NO_TEXTS:
        assert refusal_of(changed(SUSPENDED.to_json(), path, ["a1", value])) == f"{path}[1]"


@pytest.mark.parametrize("value", [None, "a1", {"0": "a1"}, 1])
def test_approval_ids_are_an_array(value: object) -> None:
    path = "suspension.pendingApprovalIds"

    assert refusal_of(changed(SUSPENDED.to_json(), path, value)) == path


@pytest.mark.parametrize("path", ["createdAt", "updatedAt", "lease.acquiredAt", "lease.expiresAt"])
@pytest.mark.parametrize(
    "value", [None, 1, True, "", "today", "2026-01-01", "9999-99-99T00:00:00Z"]
)
def test_an_instant_is_an_rfc_3339_string(path: str, value: object) -> None:
    assert refusal_of(changed(LIVE.to_json(), path, value)) == path


@pytest.mark.parametrize("value", [None, "", "QUEUED", "lost", 1, True, [], {}, ["queued"]])
def test_a_status_is_one_of_six(value: object) -> None:
    assert refusal_of(changed(QUEUED.to_json(), "status", value)) == "status"


@pytest.mark.parametrize("value", [None, 0, 2, "1", True, 1.0, []])
def test_the_schema_is_one(value: object) -> None:
    assert refusal_of(changed(QUEUED.to_json(), "schema", value)) == "schema"


@pytest.mark.parametrize(
    ("record", "path"),
    [
        (LIVE, "lease"),
        (LIVE, "checkpointRef"),
        (FAILED, "outcome"),
        (SUSPENDED, "suspension"),
        (LIVE, "labels"),
    ],
)
@pytest.mark.parametrize("value", [None, 1, "x", True, [], [["team", "blue"]]])
def test_a_part_is_an_object_and_never_null(record: RunRecord, path: str, value: object) -> None:
    assert refusal_of(changed(record.to_json(), path, value)) == path


@pytest.mark.parametrize(
    ("record", "path"),
    [
        *((LIVE, name) for name in LIVE.to_json() if name not in ("lease", "checkpointRef")),
        (LIVE, "lease.owner"),
        (LIVE, "lease.acquiredAt"),
        (LIVE, "lease.expiresAt"),
        (LIVE, "checkpointRef.key"),
        (LIVE, "checkpointRef.snapshotVersion"),
        (LIVE, "checkpointRef.savedAt"),
        (FAILED, "outcome.code"),
        (SUSPENDED, "suspension.suspendedAt"),
        (SUSPENDED, "suspension.pendingApprovalIds"),
    ],
)
def test_a_missing_field_is_named(record: RunRecord, path: str) -> None:
    if path in ("labels", "maxAttempts"):
        assert path not in parse_record(changed(record.to_json(), path, GONE)).to_json()
        return
    assert refusal_of(changed(record.to_json(), path, GONE)) == path


@pytest.mark.parametrize(
    ("record", "path"),
    [
        (LIVE, "extra"),
        (LIVE, "run_id"),
        (LIVE, "RunId"),
        (LIVE, "lease.grantKey"),
        (LIVE, "checkpointRef.extra"),
        (FAILED, "outcome.extra"),
        (SUSPENDED, "suspension.extra"),
    ],
)
def test_an_unknown_field_is_named(record: RunRecord, path: str) -> None:
    assert refusal_of(changed(record.to_json(), path, 1)) == path


def test_an_unknown_field_is_named_in_bounds_and_in_text_that_can_be_sent() -> None:
    long_name = refusal_of({**QUEUED.to_json(), "x" * 10_000: 1})
    surrogate = refusal_of({**QUEUED.to_json(), "bad\ud800\0": 1})

    assert len(long_name) <= 80
    assert surrogate.encode()
    assert surrogate.isprintable()


@pytest.mark.parametrize("value", [None, True, 1, "x", [], [1]])
def test_a_record_is_an_object(value: object) -> None:
    assert refusal_of(value) == "record"


def test_labels_are_bounded() -> None:
    data = QUEUED.to_json()

    assert refusal_of({**data, "labels": {str(n): "" for n in range(17)}}) == "labels"
    assert refusal_of({**data, "labels": {"": "v"}}) == "labels key"
    assert refusal_of({**data, "labels": {"k" * 64: "v"}}) == "labels key"
    assert refusal_of({**data, "labels": {"\ud800": "v"}}) == "labels key"
    assert refusal_of({**data, "labels": {"k": "v" * 256}}) == "labels.k"


def test_the_parts_are_read_alone_as_well() -> None:
    live, failed, suspended = LIVE.to_json(), FAILED.to_json(), SUSPENDED.to_json()

    assert parse_lease(live["lease"]) == LIVE.lease
    assert parse_checkpoint_ref(live["checkpointRef"]) == LIVE.checkpoint_ref
    assert parse_outcome(failed["outcome"]) == FAILED.outcome
    assert parse_suspension(suspended["suspension"]) == SUSPENDED.suspension
    for read in (parse_lease, parse_checkpoint_ref, parse_outcome, parse_suspension):
        with pytest.raises(RunValidationError):
            read(None)


# Text


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "nul",
        "{'a': 1}",
        '{"a": 1,}',
        "[1] x",
        '{"a": 01}',
        '{"a": "\n"}',
        "NaN",
        "[Infinity]",
        "[-Infinity]",
        "\ufeff{}",
        b"\xff",
        b"\xef\xbb\xbf{}",
        "{}".encode("utf-16"),
        b'"\xed\xa0\x80"',
    ],
)
def test_what_is_no_json_by_the_rfc_is_refused(text: str | bytes) -> None:
    with pytest.raises(RunValidationError) as refused:
        strict_json(text)
    with pytest.raises(RunIntegrityError):
        record_from_text(text, stored=True)

    assert refused.value.field == "body"


@pytest.mark.parametrize(
    "text",
    [
        '{"runId": 1, "runId": 1}',
        '{"a": {"runId": 1, "b": 2, "runId": 3}}',
        '[{"runId": null, "run\\u0049d": null}]',
    ],
)
def test_a_key_that_appears_twice_is_refused_by_name(text: str) -> None:
    with pytest.raises(RunValidationError, match="twice") as refused:
        strict_json(text)

    assert refused.value.field == "runId"


def test_a_duplicate_key_is_named_in_bounds_and_in_text_that_can_be_sent() -> None:
    for key in ("x" * 10_000, "\\ud800\\u0000"):
        with pytest.raises(RunValidationError) as refused:
            strict_json(f'{{"{key}": 1, "{key}": 2}}')

        assert len(refused.value.field) <= 80
        assert refused.value.detail.encode()
        assert refused.value.field.isprintable()


def test_a_duplicate_among_very_many_keys_is_found_in_a_moment() -> None:
    keys = [f'"{number}":0' for number in range(100_000)]
    text = "{" + ",".join([*keys, keys[-1]]) + "}"
    started = time.process_time()

    with pytest.raises(RunValidationError, match="twice"):
        strict_json(text)

    assert time.process_time() - started < 1.5


@pytest.mark.parametrize("levels", [1_000, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize("closed", [True, False])
def test_deep_nesting_is_refused_and_never_a_crash(
    levels: int, opening: str, closing: str, closed: bool
) -> None:
    text = opening * levels + "1" + (closing * levels if closed else "")
    in_a_field = record_to_text(LIVE)[:-1] + ',"extra":' + text + "}"

    for given_text in (text, in_a_field, text.encode()):
        with pytest.raises(RunValidationError):
            record_from_text(given_text)
        with pytest.raises(RunIntegrityError):
            record_from_text(given_text, stored=True)


@given(st.text() | st.binary())
@settings(max_examples=60, deadline=None)
def test_no_text_gives_any_other_error(text: str | bytes) -> None:
    with pytest.raises(RunValidationError):
        record_from_text(text)
    with pytest.raises(RunIntegrityError):
        record_from_text(text, stored=True)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from([LIVE, SUSPENDED, FAILED]), st.data(), JSON)
@settings(max_examples=60, deadline=None)
def test_any_value_in_any_place_is_taken_or_refused(
    record: RunRecord,
    data: st.DataObject,
    value: object,
) -> None:
    whole = record.to_json()
    turned = changed(whole, data.draw(st.sampled_from(_paths(whole))), value)

    try:
        read = parse_record(turned)
    except RunValidationError as refused:
        refused.detail.encode()
    else:
        assert parse_record(read.to_json()) == read


def _paths(whole: dict[str, Any]) -> list[str]:
    parts = [(name, part) for name, part in whole.items() if isinstance(part, dict)]
    return [*whole, *(f"{name}.{inner}" for name, part in parts for inner in part)]


# Stores


def test_whatever_goes_wrong_while_building_a_stored_record_is_integrity() -> None:
    for mistake in (ValueError("x"), TypeError("x"), OverflowError("x")):

        def build(mistake: Exception = mistake) -> Any:  # noqa: ANN401 (it never returns)
            raise mistake

        with pytest.raises(RunIntegrityError) as refused:
            stored_record(build)
        assert refused.value.__cause__ is mistake


def test_a_well_formed_stored_record_is_read() -> None:
    assert parse_record(LIVE.to_json(), stored=True) == LIVE
    assert stored_record(lambda: LIVE) is LIVE
