from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="CheckpointRefBody")


@_attrs_define
class CheckpointRefBody:
    """Where the newest snapshot lies.

    Attributes:
        key (str):
        snapshot_version (int):
        saved_at (datetime.datetime): An RFC 3339 timestamp; any offset is read, `Z` with milliseconds is written.
    """

    key: str
    snapshot_version: int
    saved_at: datetime.datetime

    def to_dict(self) -> dict[str, Any]:
        key = self.key

        snapshot_version = self.snapshot_version

        saved_at = self.saved_at.isoformat()

        field_dict: dict[str, Any] = {}

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

        checkpoint_ref_body = cls(
            key=key,
            snapshot_version=snapshot_version,
            saved_at=saved_at,
        )

        return checkpoint_ref_body
