from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

T = TypeVar("T", bound="Lease")


@_attrs_define
class Lease:
    """Who may advance the run, and until when.

    Attributes:
        owner (str): The worker's identity, not blank. Two live workers must never share one.
        acquired_at (datetime.datetime): An RFC 3339 timestamp; any offset is read, `Z` with milliseconds is written.
        expires_at (datetime.datetime): An RFC 3339 timestamp; any offset is read, `Z` with milliseconds is written.
    """

    owner: str
    acquired_at: datetime.datetime
    expires_at: datetime.datetime
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        owner = self.owner

        acquired_at = self.acquired_at.isoformat()

        expires_at = self.expires_at.isoformat()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "owner": owner,
                "acquiredAt": acquired_at,
                "expiresAt": expires_at,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        owner = d.pop("owner")

        acquired_at = datetime.datetime.fromisoformat(d.pop("acquiredAt"))

        expires_at = datetime.datetime.fromisoformat(d.pop("expiresAt"))

        lease = cls(
            owner=owner,
            acquired_at=acquired_at,
            expires_at=expires_at,
        )

        lease.additional_properties = d
        return lease

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
