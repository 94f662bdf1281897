from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="CheckpointRef")


@_attrs_define
class CheckpointRef:
    """Where the newest snapshot lies; advisory.

    Attributes:
        key (str):
        snapshot_version (int):
        saved_at (datetime.datetime): An RFC 3339 timestamp; any offset is read, `Z` with milliseconds is written.
    """

    key: str
    snapshot_version: int
    saved_at: datetime.datetime
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        key = self.key

        snapshot_version = self.snapshot_version

        saved_at = self.saved_at.isoformat()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "key": key,
                "snapshotVersion": snapshot_version,
                "savedAt": saved_at,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        key = d.pop("key")

        snapshot_version = d.pop("snapshotVersion")

        saved_at = datetime.datetime.fromisoformat(d.pop("savedAt"))

        checkpoint_ref = cls(
            key=key,
            snapshot_version=snapshot_version,
            saved_at=saved_at,
        )

        checkpoint_ref.additional_properties = d
        return checkpoint_ref

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
