"""RFC 9457 problem documents: the one place that knows status codes.

Every error that leaves the service is made here, whichever door the request came through: a
refusal of the rules, input that cannot be read, an unknown path, a database that is away. No stack
trace, SQL text or secret reaches a caller; what was sent is not echoed, only its field named.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.responses import Response

from runlease_core.decide import Refused
from runlease_core.errors import Code, RunStoreError, RunValidationError
from runlease_core.record import RunRecord
from runlease_service.api.answers import Answer, record_headers


class ServiceCode(StrEnum):
    """The service's own reasons, beside the ten of the core."""

    UNAUTHENTICATED = "UNAUTHENTICATED"
    FORBIDDEN = "FORBIDDEN"
    NOT_FOUND = "NOT_FOUND"
    METHOD_NOT_ALLOWED = "METHOD_NOT_ALLOWED"
    REQUEST_TIMEOUT = "REQUEST_TIMEOUT"
    PAYLOAD_TOO_LARGE = "PAYLOAD_TOO_LARGE"
    URI_TOO_LONG = "URI_TOO_LONG"
    UNSUPPORTED_MEDIA_TYPE = "UNSUPPORTED_MEDIA_TYPE"
    PRECONDITION_REQUIRED = "PRECONDITION_REQUIRED"
    INTERNAL_ERROR = "INTERNAL_ERROR"
    UNAVAILABLE = "UNAVAILABLE"


STATUS: Final[Mapping[str, int]] = {
    Code.RUN_LEASE_HELD: 409,
    Code.RUN_LEASE_LOST: 409,
    Code.RUN_ALREADY_TERMINAL: 409,
    Code.RUN_SUSPENDED: 409,
    Code.RUN_INVALID_TRANSITION: 409,
    Code.RUN_INTEGRITY_ERROR: 500,
    Code.RUN_VALIDATION_ERROR: 422,
    Code.RUN_CONFLICT: 412,
    Code.RUN_NOT_FOUND: 404,
    Code.RUN_STORE_ATOMIC_REQUIRED: 500,
    ServiceCode.UNAUTHENTICATED: 401,
    ServiceCode.FORBIDDEN: 403,
    ServiceCode.NOT_FOUND: 404,
    ServiceCode.METHOD_NOT_ALLOWED: 405,
    ServiceCode.REQUEST_TIMEOUT: 408,
    ServiceCode.PAYLOAD_TOO_LARGE: 413,
    ServiceCode.URI_TOO_LONG: 414,
    ServiceCode.UNSUPPORTED_MEDIA_TYPE: 415,
    ServiceCode.PRECONDITION_REQUIRED: 428,
    ServiceCode.INTERNAL_ERROR: 500,
    ServiceCode.UNAVAILABLE: 503,
}
"""The status of each code; malformed JSON alone is 400 in place of 422."""

TITLE: Final[Mapping[str, str]] = {
    Code.RUN_LEASE_HELD: "Another owner's lease is live",
    Code.RUN_LEASE_LOST: "The owner and fencing token do not hold the run",
    Code.RUN_ALREADY_TERMINAL: "The run is finished",
    Code.RUN_SUSPENDED: "The run is suspended",
    Code.RUN_INVALID_TRANSITION: "The run cannot make this transition",
    Code.RUN_INTEGRITY_ERROR: "The stored record is malformed",
    Code.RUN_VALIDATION_ERROR: "The request is malformed",
    Code.RUN_CONFLICT: "The run has another version",
    Code.RUN_NOT_FOUND: "There is no such run",
    Code.RUN_STORE_ATOMIC_REQUIRED: "The store cannot compare and set",
    ServiceCode.UNAUTHENTICATED: "No valid credential was sent",
    ServiceCode.FORBIDDEN: "The credential does not allow this",
    ServiceCode.NOT_FOUND: "There is nothing at this path",
    ServiceCode.METHOD_NOT_ALLOWED: "The path does not take this method",
    ServiceCode.REQUEST_TIMEOUT: "The request took too long to arrive",
    ServiceCode.PAYLOAD_TOO_LARGE: "The body is too large",
    ServiceCode.URI_TOO_LONG: "The URL is too long",
    ServiceCode.UNSUPPORTED_MEDIA_TYPE: "The body is not JSON",
    ServiceCode.PRECONDITION_REQUIRED: "The request must name what it expects",
    ServiceCode.INTERNAL_ERROR: "The service made an error",
    ServiceCode.UNAVAILABLE: "The service cannot answer now",
}

MEDIA_TYPE: Final = "application/problem+json"
RETRY_AFTER_S: Final = 1
_ERRORS_SHOWN_MAX: Final = 5
_NAME_LENGTH_MAX: Final = 80


