from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.lease_body import LeaseBody


T = TypeVar("T", bound="RenewBatchBody")


@_attrs_define
class RenewBatchBody:
    """Grants of one owner to renew.

    Attributes:
        owner (str): The worker's identity, not blank. Two live workers must never share one.
        leases (list[LeaseBody]):
        lease_ttl_ms (int | Unset): The lease's length in milliseconds; 60000 unless the service is set otherwise.
            Outside of the bounds it is refused, never clamped.
    """

    owner: str
    leases: list[LeaseBody]
    lease_ttl_ms: int | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        owner = self.owner

        leases = []
        for leases_item_data in self.leases:
            leases_item = leases_item_data.to_dict()
            leases.append(leases_item)

        lease_ttl_ms = self.lease_ttl_ms

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "owner": owner,
                "leases": leases,
            }
        )
        if lease_ttl_ms is not UNSET:
            field_dict["leaseTtlMs"] = lease_ttl_ms

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.lease_body import LeaseBody  # noqa: PLC0415

        d = dict(src_dict)
        owner = d.pop("owner")

        leases = []
        _leases = d.pop("leases")
        for leases_item_data in _leases:
            leases_item = LeaseBody.from_dict(leases_item_data)

            leases.append(leases_item)

        lease_ttl_ms = d.pop("leaseTtlMs", UNSET)

        renew_batch_body = cls(
            owner=owner,
            leases=leases,
            lease_ttl_ms=lease_ttl_ms,
        )

        return renew_batch_body
