"""What the OpenAPI document says of answers: their models, headers and problems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from runlease_core.errors import Code
from runlease_service.api.models import Problem, RunRecord
from runlease_service.api.problems import MEDIA_TYPE, STATUS, TITLE, ServiceCode

Responses = dict[int | str, dict[str, Any]]

_ETAG: Final = {
    "description": "The record's version, quoted, for `If-Match`.",
    "schema": {"type": "string", "examples": ['"7"']},
}
_REMAINING: Final = {
    "description": "While the record holds a lease: how long it lasts from now, in milliseconds.",
    "schema": {"type": "integer", "minimum": 0, "examples": [60000]},
}
_RETRY_AFTER: Final = {
    "description": "Seconds to wait before sending this again.",
    "schema": {"type": "integer", "minimum": 1, "examples": [1]},
}
RECORD_HEADERS: Final = {"ETag": _ETAG, "Runlease-Lease-Remaining-Ms": _REMAINING}
"""Of every answer that goes with a record: its own, a problem's, or one that is not sent again."""

EVERYWHERE: Final = (
    ServiceCode.REQUEST_TIMEOUT,
    ServiceCode.URI_TOO_LONG,
    ServiceCode.INTERNAL_ERROR,
)
STORED: Final = (
    *EVERYWHERE,
    ServiceCode.UNAUTHENTICATED,
    ServiceCode.FORBIDDEN,
    ServiceCode.UNAVAILABLE,
    Code.RUN_INTEGRITY_ERROR,
)
WITH_BODY: Final = (ServiceCode.PAYLOAD_TOO_LARGE, ServiceCode.UNSUPPORTED_MEDIA_TYPE)
FENCED: Final = (Code.RUN_LEASE_LOST,)


def record_response(description: str) -> dict[str, Any]:
    """An answer that carries a record."""
    return {
        "model": RunRecord,
        "description": description,
        "headers": RECORD_HEADERS,
    }


def responses(good: Responses, *codes: Code | ServiceCode, unreadable: bool = False) -> Responses:
    """What an operation answers: `good`, and the problems by status, each with its codes."""
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(STATUS[code], []).append(f"{code}: {TITLE[code]}.")
    if unreadable:
        by_status[400] = [f"{Code.RUN_VALIDATION_ERROR}: The body is no JSON that can be read."]
    return good | {status: _problem(status, lines) for status, lines in sorted(by_status.items())}


def _problem(status: int, lines: list[str]) -> dict[str, Any]:
    headers: dict[str, Mapping[str, Any]] = {}
    if status in (STATUS[Code.RUN_LEASE_HELD], STATUS[ServiceCode.UNAVAILABLE]):
        headers["Retry-After"] = _RETRY_AFTER
    if status in (STATUS[Code.RUN_LEASE_HELD], STATUS[Code.RUN_CONFLICT]):
        headers |= RECORD_HEADERS
    return {
        "description": "\n".join(lines),
        "headers": headers,
        "content": {MEDIA_TYPE: {"schema": {"$ref": f"#/components/schemas/{Problem.__name__}"}}},
    }
