from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    TypeVar,
    cast,
)

from attrs import define as _attrs_define

from ..models.record_body_status import RecordBodyStatus, check_record_body_status
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.checkpoint_ref_body import CheckpointRefBody
    from ..models.outcome_body import OutcomeBody
    from ..models.record_body_labels import RecordBodyLabels
    from ..models.record_lease_body import RecordLeaseBody
    from ..models.record_suspension_body import RecordSuspensionBody


T = TypeVar("T", bound="RecordBody")


@_attrs_define
class RecordBody:
    """A whole record, for the seam that stores it as given.

    Attributes:
        schema (Literal[1]):
        run_id (str): 1 to 512 characters, no white space at its ends, no control characters; between slashes no empty,
            `.` or `..` segment.
        version (int):
        status (RecordBodyStatus):
        attempt (int):
        fencing_token (int):
        created_at (datetime.datetime): An RFC 3339 timestamp; any offset is read, `Z` with milliseconds is written.
        updated_at (datetime.datetime): An RFC 3339 timestamp; any offset is read, `Z` with milliseconds is written.
        lease (RecordLeaseBody | Unset): The lease of a stored record.
        checkpoint_ref (CheckpointRefBody | Unset): Where the newest snapshot lies.
        outcome (OutcomeBody | Unset): How a finished run ended: a code for programs, a message for people.
        suspension (RecordSuspensionBody | Unset): The suspension of a stored record.
        labels (RecordBodyLabels | Unset): Set when the run is made.
        max_attempts (int | Unset): Set when the run is made. A takeover past it ends the run as failed with outcome
            code `attempts_exhausted`.
    """

    schema: Literal[1]
    run_id: str
    version: int
    status: RecordBodyStatus
    attempt: int
    fencing_token: int
    created_at: datetime.datetime
    updated_at: datetime.datetime
    lease: RecordLeaseBody | Unset = UNSET
    checkpoint_ref: CheckpointRefBody | Unset = UNSET
    outcome: OutcomeBody | Unset = UNSET
    suspension: RecordSuspensionBody | Unset = UNSET
    labels: RecordBodyLabels | Unset = UNSET
    max_attempts: int | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        schema = self.schema

        run_id = self.run_id

        version = self.version

        status: str = self.status

        attempt = self.attempt

        fencing_token = self.fencing_token

        created_at = self.created_at.isoformat()

        updated_at = self.updated_at.isoformat()

        lease: dict[str, Any] | Unset = UNSET
        if not isinstance(self.lease, Unset):
            lease = self.lease.to_dict()

        checkpoint_ref: dict[str, Any] | Unset = UNSET
        if not isinstance(self.checkpoint_ref, Unset):
            checkpoint_ref = self.checkpoint_ref.to_dict()

        outcome: dict[str, Any] | Unset = UNSET
        if not isinstance(self.outcome, Unset):
            outcome = self.outcome.to_dict()

        suspension: dict[str, Any] | Unset = UNSET
        if not isinstance(self.suspension, Unset):
            suspension = self.suspension.to_dict()

        labels: dict[str, Any] | Unset = UNSET
        if not isinstance(self.labels, Unset):
            labels = self.labels.to_dict()

        max_attempts = self.max_attempts

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "schema": schema,
                "runId": run_id,
                "version": version,
                "status": status,
                "attempt": attempt,
                "fencingToken": fencing_token,
                "createdAt": created_at,
                "updatedAt": updated_at,
            }
        )
        if lease is not UNSET:
            field_dict["lease"] = lease
        if checkpoint_ref is not UNSET:
            field_dict["checkpointRef"] = checkpoint_ref
        if outcome is not UNSET:
            field_dict["outcome"] = outcome
        if suspension is not UNSET:
            field_dict["suspension"] = suspension
        if labels is not UNSET:
            field_dict["labels"] = labels
        if max_attempts is not UNSET:
            field_dict["maxAttempts"] = max_attempts

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.checkpoint_ref_body import CheckpointRefBody  # noqa: PLC0415
        from ..models.outcome_body import OutcomeBody  # noqa: PLC0415
        from ..models.record_body_labels import RecordBodyLabels  # noqa: PLC0415
        from ..models.record_lease_body import RecordLeaseBody  # noqa: PLC0415
        from ..models.record_suspension_body import RecordSuspensionBody  # noqa: PLC0415

        d = dict(src_dict)
        schema = cast(Literal[1], d.pop("schema"))
        if schema != 1:
            raise ValueError(f"schema must match const 1, got '{schema}'")

        run_id = d.pop("runId")

        version = d.pop("version")

        status = check_record_body_status(d.pop("status"))

        attempt = d.pop("attempt")

        fencing_token = d.pop("fencingToken")

        created_at = datetime.datetime.fromisoformat(d.pop("createdAt"))

        updated_at = datetime.datetime.fromisoformat(d.pop("updatedAt"))

        _lease = d.pop("lease", UNSET)
        lease: RecordLeaseBody | Unset
        if isinstance(_lease, Unset):
            lease = UNSET
        else:
            lease = RecordLeaseBody.from_dict(_lease)

        _checkpoint_ref = d.pop("checkpointRef", UNSET)
        checkpoint_ref: CheckpointRefBody | Unset
        if isinstance(_checkpoint_ref, Unset):
            checkpoint_ref = UNSET
        else:
            checkpoint_ref = CheckpointRefBody.from_dict(_checkpoint_ref)

        _outcome = d.pop("outcome", UNSET)
        outcome: OutcomeBody | Unset
        if isinstance(_outcome, Unset):
            outcome = UNSET
        else:
            outcome = OutcomeBody.from_dict(_outcome)

        _suspension = d.pop("suspension", UNSET)
        suspension: RecordSuspensionBody | Unset
        if isinstance(_suspension, Unset):
            suspension = UNSET
        else:
            suspension = RecordSuspensionBody.from_dict(_suspension)

        _labels = d.pop("labels", UNSET)
        labels: RecordBodyLabels | Unset
        if isinstance(_labels, Unset):
            labels = UNSET
        else:
            labels = RecordBodyLabels.from_dict(_labels)

        max_attempts = d.pop("maxAttempts", UNSET)

        record_body = cls(
            schema=schema,
            run_id=run_id,
            version=version,
            status=status,
            attempt=attempt,
            fencing_token=fencing_token,
            created_at=created_at,
            updated_at=updated_at,
            lease=lease,
            checkpoint_ref=checkpoint_ref,
            outcome=outcome,
            suspension=suspension,
            labels=labels,
            max_attempts=max_attempts,
        )

        return record_body
