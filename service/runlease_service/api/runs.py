"""The run as a resource: enqueue, list, get, put, delete."""

from __future__ import annotations

import base64
import json
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from runlease_core.commands import CompareAndSet, Create, Delete, Enqueue, Existing
from runlease_core.errors import Code, RunStoreError
from runlease_core.fields import (
    COUNTER_MAX,
    LABEL_KEY_LENGTH_MAX,
    LABEL_VALUE_LENGTH_MAX,
    LABELS_MAX,
    OWNER_LENGTH_MAX,
    RUN_ID_LENGTH_MAX,
    check_counter,
    check_owner,
    check_run_id,
    check_text,
    malformed,
    no_labels,
)
from runlease_core.lifecycle import RunStatus
from runlease_core.parsing import parse_record
from runlease_core.record import record_to_text
from runlease_service.api.answers import Answer, json_answer, record_answer, record_headers
from runlease_service.api.bodies import EnqueueBody, RecordBody, Status
from runlease_service.api.conditions import (
    IfMatch,
    IfNoneMatch,
    expected_version,
    is_any,
    matches_none,
    refuse_if_match,
)
from runlease_service.api.leases import RunIdParam
from runlease_service.api.models import RunPage
from runlease_service.api.parse import StrictRoute
from runlease_service.api.problems import ProblemError, ServiceCode, unavailable
from runlease_service.api.responses import (
    RECORD_HEADERS,
    STORED,
    WITH_BODY,
    record_response,
    responses,
)
from runlease_service.api.service import ServiceParam, allow, is_created, record_of
from runlease_service.auth.access import PRINCIPAL
from runlease_service.database.base import (
    DatabaseUnavailableError,
    Position,
    RunQuery,
)

router = APIRouter(tags=["runs"], route_class=StrictRoute)

CURSOR_LENGTH_MAX = 4096


@router.post(
    "/v1/runs",
    operation_id="enqueue_run",
    summary="Make a queued run",
    response_model=None,
    responses=responses(
        {
            200: record_response("The run exists already; this is it, unchanged."),
            201: record_response("The run is made."),
        },
        *STORED,
        *WITH_BODY,
        Code.RUN_VALIDATION_ERROR,
        Code.RUN_CONFLICT,
        Code.RUN_ALREADY_TERMINAL,
        unreadable=True,
    ),
)
async def enqueue(service: ServiceParam, body: EnqueueBody, if_match: IfMatch = None) -> Response:
    """Make a run that any worker may acquire. Sent again it converges; the labels of the first
    stay. A run that a worker acquires need not be made first."""
    answer = await service.execute(
        Enqueue(
            run_id=body.run_id,
            expected_version=expected_version(if_match),
            labels=body.labels or no_labels(),
            max_attempts=body.max_attempts,
        )
    )
    return record_answer(record_of(answer), answer.now, 201 if is_created(answer) else 200)


class ListQuery(BaseModel):
    """The list's filters, joined by "and". An unknown one is refused."""

    model_config = ConfigDict(extra="forbid")

    status: Annotated[Status | None, Field(description="Only runs in this status.")] = None
    owner: Annotated[
        str | None,
        Field(max_length=OWNER_LENGTH_MAX, description="Only runs whose lease this owner holds."),
    ] = None
    lease: Annotated[
        Literal["live", "expired", "none"] | None,
        Field(description="Only runs whose lease is live, has run out, or that hold none."),
    ] = None
    prefix: Annotated[
        str | None,
        Field(
            max_length=RUN_ID_LENGTH_MAX,
            description="Only runs whose id begins with this text, compared code point by code "
            "point; no character is a wildcard.",
        ),
    ] = None
    label: Annotated[
        list[str],
        Field(
            max_length=LABELS_MAX,
            description="Only runs with this label, as `key=value`; may be given several times.",
            examples=[["team=a"]],
        ),
    ] = []
    limit: Annotated[
        int | None, Field(ge=1, le=1000, description="Runs a page; 100 unless set otherwise.")
    ] = None
    cursor: Annotated[
        str | None,
        Field(max_length=CURSOR_LENGTH_MAX, description="`nextCursor` of the page before."),
    ] = None


@router.get(
    "/v1/runs",
    operation_id="list_runs",
    summary="List runs, newest first",
    response_model=None,
    responses=responses(
        {200: {"model": RunPage, "description": "One page."}}, *STORED, Code.RUN_VALIDATION_ERROR
    ),
)
async def list_runs(
    service: ServiceParam,
    query: Annotated[ListQuery, Query()],
    if_match: IfMatch = None,
) -> Response:
    """Pages are keyset pages: a page costs the same at any depth, and runs that are made while
    paging neither repeat nor hide another."""
    refuse_if_match(if_match)
    settings = service.settings
    limit = query.limit or settings.list_limit_default
    if limit > settings.list_limit_max:
        raise malformed("limit", f"must be between 1 and {settings.list_limit_max}")
    try:
        page = await service.database.page(
            RunQuery(
                limit=limit,
                within=None if (principal := PRINCIPAL.get()) is None else principal.prefixes,
                after=None if query.cursor is None else _position(query.cursor),
                status=None if query.status is None else RunStatus(query.status),
                owner=None if query.owner is None else check_owner(query.owner),
                lease=query.lease,
                prefix=None
                if query.prefix is None
                else check_text(query.prefix, "prefix", length_min=0, length_max=RUN_ID_LENGTH_MAX),
                labels=tuple(_label(label) for label in query.label),
            )
        )
    except DatabaseUnavailableError as error:
        raise unavailable(str(error)) from error
    runs = ",".join(record_to_text(record) for record in page.runs)
    cursor = "" if page.next is None else f',"nextCursor":"{_cursor(page.next)}"'
    return json_answer(200, f'{{"runs":[{runs}]{cursor}}}')


