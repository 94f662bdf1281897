from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.checkpoint_ref_body import CheckpointRefBody


T = TypeVar("T", bound="FenceCheckpointBody")


@_attrs_define
class FenceCheckpointBody:
    """The grant, and where the next snapshot goes.

    Attributes:
        owner (str): The worker's identity, not blank. Two live workers must never share one.
        fencing_token (int): The token of the grant.
        checkpoint_ref (CheckpointRefBody): Where the newest snapshot lies.
        lease_ttl_ms (int | Unset): The lease's length in milliseconds; 60000 unless the service is set otherwise.
            Outside of the bounds it is refused, never clamped.
    """

    owner: str
    fencing_token: int
    checkpoint_ref: CheckpointRefBody
    lease_ttl_ms: int | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        owner = self.owner

        fencing_token = self.fencing_token

        checkpoint_ref = self.checkpoint_ref.to_dict()

        lease_ttl_ms = self.lease_ttl_ms

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "owner": owner,
                "fencingToken": fencing_token,
                "checkpointRef": checkpoint_ref,
            }
        )
        if lease_ttl_ms is not UNSET:
            field_dict["leaseTtlMs"] = lease_ttl_ms

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.checkpoint_ref_body import CheckpointRefBody  # noqa: PLC0415

        d = dict(src_dict)
        owner = d.pop("owner")

        fencing_token = d.pop("fencingToken")

        checkpoint_ref = CheckpointRefBody.from_dict(d.pop("checkpointRef"))

        lease_ttl_ms = d.pop("leaseTtlMs", UNSET)

        fence_checkpoint_body = cls(
            owner=owner,
            fencing_token=fencing_token,
            checkpoint_ref=checkpoint_ref,
            lease_ttl_ms=lease_ttl_ms,
        )

        return fence_checkpoint_body
