"""What workers do: acquire, renew, fence-checkpoint, transition, and the batch renewal.

Each endpoint is a plain function. FastAPI's router calls it, and so does the hot door.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import ValidationError
from starlette.responses import Response

from runlease_core.commands import Acquire, FenceCheckpoint, Renew, Transition
from runlease_core.errors import Code, RunStoreError
from runlease_core.fields import RUN_ID_LENGTH_MAX, no_labels
from runlease_core.instant import parse_instant
from runlease_core.lifecycle import RunStatus
from runlease_core.record import CheckpointRef, Outcome, record_to_text
from runlease_service.api.answers import json_answer, lease_remaining_ms, record_answer
from runlease_service.api.bodies import (
    AcquireBody,
    FenceCheckpointBody,
    RenewBatchBody,
    RenewBody,
    TransitionBody,
    given,
)
from runlease_service.api.conditions import (
    IdempotencyKey,
    IfMatch,
    expected_version,
    idempotency_key,
    refuse_if_match,
)
from runlease_service.api.models import RenewResults
from runlease_service.api.parse import StrictRoute
from runlease_service.api.problems import (
    ProblemError,
    problem_from_error,
    problem_from_validation,
)
from runlease_service.api.responses import FENCED, STORED, WITH_BODY, record_response, responses
from runlease_service.api.service import ServiceParam, is_created, record_of
from runlease_service.executor import Answer

router = APIRouter(tags=["leases"], route_class=StrictRoute)

RunIdParam = Annotated[
    str,
    Path(
        alias="runId",
        description="The run's id. It may hold `/`, sent as it is or as `%2F`.",
        examples=["reports/2026-09"],
        json_schema_extra={"minLength": 1, "maxLength": RUN_ID_LENGTH_MAX},
    ),
]
"""Only described here: the core checks ids, so that every door refuses them alike."""

_COMMON = (*STORED, *WITH_BODY, Code.RUN_VALIDATION_ERROR, Code.RUN_CONFLICT)


@router.post(
    "/v1/runs/{runId:path}/acquire",
    operation_id="acquire_run",
    summary="Take a run's lease",
    response_model=None,
    responses=responses(
        {
            200: record_response("The lease is granted, or this retry's own grant is found again."),
            201: record_response("The run is made and its lease granted."),
        },
        *_COMMON,
        Code.RUN_LEASE_HELD,
        Code.RUN_ALREADY_TERMINAL,
        Code.RUN_SUSPENDED,
        unreadable=True,
    ),
)
async def acquire(
    service: ServiceParam,
    run_id: RunIdParam,
    body: AcquireBody,
    if_match: IfMatch = None,
    key: IdempotencyKey = None,
) -> Response:
    """Take the lease before executing or restoring anything. A new grant has a higher fencing
    token, and every write under an older one is refused from then on. Send an `Idempotency-Key`,
    so that a retry after a lost answer finds its own grant again."""
    answer = await service.execute(
        Acquire(
            run_id=run_id,
            expected_version=expected_version(if_match),
            owner=body.owner,
            lease_ttl_ms=service.lease_ttl_ms(body.lease_ttl_ms),
            labels=body.labels or no_labels(),
            max_attempts=body.max_attempts,
            idempotency_key=idempotency_key(key),
        )
    )
    return record_answer(record_of(answer), answer.now, 201 if is_created(answer) else 200)


@router.post(
    "/v1/runs/{runId:path}/renew",
    operation_id="renew_lease",
    summary="Renew a lease",
    response_model=None,
    responses=responses(
        {200: record_response("The lease lasts its length from now.")},
        *_COMMON,
        *FENCED,
        unreadable=True,
    ),
)
async def renew(
    service: ServiceParam, run_id: RunIdParam, body: RenewBody, if_match: IfMatch = None
) -> Response:
    """Renew while working, at about a third of the lease's length. A lease that ran out and that
    nobody took may still be renewed: the token decides."""
    answer = await service.execute(
        Renew(
            run_id=run_id,
            expected_version=expected_version(if_match),
            owner=body.owner,
            fencing_token=body.fencing_token,
            lease_ttl_ms=service.lease_ttl_ms(body.lease_ttl_ms),
        )
    )
    return record_answer(record_of(answer), answer.now)


@router.post(
    "/v1/runs/{runId:path}/fence-checkpoint",
    operation_id="fence_checkpoint",
    summary="Record a checkpoint under the fencing token",
    response_model=None,
    responses=responses(
        {200: record_response("The reference is recorded; now write the snapshot.")},
        *_COMMON,
        *FENCED,
        unreadable=True,
    ),
)
async def fence_checkpoint(
    service: ServiceParam, run_id: RunIdParam, body: FenceCheckpointBody, if_match: IfMatch = None
) -> Response:
    """Fence first, then write the snapshot: a refused fence means that no snapshot is written.
    The lease is renewed by the same write."""
    ref = body.checkpoint_ref
    answer = await service.execute(
        FenceCheckpoint(
            run_id=run_id,
            expected_version=expected_version(if_match),
            owner=body.owner,
            fencing_token=body.fencing_token,
            lease_ttl_ms=service.lease_ttl_ms(body.lease_ttl_ms),
            checkpoint_ref=CheckpointRef(
                ref.key,
                ref.snapshot_version,
                parse_instant(ref.saved_at, "checkpointRef.savedAt"),
            ),
        )
    )
    return record_answer(record_of(answer), answer.now)


@router.post(
    "/v1/runs/{runId:path}/transition",
    operation_id="transition_run",
    summary="Release, suspend or end a run",
    response_model=None,
    responses=responses(
        {200: record_response("The run has the new status; the lease is given up.")},
        *_COMMON,
        *FENCED,
        Code.RUN_INVALID_TRANSITION,
        unreadable=True,
    ),
)
async def transition(
    service: ServiceParam, run_id: RunIdParam, body: TransitionBody, if_match: IfMatch = None
) -> Response:
    """`queued` releases the run unfinished, `suspended` lets it wait for approvals, `completed`,
    `failed` and `cancelled` end it. The same status at the same token converges."""
    outcome = given(body.outcome)
    answer = await service.execute(
        Transition(
            run_id=run_id,
            expected_version=expected_version(if_match),
            owner=body.owner,
            fencing_token=body.fencing_token,
            to=RunStatus(body.to),
            outcome=None if outcome is None else Outcome(outcome.code, outcome.message),
            pending_approval_ids=tuple(body.pending_approval_ids or ()),
        )
    )
    return record_answer(record_of(answer), answer.now)


@router.post(
    "/v1/leases/renew",
    operation_id="renew_leases",
    summary="Renew many leases of one owner",
    response_model=None,
    responses=responses(
        {
            200: {
                "model": RenewResults,
                "description": "One answer for each grant, in order: its record, or the problem.",
            }
        },
        *STORED,
        *WITH_BODY,
        Code.RUN_VALIDATION_ERROR,
        unreadable=True,
    ),
)
async def renew_batch(
    service: ServiceParam, body: RenewBatchBody, if_match: IfMatch = None
) -> Response:
    """Each grant is judged for itself: one that is lost or malformed costs no other."""
    refuse_if_match(if_match)
    if len(body.leases) > service.settings.batch_leases_max:
        most = service.settings.batch_leases_max
        raise ProblemError(
            Code.RUN_VALIDATION_ERROR, f"leases: must be at most {most}", field="leases"
        )
    lease_ttl_ms = service.lease_ttl_ms(body.lease_ttl_ms)
    results: list[Answer | ProblemError | None] = [None] * len(body.leases)
    commands: dict[int, Renew] = {}
    for index, lease in enumerate(body.items()):
        if isinstance(lease, ValidationError):
            results[index] = problem_from_validation(lease.errors(include_input=False))
            continue
        try:
            commands[index] = Renew(
                run_id=lease.run_id,
                owner=body.owner,
                fencing_token=lease.fencing_token,
                lease_ttl_ms=lease_ttl_ms,
            )
        except RunStoreError as error:
            results[index] = problem_from_error(error)
    answers = await service.execute_all(list(commands.values()))
    for index, answer in zip(commands, answers, strict=True):
        results[index] = answer
    texts = ",".join(map(_result, results))
    return json_answer(200, f'{{"results":[{texts}]}}')


def _result(result: Answer | ProblemError | None) -> str:
    if isinstance(result, ProblemError):
        return f'{{"problem":{result.text()}}}'
    assert result is not None, "every grant has an answer"
    record = record_of(result)
    remaining = lease_remaining_ms(record, result.now)
    return f'{{"record":{record_to_text(record)},"leaseRemainingMs":{remaining}}}'
