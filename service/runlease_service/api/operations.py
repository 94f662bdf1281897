"""What operators do: cancel, resume, revoke. The body is optional, so a bare POST works."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from runlease_core.commands import Cancel, Resume, Revoke
from runlease_core.errors import Code
from runlease_service.api.answers import record_answer
from runlease_service.api.bodies import MessageBody, ResumeBody
from runlease_service.api.conditions import IfMatch, expected_version
from runlease_service.api.leases import RunIdParam
from runlease_service.api.parse import StrictRoute
from runlease_service.api.responses import STORED, WITH_BODY, record_response, responses
from runlease_service.api.service import ServiceParam, record_of

router = APIRouter(tags=["operations"], route_class=StrictRoute)

_COMMON = (
    *STORED,
    *WITH_BODY,
    Code.RUN_VALIDATION_ERROR,
    Code.RUN_CONFLICT,
    Code.RUN_NOT_FOUND,
    Code.RUN_ALREADY_TERMINAL,
)


@router.post(
    "/v1/runs/{runId:path}/cancel",
    operation_id="cancel_run",
    summary="Cancel a run",
    response_model=None,
    responses=responses({200: record_response("The run is cancelled.")}, *_COMMON, unreadable=True),
)
async def cancel(
    service: ServiceParam,
    run_id: RunIdParam,
    body: MessageBody | None = None,
    if_match: IfMatch = None,
) -> Response:
    """End the run whoever holds it. The fencing token rises, so a working owner is fenced at its
    next write. A run that is cancelled already converges."""
    answer = await service.execute(
        Cancel(
            run_id=run_id,
            expected_version=expected_version(if_match),
            message=body.message if body else None,
        )
    )
    return record_answer(record_of(answer), answer.now)


@router.post(
    "/v1/runs/{runId:path}/resume",
    operation_id="resume_run",
    summary="Make a suspended or abandoned run eligible again",
    response_model=None,
    responses=responses(
        {200: record_response("The run is queued.")},
        *_COMMON,
        Code.RUN_LEASE_HELD,
        Code.RUN_INVALID_TRANSITION,
        unreadable=True,
    ),
)
async def resume(
    service: ServiceParam,
    run_id: RunIdParam,
    body: ResumeBody | None = None,
    if_match: IfMatch = None,
) -> Response:
    """Name the `pendingApprovalIds` that were decided, or send `If-Match`, so that a late
    duplicate cannot end the next suspension."""
    ids = body.pending_approval_ids if body else None
    answer = await service.execute(
        Resume(
            run_id=run_id,
            expected_version=expected_version(if_match),
            pending_approval_ids=None if ids is None else tuple(ids),
            message=body.message if body else None,
        )
    )
    return record_answer(record_of(answer), answer.now)


@router.post(
    "/v1/runs/{runId:path}/revoke",
    operation_id="revoke_lease",
    summary="Take the lease from a stuck worker",
    response_model=None,
    responses=responses(
        {200: record_response("The run is queued; its last token is fenced.")},
        *_COMMON,
        Code.RUN_INVALID_TRANSITION,
        unreadable=True,
    ),
)
async def revoke(
    service: ServiceParam,
    run_id: RunIdParam,
    body: MessageBody | None = None,
    if_match: IfMatch = None,
) -> Response:
    """The run goes back to the queue at a higher fencing token, without waiting for the lease to
    run out. Send `If-Match`, so that a late duplicate cannot hit the next worker."""
    answer = await service.execute(
        Revoke(
            run_id=run_id,
            expected_version=expected_version(if_match),
            message=body.message if body else None,
        )
    )
    return record_answer(record_of(answer), answer.now)
