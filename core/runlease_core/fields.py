"""What each field of a record may hold.

Every check returns its value, or refuses it with RUN_VALIDATION_ERROR and names the field. Text is
compared code point by code point and holds no control character and no lone surrogate. Counters
stay within 2^53-1, the integers that every JSON reader keeps exactly. Source: design, section 2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from runlease_core.errors import RunValidationError

COUNTER_MAX: Final = 2**53 - 1
RUN_ID_LENGTH_MAX: Final = 512
OWNER_LENGTH_MAX: Final = 255
LABELS_MAX: Final = 16
LABEL_KEY_LENGTH_MAX: Final = 63
LABEL_VALUE_LENGTH_MAX: Final = 255
MAX_ATTEMPTS_MAX: Final = 10_000
CHECKPOINT_KEY_LENGTH_MAX: Final = 1024
OUTCOME_CODE_LENGTH_MAX: Final = 64
MESSAGE_LENGTH_MAX: Final = 4096
APPROVAL_IDS_MAX: Final = 256
APPROVAL_ID_LENGTH_MAX: Final = 255

LEASE_TTL_MS_MIN: Final = 100
LEASE_TTL_MS_MAX: Final = 86_400_000
LEASE_TTL_MS_DEFAULT: Final = 60_000
IDEMPOTENCY_KEY_LENGTH_MAX: Final = 255

NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_FORBIDDEN_IN_MESSAGE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_DOT_SEGMENT = re.compile(r"(?:^|/)\.{0,2}(?:/|$)")


def no_labels() -> Mapping[str, str]:
    """The default of `labels`."""
    return NO_LABELS


def malformed(name: str, problem: str) -> RunValidationError:
    """The refusal of a caller's value, with the field first."""
    return RunValidationError(f"{name}: {problem}", field=name)


def check_text(value: object, name: str, *, length_max: int, length_min: int = 1) -> str:
    """A string of that many code points without control characters or lone surrogates."""
    if not isinstance(value, str):
        raise malformed(name, "must be a string")
    if problem := _text_problem(value, length_min, length_max):
        raise malformed(name, problem)
    return value


def _text_problem(text: str, length_min: int, length_max: int) -> str | None:
    if not length_min <= len(text) <= length_max:
        return f"must have {length_min} to {length_max} characters"
    # What is printable holds neither, and that is the cheaper question.
    if not text.isprintable() and _FORBIDDEN.search(text):
        return "must hold no control character and no lone surrogate"
    return None


def check_message(value: object, name: str) -> str:
    """Text for people: may be empty and may hold tab and newline."""
    if not isinstance(value, str):
        raise malformed(name, "must be a string")
    if len(value) > MESSAGE_LENGTH_MAX:
        raise malformed(name, f"must have at most {MESSAGE_LENGTH_MAX} characters")
    if _FORBIDDEN_IN_MESSAGE.search(value):
        raise malformed(name, "must hold no control character but tab and newline")
    return value


def check_run_id(value: object, name: str = "runId") -> str:
    """1 to 512 characters, no white space at its ends, no segment `.`, `..` or empty."""
    if not isinstance(value, str):
        raise malformed(name, "must be a string")
    if problem := _run_id_problem(value):
        raise malformed(name, problem)
    return value


@lru_cache(maxsize=4096)  # on its way through a command and a record, an id is asked for again
def _run_id_problem(run_id: str) -> str | None:
    if problem := _text_problem(run_id, 1, RUN_ID_LENGTH_MAX):
        return problem
    if run_id[0].isspace() or run_id[-1].isspace():
        return "must not be blank, nor begin or end with white space"
    if ("/" in run_id or run_id[0] == ".") and _DOT_SEGMENT.search(run_id):
        return "must hold no empty, '.' or '..' segment between its slashes"
    return None


def check_owner(value: object, name: str = "owner") -> str:
    """1 to 255 characters, not blank."""
    if not isinstance(value, str):
        raise malformed(name, "must be a string")
    if problem := _owner_problem(value):
        raise malformed(name, problem)
    return value


@lru_cache(maxsize=4096)  # likewise
def _owner_problem(owner: str) -> str | None:
    if problem := _text_problem(owner, 1, OWNER_LENGTH_MAX):
        return problem
    return "must not be blank" if owner.isspace() else None


def check_counter(value: object, name: str, *, least: int = 0, most: int = COUNTER_MAX) -> int:
    """A true integer: no bool, float or string."""
    if type(value) is not int:
        raise malformed(name, "must be an integer")
    if not least <= value <= most:
        raise malformed(name, f"must be between {least} and {most}")
    return value


def check_instant(value: object, name: str) -> datetime:
    """An aware UTC datetime in whole milliseconds."""
    if not isinstance(value, datetime) or value.tzinfo is not UTC or value.microsecond % 1000:
        raise malformed(name, "must be a UTC datetime in whole milliseconds")
    return value


def check_labels(value: object, name: str = "labels") -> Mapping[str, str]:
    """At most 16 labels; an immutable copy in the order given."""
    if not isinstance(value, Mapping):
        raise malformed(name, "must be an object of strings")
    if not value:
        return NO_LABELS
    if len(value) > LABELS_MAX:
        raise malformed(name, f"must be at most {LABELS_MAX} labels")
    for key, text in value.items():
        check_text(key, f"{name} key", length_max=LABEL_KEY_LENGTH_MAX)
        check_text(text, f"{name}.{key}", length_min=0, length_max=LABEL_VALUE_LENGTH_MAX)
    return MappingProxyType(dict(value))


def check_approval_ids(value: object, name: str = "pendingApprovalIds") -> tuple[str, ...]:
    """At most 256 approval ids, in the order given."""
    if not isinstance(value, list | tuple):
        raise malformed(name, "must be an array of strings")
    if len(value) > APPROVAL_IDS_MAX:
        raise malformed(name, f"must be at most {APPROVAL_IDS_MAX} ids")
    return tuple(
        check_text(item, f"{name}[{index}]", length_max=APPROVAL_ID_LENGTH_MAX)
        for index, item in enumerate(value)
    )