class ProblemError(HTTPException):
    """A problem on its way out. FastAPI lets an HTTPException pass through its own parsing."""

    def __init__(
        self,
        code: Code | ServiceCode,
        detail: str,
        *,
        status: int | None = None,
        field: str = "",
        record: RunRecord | None = None,
        now: datetime | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status or STATUS[code], detail, dict(headers or {}))
        self.code = code
        self.field = field
        self.record = record
        self.now = now

    def document(self) -> dict[str, Any]:
        """The problem's JSON object."""
        document: dict[str, Any] = {
            "type": f"urn:runlease:problem:{self.code}",
            "title": TITLE[self.code],
            "status": self.status_code,
            "detail": self.detail,
            "code": self.code.value,
        }
        if self.field:
            document["field"] = self.field
        if self.record is not None:
            document["record"] = self.record.to_json()
        return document

    def text(self) -> str:
        """The problem as JSON text."""
        text = json.dumps(self.document(), ensure_ascii=False, separators=(",", ":"))
        # A lone surrogate, which JSON input may hold as an escape, leaves as that escape.
        return text.encode("utf-8", "backslashreplace").decode()

    def response(self) -> Response:
        """The answer that carries it."""
        headers = [(b"content-type", MEDIA_TYPE.encode())]
        if self.record is not None:
            headers += record_headers(self.record, self.now)
        if self.code is ServiceCode.UNAVAILABLE:
            headers.append((b"retry-after", str(RETRY_AFTER_S).encode()))
        elif self.code is Code.RUN_LEASE_HELD and self.record and self.record.lease and self.now:
            remaining_s = (self.record.lease.expires_at - self.now).total_seconds()
            headers.append((b"retry-after", str(max(1, math.ceil(remaining_s))).encode()))
        headers += [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in (self.headers or {}).items()
        ]
        return Answer(self.status_code, self.text().encode(), headers)


def problem_from_refusal(refused: Refused, now: datetime) -> ProblemError:
    """The rules said no."""
    field = ""
    if refused.code is Code.RUN_VALIDATION_ERROR:
        field = refused.detail.partition(":")[0]
    return ProblemError(refused.code, refused.detail, record=refused.record, now=now, field=field)


def problem_from_error(error: RunStoreError, *, status: int | None = None) -> ProblemError:
    """A value that the core refused to build, or a stored row that it refused to read."""
    field = error.field if isinstance(error, RunValidationError) else ""
    return ProblemError(error.code, error.detail, status=status, field=field, record=error.record)


def problem_from_validation(errors: Sequence[Mapping[str, Any]]) -> ProblemError:
    """What pydantic refused: the fields by name, and never their values."""
    named = [(_field(error["loc"]), _message(error)) for error in errors]
    shown = [f"{field}: {message}" for field, message in named[:_ERRORS_SHOWN_MAX]]
    if len(named) > _ERRORS_SHOWN_MAX:
        shown.append(f"and {len(named) - _ERRORS_SHOWN_MAX} more")
    return ProblemError(Code.RUN_VALIDATION_ERROR, "; ".join(shown), field=named[0][0])


def problem_from_status(error: HTTPException) -> ProblemError:
    """An error that the framework raised by status alone."""
    codes = {404: ServiceCode.NOT_FOUND, 405: ServiceCode.METHOD_NOT_ALLOWED}
    code = codes.get(error.status_code)
    if code is None:
        # The framework raises 400 for a body that it could not parse, and nothing else.
        return ProblemError(
            Code.RUN_VALIDATION_ERROR, "the request cannot be read", status=error.status_code
        )
    return ProblemError(code, HTTPStatus(error.status_code).phrase, headers=error.headers)


def unavailable(detail: str) -> ProblemError:
    """503 with Retry-After. What was asked may or may not be done; it is safe to send again."""
    return ProblemError(ServiceCode.UNAVAILABLE, detail)


def database_unusable() -> ProblemError:
    """The database cannot be opened; why is in the log."""
    return unavailable("the database cannot be used")


def _message(error: Mapping[str, Any]) -> str:
    # pydantic speaks of dictionaries, and in other words behind FastAPI than without it.
    if error.get("type") in ("model_type", "model_attributes_type", "dict_type"):
        return "Input should be an object"
    return str(error["msg"])


def _field(loc: Sequence[str | int]) -> str:
    """`("body", "leases", 3, "runId")` as `leases[3].runId`."""
    parts = loc[1:] if len(loc) > 1 and loc[0] in ("body", "query", "path", "header") else loc
    name = ""
    for part in parts:
        if isinstance(part, int):
            name += f"[{part}]"
        else:
            name += f".{part[:_NAME_LENGTH_MAX]}" if name else part[:_NAME_LENGTH_MAX]
    return name or "body"
