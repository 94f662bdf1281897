"""Conditional headers: `If-Match`, `If-None-Match` (RFC 9110, section 13) and `Idempotency-Key`
(its draft: a quoted string; a bare one is taken too)."""

from __future__ import annotations

import re
from typing import Annotated, Final

from fastapi import Header

from runlease_core.commands import Existing, ExpectedVersion
from runlease_core.errors import Code
from runlease_core.fields import COUNTER_MAX, IDEMPOTENCY_KEY_LENGTH_MAX
from runlease_service.api.problems import ProblemError

IfMatch = Annotated[
    str | None,
    Header(
        alias="If-Match",
        description='The version that the run must have, as in `"7"`; another one is answered 412 '
        "RUN_CONFLICT and nothing changes. `*` expects only that the run exists.",
        examples=['"7"'],
    ),
]
IfNoneMatch = Annotated[
    str | None,
    Header(
        alias="If-None-Match",
        description="Versions that the caller has; one of them is answered 304.",
        examples=['"7"'],
    ),
]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="Marks a retry: the same owner with the same key finds its own live grant "
        f"again instead of a new token. 1 to {IDEMPOTENCY_KEY_LENGTH_MAX} characters, quoted or "
        "bare.",
        examples=['"8e03978e-40d5-43dd-bc93-6894a57f9324"'],
    ),
]

_VERSION: Final = re.compile(r'"?([0-9]{1,16})"?')
_TAG: Final = re.compile(r'(?:W/)?"([^"]*)"')
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\["\\])*)"')


def expected_version(if_match: str | None) -> ExpectedVersion:
    """The version that `If-Match` names, `Existing.ANY_VERSION` for `*`, None without it."""
    if if_match is None:
        return None
    text = if_match.strip()
    if text == "*":
        return Existing.ANY_VERSION
    match = _VERSION.fullmatch(text)
    if match is None or int(match[1]) > COUNTER_MAX or text.count('"') == 1:
        raise _malformed("If-Match", 'must be one version, as in "7", or *')
    return int(match[1])


def matches_none(if_none_match: str | None, version: int) -> bool:
    """Whether the caller says that it has this version already."""
    if if_none_match is None:
        return False
    return if_none_match.strip() == "*" or str(version) in _TAG.findall(if_none_match)


def is_any(if_none_match: str | None) -> bool:
    """Whether `If-None-Match` is `*`: the run must not exist."""
    if if_none_match is None:
        return False
    if if_none_match.strip() != "*":
        raise _malformed("If-None-Match", "must be * on PUT")
    return True


def idempotency_key(header: str | None) -> str | None:
    """The key without its quotes."""
    if header is None:
        return None
    text = header.strip()
    if text.startswith('"'):
        match = _QUOTED.fullmatch(text)
        if match is None:
            raise _malformed("Idempotency-Key", "must be a quoted string")
        return re.sub(r"\\(.)", r"\1", match[1])
    return text


def refuse_if_match(if_match: str | None) -> None:
    """On a path that is no single run an `If-Match` is refused rather than ignored."""
    if if_match is not None:
        raise _malformed("If-Match", "means nothing here: the path names no single run")


def _malformed(field: str, problem: str) -> ProblemError:
    return ProblemError(Code.RUN_VALIDATION_ERROR, f"{field}: {problem}", field=field)
