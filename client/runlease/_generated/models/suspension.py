from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="Suspension")


@_attrs_define
class Suspension:
    """Since when the run waits, and for which approvals.

    Attributes:
        suspended_at (datetime.datetime): An RFC 3339 timestamp; any offset is read, `Z` with milliseconds is written.
        pending_approval_ids (list[str]):
    """

    suspended_at: datetime.datetime
    pending_approval_ids: list[str]
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        suspended_at = self.suspended_at.isoformat()

        pending_approval_ids = self.pending_approval_ids

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
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

        suspension = cls(
            suspended_at=suspended_at,
            pending_approval_ids=pending_approval_ids,
        )

        suspension.additional_properties = d
        return suspension

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
