"""The answers on the wire, as pydantic models, for the OpenAPI document: the core writes them."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from runlease_core.fields import COUNTER_MAX
from runlease_service.api.bodies import (
    ABSENT,
    ApprovalIds,
    Counter,
    Instant,
    Labels,
    MaxAttempts,
    Message,
    Owner,
    RunIdText,
    Status,
    leave_out_null_defaults,
)


class Sent(BaseModel):
    """What every answer's model keeps. A newer service may add fields."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_alias=True,
        json_schema_extra=leave_out_null_defaults,
    )


class Lease(Sent):
    """Who may advance the run, and until when."""

    owner: Owner
    acquired_at: Instant
    expires_at: Instant


class CheckpointRef(Sent):
    """Where the newest snapshot lies; advisory."""

    key: Annotated[str, Field(examples=["snapshots/reports/2026-09/4"])]
    snapshot_version: Counter
    saved_at: Instant


class Outcome(Sent):
    """How the run ended."""

    code: Annotated[str, Field(examples=["ok"])]
    message: Message = ABSENT


class Suspension(Sent):
    """Since when the run waits, and for which approvals."""

    suspended_at: Instant
    pending_approval_ids: ApprovalIds


RECORD_EXAMPLE: Final = {
    "schema": 1,
    "runId": "reports/2026-09",
    "version": 2,
    "status": "running",
    "attempt": 1,
    "fencingToken": 1,
    "lease": {
        "owner": "worker-7",
        "acquiredAt": "2026-09-01T12:00:20.000Z",
        "expiresAt": "2026-09-01T12:01:20.000Z",
    },
    "createdAt": "2026-09-01T12:00:00.000Z",
    "updatedAt": "2026-09-01T12:00:20.000Z",
}


def _record_example(schema: dict[str, Any]) -> None:
    leave_out_null_defaults(schema)
    schema["examples"] = [RECORD_EXAMPLE]


class RunRecord(Sent):
    """The one authoritative record of a run. Absent fields are left out, never null."""

    model_config = ConfigDict(json_schema_extra=_record_example)

    schema_: Annotated[Literal[1], Field(alias="schema")]
    run_id: RunIdText
    version: Annotated[int, Field(ge=1, le=COUNTER_MAX, description="Rises by one a write.")]
    status: Status
    attempt: Annotated[int, Field(ge=1, le=COUNTER_MAX, description="Rises with a takeover.")]
    fencing_token: Annotated[
        int,
        Field(ge=0, le=COUNTER_MAX, description="Rises with every grant, cancel and revoke."),
    ]
    lease: Lease = ABSENT
    checkpoint_ref: CheckpointRef = ABSENT
    outcome: Outcome = ABSENT
    suspension: Suspension = ABSENT
    labels: Labels = ABSENT
    max_attempts: MaxAttempts = ABSENT
    created_at: Instant
    updated_at: Instant


class RunPage(Sent):
    """One page of runs, newest first."""

    runs: list[RunRecord]
    next_cursor: Annotated[
        str, Field(description="Where the next page starts; absent on the last page.")
    ] = ABSENT


class Problem(Sent):
    """An RFC 9457 problem document."""

    type: Annotated[str, Field(examples=["urn:runlease:problem:RUN_LEASE_HELD"])]
    title: Annotated[str, Field(examples=["Another owner's lease is live"])]
    status: Annotated[int, Field(ge=400, le=599, examples=[409])]
    detail: Annotated[
        str, Field(examples=["held by worker-7 until 2026-09-01T12:01:20.000Z; try again after"])
    ]
    code: Annotated[
        str,
        Field(
            description="One of RUN_LEASE_HELD, RUN_LEASE_LOST, RUN_ALREADY_TERMINAL, "
            "RUN_SUSPENDED, RUN_INVALID_TRANSITION, RUN_INTEGRITY_ERROR, RUN_VALIDATION_ERROR, "
            "RUN_CONFLICT, RUN_NOT_FOUND, or one of the service's own. A newer service may "
            "know more.",
            examples=["RUN_LEASE_HELD"],
        ),
    ]
    field: Annotated[str, Field(description="The malformed field, where one is to blame.")] = ABSENT
    record: Annotated[
        RunRecord, Field(description="The record that was judged, where one was read.")
    ] = ABSENT


class RenewResult(Sent):
    """The answer for one grant of a batch: its record, or the problem."""

    record: RunRecord = ABSENT
    lease_remaining_ms: Annotated[
        int, Field(ge=0, description="How long the lease lasts from now, in milliseconds.")
    ] = ABSENT
    problem: Problem = ABSENT


class RenewResults(Sent):
    """One answer for each grant, in the order of the request."""

    results: list[RenewResult]


class Lifecycle(Sent):
    """The statuses, which of them are terminal, and the legal edges."""

    statuses: list[Status]
    terminal: list[Status]
    edges: dict[str, list[Status]]


class Health(Sent):
    """What the service says of itself."""

    status: Annotated[str, Field(examples=["ok"])]