@router.get(
    "/v1/runs/{runId:path}",
    operation_id="get_run",
    summary="Read a run without taking it",
    response_model=None,
    responses=responses(
        {
            200: record_response("The record as last committed."),
            304: {
                "description": "The caller has this version already.",
                "headers": RECORD_HEADERS,
            },
        },
        *STORED,
        Code.RUN_VALIDATION_ERROR,
        Code.RUN_NOT_FOUND,
        Code.RUN_CONFLICT,
    ),
)
async def get_run(
    service: ServiceParam,
    run_id: RunIdParam,
    if_none_match: IfNoneMatch = None,
    if_match: IfMatch = None,
) -> Response:
    """The record is evidence, not a grant: a worker never takes a fencing token from it."""
    expected = expected_version(if_match)
    try:
        allow(check_run_id(run_id))
        record, now = await service.database.get(run_id)
    except DatabaseUnavailableError as error:
        raise unavailable(str(error)) from error
    if record is None:
        raise ProblemError(Code.RUN_NOT_FOUND, "there is no such run")
    if isinstance(expected, int) and expected != record.version:
        raise ProblemError(
            Code.RUN_CONFLICT,
            f"expected version {expected}, the run has version {record.version}",
            record=record,
            now=now,
        )
    if matches_none(if_none_match, record.version):
        return Answer(304, b"", record_headers(record, now))
    return record_answer(record, now)


@router.put(
    "/v1/runs/{runId:path}",
    operation_id="put_run",
    summary="Store a record: create, or compare and set",
    response_model=None,
    responses=responses(
        {
            200: record_response("The record took the place of the expected version."),
            201: record_response("The record is stored."),
        },
        *STORED,
        *WITH_BODY,
        Code.RUN_VALIDATION_ERROR,
        Code.RUN_CONFLICT,
        Code.RUN_NOT_FOUND,
        Code.RUN_ALREADY_TERMINAL,
        Code.RUN_INVALID_TRANSITION,
        ServiceCode.PRECONDITION_REQUIRED,
        unreadable=True,
    ),
)
async def put_run(
    service: ServiceParam,
    run_id: RunIdParam,
    body: RecordBody,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """The seam for a ledger above the store. `If-None-Match: *` creates; `If-Match: "N"` swaps
    version N for N+1. What breaks an invariant (a token or attempt that falls, a finished run
    that is reopened) is refused."""
    create, expected = is_any(if_none_match), expected_version(if_match)
    if not create and expected is None:
        raise ProblemError(
            ServiceCode.PRECONDITION_REQUIRED,
            'send If-None-Match: * to create the run, or If-Match: "N" to swap version N',
        )
    if create and expected is not None:
        raise malformed("If-Match", "must not be sent together with If-None-Match")
    if expected is Existing.ANY_VERSION:
        raise malformed("If-Match", 'must be one version on PUT, as in "7"')
    record = parse_record(body.model_dump(by_alias=True, exclude_unset=True))
    answer = await service.execute(
        Create(run_id=run_id, record=record)
        if create
        else CompareAndSet(run_id=run_id, expected_version=expected, record=record)
    )
    return record_answer(record_of(answer), answer.now, 201 if create else 200)


class DeleteQuery(BaseModel):
    """The query of DELETE. An unknown parameter is refused."""

    model_config = ConfigDict(extra="forbid")

    force: Annotated[
        Literal["true", "false"], Field(description="Delete also under a live lease.")
    ] = "false"


@router.delete(
    "/v1/runs/{runId:path}",
    operation_id="delete_run",
    summary="Remove a run",
    response_model=None,
    status_code=204,
    responses=responses(
        {204: {"description": "The run is gone, or was not there."}},
        *STORED,
        Code.RUN_VALIDATION_ERROR,
        Code.RUN_CONFLICT,
        Code.RUN_LEASE_HELD,
    ),
)
async def delete_run(
    service: ServiceParam,
    run_id: RunIdParam,
    query: Annotated[DeleteQuery, Query()],
    if_match: IfMatch = None,
) -> Response:
    """The last fencing token stays behind: a run made again under this id starts above it."""
    await service.execute(
        Delete(
            run_id=run_id,
            expected_version=expected_version(if_match),
            force=query.force == "true",
        )
    )
    return Answer(204, b"", [])


def _label(text: str) -> str:
    key, equals, _ = text.partition("=")
    if not key or not equals:
        raise malformed("label", "must be key=value")
    return check_text(text, "label", length_max=LABEL_KEY_LENGTH_MAX + 1 + LABEL_VALUE_LENGTH_MAX)


def _cursor(position: Position) -> str:
    # Unescaped, so that the longest id still fits into a URL.
    text = json.dumps([position.created_at_ms, position.run_id], ensure_ascii=False)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _position(cursor: str) -> Position:
    try:
        text = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        created_at_ms, run_id = json.loads(text)
        check_counter(created_at_ms, "cursor", least=-COUNTER_MAX)
        return Position(created_at_ms, check_run_id(run_id))
    except (ValueError, TypeError, RunStoreError, RecursionError):
        raise malformed("cursor", "must be the nextCursor of an earlier page") from None
