from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="LeaseBody")


@_attrs_define
class LeaseBody:
    """One grant of a batch.

    Attributes:
        run_id (str): 1 to 512 characters, no white space at its ends, no control characters; between slashes no empty,
            `.` or `..` segment.
        fencing_token (int): The token of the grant.
    """

    run_id: str
    fencing_token: int

    def to_dict(self) -> dict[str, Any]:
        run_id = self.run_id

        fencing_token = self.fencing_token

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "runId": run_id,
                "fencingToken": fencing_token,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        run_id = d.pop("runId")

        fencing_token = d.pop("fencingToken")

        lease_body = cls(
            run_id=run_id,
            fencing_token=fencing_token,
        )

        return lease_body
