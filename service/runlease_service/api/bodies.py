"""The bodies on the wire, as pydantic models: strict types, unknown fields refused.

What the models cannot say, the core checks: commands and records refuse what is malformed when
they are built. The answers' models are for the OpenAPI document; answers are written by the core.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic.alias_generators import to_camel

from runlease_core.fields import (
    APPROVAL_ID_LENGTH_MAX,
    APPROVAL_IDS_MAX,
    CHECKPOINT_KEY_LENGTH_MAX,
    COUNTER_MAX,
    LABEL_KEY_LENGTH_MAX,
    LABEL_VALUE_LENGTH_MAX,
    LABELS_MAX,
    LEASE_TTL_MS_MAX,
    LEASE_TTL_MS_MIN,
    MAX_ATTEMPTS_MAX,
    MESSAGE_LENGTH_MAX,
    OUTCOME_CODE_LENGTH_MAX,
    OWNER_LENGTH_MAX,
    RUN_ID_LENGTH_MAX,
)

BATCH_LEASES_MAX = 1000
T = TypeVar("T")

Counter = Annotated[int, Field(ge=0, le=COUNTER_MAX)]
Positive = Annotated[int, Field(ge=1, le=COUNTER_MAX)]
Instant = Annotated[
    str,
    Field(
        description="An RFC 3339 timestamp; any offset is read, `Z` with milliseconds is written.",
        examples=["2026-09-01T12:00:00.000Z"],
        json_schema_extra={"format": "date-time"},
    ),
]
RunIdText = Annotated[
    str,
    Field(
        min_length=1,
        max_length=RUN_ID_LENGTH_MAX,
        description="1 to 512 characters, no white space at its ends, no control characters; "
        "between slashes no empty, `.` or `..` segment.",
        examples=["reports/2026-09"],
    ),
]
Owner = Annotated[
    str,
    Field(
        min_length=1,
        max_length=OWNER_LENGTH_MAX,
        description="The worker's identity, not blank. Two live workers must never share one.",
        examples=["worker-7"],
    ),
]
FencingToken = Annotated[
    int, Field(ge=0, le=COUNTER_MAX, description="The token of the grant.", examples=[1])
]
LeaseTtlMs = Annotated[
    int,
    Field(
        ge=LEASE_TTL_MS_MIN,
        le=LEASE_TTL_MS_MAX,
        description="The lease's length in milliseconds; 60000 unless the service is set "
        "otherwise. Outside of the bounds it is refused, never clamped.",
        examples=[60000],
    ),
]
Labels = Annotated[
    dict[
        Annotated[str, Field(min_length=1, max_length=LABEL_KEY_LENGTH_MAX)],
        Annotated[str, Field(max_length=LABEL_VALUE_LENGTH_MAX)],
    ],
    Field(max_length=LABELS_MAX, description="Set when the run is made.", examples=[{"team": "a"}]),
]
MaxAttempts = Annotated[
    int,
    Field(
        ge=1,
        le=MAX_ATTEMPTS_MAX,
        description="Set when the run is made. A takeover past it ends the run as failed with "
        "outcome code `attempts_exhausted`.",
        examples=[3],
    ),
]
Message = Annotated[
    str, Field(max_length=MESSAGE_LENGTH_MAX, description="For people.", examples=["superseded"])
]
ApprovalIds = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=APPROVAL_ID_LENGTH_MAX)]],
    Field(max_length=APPROVAL_IDS_MAX, examples=[["apr_1"]]),
]
Status = Literal["queued", "running", "suspended", "completed", "failed", "cancelled"]
EndStatus = Literal["queued", "suspended", "completed", "failed", "cancelled"]


ABSENT: Final[Any] = None
"""The default of an optional field: it is left out, never null, so null itself is refused."""


def given(value: T) -> T | None:
    """The value of an optional field, None when it was left out."""
    return value


def leave_out_null_defaults(schema: dict[str, Any]) -> None:
    """Take the default null out of a model's JSON schema."""
    for field in schema.get("properties", {}).values():
        if field.get("default", ...) is None:
            del field["default"]


