from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.problem import Problem
    from ..models.run_record import RunRecord


T = TypeVar("T", bound="RenewResult")


@_attrs_define
class RenewResult:
    """The answer for one grant of a batch: its record, or the problem.

    Attributes:
        record (RunRecord | Unset): The one authoritative record of a run. Absent fields are left out, never null.
        lease_remaining_ms (int | Unset): How long the lease lasts from now, in milliseconds.
        problem (Problem | Unset): An RFC 9457 problem document.
    """

    record: RunRecord | Unset = UNSET
    lease_remaining_ms: int | Unset = UNSET
    problem: Problem | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        record: dict[str, Any] | Unset = UNSET
        if not isinstance(self.record, Unset):
            record = self.record.to_dict()

        lease_remaining_ms = self.lease_remaining_ms

        problem: dict[str, Any] | Unset = UNSET
        if not isinstance(self.problem, Unset):
            problem = self.problem.to_dict()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update({})
        if record is not UNSET:
            field_dict["record"] = record
        if lease_remaining_ms is not UNSET:
            field_dict["leaseRemainingMs"] = lease_remaining_ms
        if problem is not UNSET:
            field_dict["problem"] = problem

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.problem import Problem  # noqa: PLC0415
        from ..models.run_record import RunRecord  # noqa: PLC0415

        d = dict(src_dict)
        _record = d.pop("record", UNSET)
        record: RunRecord | Unset
        if isinstance(_record, Unset):
            record = UNSET
        else:
            record = RunRecord.from_dict(_record)

        lease_remaining_ms = d.pop("leaseRemainingMs", UNSET)

        _problem = d.pop("problem", UNSET)
        problem: Problem | Unset
        if isinstance(_problem, Unset):
            problem = UNSET
        else:
            problem = Problem.from_dict(_problem)

        renew_result = cls(
            record=record,
            lease_remaining_ms=lease_remaining_ms,
            problem=problem,
        )

        renew_result.additional_properties = d
        return renew_result

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
