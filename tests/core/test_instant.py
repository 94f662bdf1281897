"""Instants: any RFC 3339 text is read, one form is written, and nothing else gets in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runlease_core.errors import RunValidationError
from runlease_core.instant import (
    format_instant,
    instant_from_ms,
    ms_from_instant,
    parse_instant,
    whole_ms,
)
from tests import strategies

NOON = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-03-04T12:00:00Z", 0),
        ("2026-03-04T12:00:00.0Z", 0),
        ("2026-03-04T12:00:00.7Z", 700),
        ("2026-03-04T12:00:00.07Z", 70),
        ("2026-03-04T12:00:00.000Z", 0),
        ("2026-03-04T12:00:00.700Z", 700),
        ("2026-03-04T12:00:00.123456Z", 123),
        ("2026-03-04T12:00:00.999999Z", 999),
        ("2026-03-04T12:00:00.123456789Z", 123),
        ("2026-03-04t12:00:00.5z", 500),
        ("2026-03-04 12:00:00Z", 0),
        ("2026-03-04T12:00:00+00:00", 0),
        ("2026-03-04T12:00:00-00:00", 0),
        ("2026-03-04T14:30:00.001+02:30", 1),
        ("2026-03-04T00:00:00-12:00", 0),
        ("2026-03-05T11:59:00+23:59", 0),
    ],
)
def test_every_rfc_3339_form_is_read_and_cut_to_milliseconds(text: str, ms: int) -> None:
    read = parse_instant(text)

    assert read == NOON + timedelta(milliseconds=ms)
    assert read.tzinfo is UTC


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        (NOON, "2026-03-04T12:00:00.000Z"),
        (NOON + timedelta(milliseconds=700), "2026-03-04T12:00:00.700Z"),
        (datetime(1, 1, 1, tzinfo=UTC), "0001-01-01T00:00:00.000Z"),
        (datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC), "9999-12-31T23:59:59.999Z"),
    ],
)
def test_three_digits_and_z_are_always_written(instant: datetime, text: str) -> None:
    assert format_instant(instant) == text
    assert parse_instant(text) == instant


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        1.5,
        b"2026-03-04T12:00:00Z",
        NOON,
        "",
        "now",
        "2026-03-04",
        "2026-03-04T12:00:00",
        "2026-03-04T12:00Z",
        "2026-03-04T12:00:00.Z",
        "2026-03-04T12:00:00,5Z",
        "2026-03-04T12:00:00." + "1" * 33 + "Z",
        "2026-03-04T12:00:00 Z",
        " 2026-03-04T12:00:00Z",
        "2026-03-04T12:00:00Z\n",
        "2026-03-04T12:00:00Z\0",
        "2026-03-04T12:00:00UTC",
        "2026-03-04T12:00:00+0100",
        "2026-03-04T12:00:00+01",
        "2026-03-04T12:00:00+1:00",
        "2026-03-04T12:00:00+24:00",
        "2026-03-04T12:00:00+01:60",
        "2026-03-04T12:00:00-01:99",
        "2026-03-04T12:00:00+23:60",
        "2026-03-04T12:00:00\u221201:00",
        "2026-3-4T12:00:00Z",
        "20260304T120000Z",
        "2026-W10-3T12:00:00Z",
        "2026-063T12:00:00Z",
        "26-03-04T12:00:00Z",
        "12026-03-04T12:00:00Z",
        "+2026-03-04T12:00:00Z",
        "-2026-03-04T12:00:00Z",
        "\u0662\u0660\u0662\u0666-03-04T12:00:00Z",
        "2026-03-04T12:00:0\uff10Z",
        "2026-00-04T12:00:00Z",
        "2026-13-04T12:00:00Z",
        "2026-02-29T12:00:00Z",
        "2026-03-32T12:00:00Z",
        "2026-03-04T24:00:00Z",
        "2026-03-04T25:00:00Z",
        "2026-03-04T12:60:00Z",
        "2026-03-04T12:00:61Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
    ],
)
def test_anything_else_is_refused_with_the_name_it_was_given(value: object) -> None:
    with pytest.raises(RunValidationError) as refused:
        parse_instant(value, "lease.expiresAt")

    assert refused.value.field == "lease.expiresAt"


@pytest.mark.parametrize("text", ["2016-12-31T23:59:60Z", "2016-12-31T23:59:60.5Z"])
def test_a_leap_second_is_refused_rather_than_moved(text: str) -> None:
    with pytest.raises(RunValidationError):
        parse_instant(text)


def test_a_leap_day_is_a_day() -> None:
    assert parse_instant("2028-02-29T00:00:00Z").day == 29


@given(st.text() | st.from_regex(r"\A[0-9Tt:. Zz+-]{15,35}\Z"))
@settings(max_examples=50, deadline=None)
def test_no_text_gives_any_other_error(text: str) -> None:
    try:
        read = parse_instant(text)
    except RunValidationError:
        return
    assert parse_instant(format_instant(read)) == read


@given(
    st.integers(0, 9999),
    st.tuples(*[st.integers(0, 70)] * 5),
    st.sampled_from(["", ".1", ".12345", ".000"]),
    st.sampled_from(["Z", "z", "+00:00", "-23:59", "+14:00", "+99:99"]),
)
@settings(max_examples=60, deadline=None)
def test_what_nearly_is_an_instant_is_read_or_refused(
    year: int, parts: tuple[int, int, int, int, int], fraction: str, offset: str
) -> None:
    month, day, hour, minute, second = parts
    clock = f"{hour:02}:{minute:02}:{second:02}"
    text = f"{year:04}-{month:02}-{day:02}T{clock}{fraction}{offset}"

    try:
        read = parse_instant(text)
    except RunValidationError:
        return
    assert (hour < 24, minute < 60, second < 60) == (True, True, True)
    assert read.microsecond % 1000 == 0


@given(strategies.any_instants())
@settings(max_examples=50, deadline=None)
def test_an_instant_survives_text_and_milliseconds(instant: datetime) -> None:
    assert parse_instant(format_instant(instant)) == instant
    assert instant_from_ms(ms_from_instant(instant)) == instant


@given(strategies.any_instants(), strategies.any_instants())
@settings(max_examples=50, deadline=None)
def test_the_order_of_the_text_is_the_order_of_time(one: datetime, other: datetime) -> None:
    assert (format_instant(one) < format_instant(other)) == (one < other)


def test_milliseconds_count_from_the_epoch_in_both_directions() -> None:
    assert format_instant(instant_from_ms(0)) == "1970-01-01T00:00:00.000Z"
    assert format_instant(instant_from_ms(-1)) == "1969-12-31T23:59:59.999Z"
    assert ms_from_instant(instant_from_ms(-1)) == -1


def test_whole_ms_cuts_and_turns_to_utc() -> None:
    paris = datetime(2026, 3, 4, 13, 0, 0, 123_999, tzinfo=timezone(timedelta(hours=1)))

    assert whole_ms(paris) == NOON + timedelta(milliseconds=123)
    assert whole_ms(paris).tzinfo is UTC
