from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="ResumeBody")


@_attrs_define
class ResumeBody:
    """Why, and which approvals were decided: others than the record's are refused.

    Attributes:
        message (str | Unset): For people.
        pending_approval_ids (list[str] | Unset):
    """

    message: str | Unset = UNSET
    pending_approval_ids: list[str] | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        message = self.message

        pending_approval_ids: list[str] | Unset = UNSET
        if not isinstance(self.pending_approval_ids, Unset):
            pending_approval_ids = self.pending_approval_ids

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if message is not UNSET:
            field_dict["message"] = message
        if pending_approval_ids is not UNSET:
            field_dict["pendingApprovalIds"] = pending_approval_ids

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        message = d.pop("message", UNSET)

        pending_approval_ids = cast(list[str], d.pop("pendingApprovalIds", UNSET))

        resume_body = cls(
            message=message,
            pending_approval_ids=pending_approval_ids,
        )

        return resume_body
