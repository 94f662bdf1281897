from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="RecordLeaseBody")


@_attrs_define
class RecordLeaseBody:
    """The lease of a stored record.

    Attributes:
        owner (str): The worker's identity, not blank. Two live workers must never share one.
        acquired_at (datetime.datetime): An RFC 3339 timestamp; any offset is read, `Z` with milliseconds is written.
        expires_at (datetime.datetime): An RFC 3339 timestamp; any offset is read, `Z` with milliseconds is written.
    """

    owner: str
    acquired_at: datetime.datetime
    expires_at: datetime.datetime

    def to_dict(self) -> dict[str, Any]:
        owner = self.owner

        acquired_at = self.acquired_at.isoformat()

        expires_at = self.expires_at.isoformat()

        field_dict: dict[str, Any] = {}

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

        record_lease_body = cls(
            owner=owner,
            acquired_at=acquired_at,
            expires_at=expires_at,
        )

        return record_lease_body