class Body(BaseModel):
    """What every body keeps: camelCase, strict types, no unknown field."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        strict=True,
        validate_by_alias=True,
        json_schema_extra=leave_out_null_defaults,
    )

    def keys(self) -> int:
        """How many keys were read, those of the bodies inside included."""
        return len(self.model_fields_set)


class CheckpointRefBody(Body):
    """Where the newest snapshot lies."""

    key: Annotated[
        str,
        Field(
            min_length=1,
            max_length=CHECKPOINT_KEY_LENGTH_MAX,
            examples=["snapshots/reports/2026-09/4"],
        ),
    ]
    snapshot_version: Annotated[int, Field(ge=0, le=COUNTER_MAX, examples=[4])]
    saved_at: Instant


class OutcomeBody(Body):
    """How a finished run ended: a code for programs, a message for people."""

    code: Annotated[str, Field(min_length=1, max_length=OUTCOME_CODE_LENGTH_MAX, examples=["ok"])]
    message: Message = ABSENT


class EnqueueBody(Body):
    """A run to make."""

    run_id: RunIdText
    labels: Labels = ABSENT
    max_attempts: MaxAttempts = ABSENT


class AcquireBody(Body):
    """Who takes the lease, and for how long."""

    owner: Owner
    lease_ttl_ms: LeaseTtlMs = ABSENT
    labels: Labels = ABSENT
    max_attempts: MaxAttempts = ABSENT


class RenewBody(Body):
    """The grant to renew."""

    owner: Owner
    fencing_token: FencingToken
    lease_ttl_ms: LeaseTtlMs = ABSENT


class FenceCheckpointBody(Body):
    """The grant, and where the next snapshot goes."""

    owner: Owner
    fencing_token: FencingToken
    lease_ttl_ms: LeaseTtlMs = ABSENT
    checkpoint_ref: CheckpointRefBody


class TransitionBody(Body):
    """The grant, and what becomes of the run. `running` is reached by acquire alone."""

    owner: Owner
    fencing_token: FencingToken
    to: Annotated[EndStatus, Field(description="The new status.", examples=["completed"])]
    outcome: OutcomeBody = ABSENT
    pending_approval_ids: ApprovalIds = ABSENT


class MessageBody(Body):
    """Why, for people."""

    message: Message = ABSENT


class ResumeBody(Body):
    """Why, and which approvals were decided: others than the record's are refused."""

    message: Message = ABSENT
    pending_approval_ids: ApprovalIds = ABSENT


class LeaseBody(Body):
    """One grant of a batch."""

    run_id: RunIdText
    fencing_token: FencingToken


def _keep_errors(value: object, read: ValidatorFunctionWrapHandler) -> LeaseBody | ValidationError:
    try:
        lease: LeaseBody = read(value)
    except ValidationError as error:
        return error
    return lease


MaybeLease = Annotated[LeaseBody, WrapValidator(_keep_errors)]
"""A malformed item of a batch is answered in its place and costs no other."""


class RenewBatchBody(Body):
    """Grants of one owner to renew."""

    owner: Owner
    lease_ttl_ms: LeaseTtlMs = ABSENT
    leases: Annotated[list[MaybeLease], Field(min_length=1, max_length=BATCH_LEASES_MAX)]

    def items(self) -> Sequence[LeaseBody | ValidationError]:
        """Each grant, or why it is none."""
        return self.leases


class RecordLeaseBody(Body):
    """The lease of a stored record."""

    owner: Owner
    acquired_at: Instant
    expires_at: Instant


class RecordSuspensionBody(Body):
    """The suspension of a stored record."""

    suspended_at: Instant
    pending_approval_ids: ApprovalIds


class RecordBody(Body):
    """A whole record, for the seam that stores it as given."""

    schema_: Annotated[Literal[1], Field(alias="schema")]
    run_id: RunIdText
    version: Positive
    status: Status
    attempt: Positive
    fencing_token: Counter
    lease: RecordLeaseBody = ABSENT
    checkpoint_ref: CheckpointRefBody = ABSENT
    outcome: OutcomeBody = ABSENT
    suspension: RecordSuspensionBody = ABSENT
    labels: Labels = ABSENT
    max_attempts: MaxAttempts = ABSENT
    created_at: Instant
    updated_at: Instant


class WellFormedBatchBody(RenewBatchBody):
    """A batch without a malformed grant, which is read without looking after each by itself."""

    leases: Annotated[list[LeaseBody], Field(min_length=1, max_length=BATCH_LEASES_MAX)]

    def keys(self) -> int:
        return super().keys() + sum(lease.keys() for lease in self.leases)
