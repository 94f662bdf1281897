from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.enqueue_body_labels import EnqueueBodyLabels


T = TypeVar("T", bound="EnqueueBody")


@_attrs_define
class EnqueueBody:
    """A run to make.

    Attributes:
        run_id (str): 1 to 512 characters, no white space at its ends, no control characters; between slashes no empty,
            `.` or `..` segment.
        labels (EnqueueBodyLabels | Unset): Set when the run is made.
        max_attempts (int | Unset): Set when the run is made. A takeover past it ends the run as failed with outcome
            code `attempts_exhausted`.
    """

    run_id: str
    labels: EnqueueBodyLabels | Unset = UNSET
    max_attempts: int | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        run_id = self.run_id

        labels: dict[str, Any] | Unset = UNSET
        if not isinstance(self.labels, Unset):
            labels = self.labels.to_dict()

        max_attempts = self.max_attempts

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "runId": run_id,
            }
        )
        if labels is not UNSET:
            field_dict["labels"] = labels
        if max_attempts is not UNSET:
            field_dict["maxAttempts"] = max_attempts

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.enqueue_body_labels import EnqueueBodyLabels  # noqa: PLC0415

        d = dict(src_dict)
        run_id = d.pop("runId")

        _labels = d.pop("labels", UNSET)
        labels: EnqueueBodyLabels | Unset
        if isinstance(_labels, Unset):
            labels = UNSET
        else:
            labels = EnqueueBodyLabels.from_dict(_labels)

        max_attempts = d.pop("maxAttempts", UNSET)

        enqueue_body = cls(
            run_id=run_id,
            labels=labels,
            max_attempts=max_attempts,
        )

        return enqueue_body
