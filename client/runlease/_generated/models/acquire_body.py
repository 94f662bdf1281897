from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.acquire_body_labels import AcquireBodyLabels


T = TypeVar("T", bound="AcquireBody")


@_attrs_define
class AcquireBody:
    """Who takes the lease, and for how long.

    Attributes:
        owner (str): The worker's identity, not blank. Two live workers must never share one.
        lease_ttl_ms (int | Unset): The lease's length in milliseconds; 60000 unless the service is set otherwise.
            Outside of the bounds it is refused, never clamped.
        labels (AcquireBodyLabels | Unset): Set when the run is made.
        max_attempts (int | Unset): Set when the run is made. A takeover past it ends the run as failed with outcome
            code `attempts_exhausted`.
    """

    owner: str
    lease_ttl_ms: int | Unset = UNSET
    labels: AcquireBodyLabels | Unset = UNSET
    max_attempts: int | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        owner = self.owner

        lease_ttl_ms = self.lease_ttl_ms

        labels: dict[str, Any] | Unset = UNSET
        if not isinstance(self.labels, Unset):
            labels = self.labels.to_dict()

        max_attempts = self.max_attempts

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "owner": owner,
            }
        )
        if lease_ttl_ms is not UNSET:
            field_dict["leaseTtlMs"] = lease_ttl_ms
        if labels is not UNSET:
            field_dict["labels"] = labels
        if max_attempts is not UNSET:
            field_dict["maxAttempts"] = max_attempts

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.acquire_body_labels import AcquireBodyLabels  # noqa: PLC0415

        d = dict(src_dict)
        owner = d.pop("owner")

        lease_ttl_ms = d.pop("leaseTtlMs", UNSET)

        _labels = d.pop("labels", UNSET)
        labels: AcquireBodyLabels | Unset
        if isinstance(_labels, Unset):
            labels = UNSET
        else:
            labels = AcquireBodyLabels.from_dict(_labels)

        max_attempts = d.pop("maxAttempts", UNSET)

        acquire_body = cls(
            owner=owner,
            lease_ttl_ms=lease_ttl_ms,
            labels=labels,
            max_attempts=max_attempts,
        )

        return acquire_body
