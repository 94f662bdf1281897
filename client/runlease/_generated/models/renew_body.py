from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="RenewBody")


@_attrs_define
class RenewBody:
    """The grant to renew.

    Attributes:
        owner (str): The worker's identity, not blank. Two live workers must never share one.
        fencing_token (int): The token of the grant.
        lease_ttl_ms (int | Unset): The lease's length in milliseconds; 60000 unless the service is set otherwise.
            Outside of the bounds it is refused, never clamped.
    """

    owner: str
    fencing_token: int
    lease_ttl_ms: int | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        owner = self.owner

        fencing_token = self.fencing_token

        lease_ttl_ms = self.lease_ttl_ms

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "owner": owner,
                "fencingToken": fencing_token,
            }
        )
        if lease_ttl_ms is not UNSET:
            field_dict["leaseTtlMs"] = lease_ttl_ms

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        owner = d.pop("owner")

        fencing_token = d.pop("fencingToken")

        lease_ttl_ms = d.pop("leaseTtlMs", UNSET)

        renew_body = cls(
            owner=owner,
            fencing_token=fencing_token,
            lease_ttl_ms=lease_ttl_ms,
        )

        return renew_body
