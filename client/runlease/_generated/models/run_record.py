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
from attrs import field as _attrs_field

from ..models.run_record_status import RunRecordStatus, check_run_record_status
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.checkpoint_ref import CheckpointRef
    from ..models.lease import Lease
    from ..models.outcome import Outcome
    from ..models.run_record_labels import RunRecordLabels
    from ..models.suspension import Suspension


T = TypeVar("T", bound="RunRecord")


@_attrs_define
class RunRecord:
    """The one authoritative record of a run. Absent fields are left out, never null.

    Attributes:
        schema (Literal[1]):
        run_id (str): 1 to 512 characters, no white space at its ends, no control characters; between slashes no empty,
            `.` or `..` segment.
        version (int): Rises by one a write.
        status (RunRecordStatus):
        attempt (int): Rises with a takeover.
        fencing_token (int): Rises with every grant, cancel and revoke.
        created_at (datetime.datetime): An RFC 3339 timestamp; any offset is read, `Z` with milliseconds is written.
        updated_at (datetime.datetime): An RFC 3339 timestamp; any offset is read, `Z` with milliseconds is written.
        lease (Lease | Unset): Who may advance the run, and until when.
        checkpoint_ref (CheckpointRef | Unset): Where the newest snapshot lies; advisory.
        outcome (Outcome | Unset): How the run ended.
        suspension (Suspension | Unset): Since when the run waits, and for which approvals.
        labels (RunRecordLabels | Unset): Set when the run is made.
        max_attempts (int | Unset): Set when the run is made. A takeover past it ends the run as failed with outcome
            code `attempts_exhausted`.
    """

    schema: Literal[1]
    run_id: str
    version: int
    status: RunRecordStatus
    attempt: int
    fencing_token: int
    created_at: datetime.datetime
    updated_at: datetime.datetime
    lease: Lease | Unset = UNSET
    checkpoint_ref: CheckpointRef | Unset = UNSET
    outcome: Outcome | Unset = UNSET
    suspension: Suspension | Unset = UNSET
    labels: RunRecordLabels | Unset = UNSET
    max_attempts: int | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

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
        field_dict.update(self.additional_properties)
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
        from ..models.checkpoint_ref import CheckpointRef  # noqa: PLC0415
        from ..models.lease import Lease  # noqa: PLC0415
        from ..models.outcome import Outcome  # noqa: PLC0415
        from ..models.run_record_labels import RunRecordLabels  # noqa: PLC0415
        from ..models.suspension import Suspension  # noqa: PLC0415

        d = dict(src_dict)
        schema = cast(Literal[1], d.pop("schema"))
        if schema != 1:
            raise ValueError(f"schema must match const 1, got '{schema}'")

        run_id = d.pop("runId")

        version = d.pop("version")

        status = check_run_record_status(d.pop("status"))

        attempt = d.pop("attempt")

        fencing_token = d.pop("fencingToken")

        created_at = datetime.datetime.fromisoformat(d.pop("createdAt"))

        updated_at = datetime.datetime.fromisoformat(d.pop("updatedAt"))

        _lease = d.pop("lease", UNSET)
        lease: Lease | Unset
        if isinstance(_lease, Unset):
            lease = UNSET
        else:
            lease = Lease.from_dict(_lease)

        _checkpoint_ref = d.pop("checkpointRef", UNSET)
        checkpoint_ref: CheckpointRef | Unset
        if isinstance(_checkpoint_ref, Unset):
            checkpoint_ref = UNSET
        else:
            checkpoint_ref = CheckpointRef.from_dict(_checkpoint_ref)

        _outcome = d.pop("outcome", UNSET)
        outcome: Outcome | Unset
        if isinstance(_outcome, Unset):
            outcome = UNSET
        else:
            outcome = Outcome.from_dict(_outcome)

        _suspension = d.pop("suspension", UNSET)
        suspension: Suspension | Unset
        if isinstance(_suspension, Unset):
            suspension = UNSET
        else:
            suspension = Suspension.from_dict(_suspension)

        _labels = d.pop("labels", UNSET)
        labels: RunRecordLabels | Unset
        if isinstance(_labels, Unset):
            labels = UNSET
        else:
            labels = RunRecordLabels.from_dict(_labels)

        max_attempts = d.pop("maxAttempts", UNSET)

        run_record = cls(
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

        run_record.additional_properties = d
        return run_record

    @property
    def additional_keys(self) -> list[str]:
        return list(self.additional_properties.keys())

    def __getitem__(self, key: str) -> Any:
        return self.additional_properties[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.additional_properties[key] = value

    def __delitem__(self, key: str) -> None:
        del self.additional_properties[key]

    def __contains__(self, key: str) -> bool:
        return key in self.additional_properties
