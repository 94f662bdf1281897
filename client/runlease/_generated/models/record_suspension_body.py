from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

T = TypeVar("T", bound="RecordSuspensionBody")


@_attrs_define
class RecordSuspensionBody:
    """The suspension of a stored record.

    Attributes:
        suspended_at (datetime.datetime): An RFC 3339 timestamp; any offset is read, `Z` with milliseconds is written.
        pending_approval_ids (list[str]):
    """

    suspended_at: datetime.datetime
    pending_approval_ids: list[str]

    def to_dict(self) -> dict[str, Any]:
        suspended_at = self.suspended_at.isoformat()

        pending_approval_ids = self.pending_approval_ids

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "suspendedAt": suspended_at,
                "pendingApprovalIds": pending_approval_ids,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        suspended_at = datetime.datetime.fromisoformat(d.pop("suspendedAt"))

        pending_approval_ids = cast(list[str], d.pop("pendingApprovalIds"))

        record_suspension_body = cls(
            suspended_at=suspended_at,
            pending_approval_ids=pending_approval_ids,
        )

        return record_suspension_body
