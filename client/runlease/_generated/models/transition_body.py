from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.transition_body_to import TransitionBodyTo, check_transition_body_to
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.outcome_body import OutcomeBody


T = TypeVar("T", bound="TransitionBody")


@_attrs_define
class TransitionBody:
    """The grant, and what becomes of the run. `running` is reached by acquire alone.

    Attributes:
        owner (str): The worker's identity, not blank. Two live workers must never share one.
        fencing_token (int): The token of the grant.
        to (TransitionBodyTo): The new status.
        outcome (OutcomeBody | Unset): How a finished run ended: a code for programs, a message for people.
        pending_approval_ids (list[str] | Unset):
    """

    owner: str
    fencing_token: int
    to: TransitionBodyTo
    outcome: OutcomeBody | Unset = UNSET
    pending_approval_ids: list[str] | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        owner = self.owner

        fencing_token = self.fencing_token

        to: str = self.to

        outcome: dict[str, Any] | Unset = UNSET
        if not isinstance(self.outcome, Unset):
            outcome = self.outcome.to_dict()

        pending_approval_ids: list[str] | Unset = UNSET
        if not isinstance(self.pending_approval_ids, Unset):
            pending_approval_ids = self.pending_approval_ids

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "owner": owner,
                "fencingToken": fencing_token,
                "to": to,
            }
        )
        if outcome is not UNSET:
            field_dict["outcome"] = outcome
        if pending_approval_ids is not UNSET:
            field_dict["pendingApprovalIds"] = pending_approval_ids

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.outcome_body import OutcomeBody  # noqa: PLC0415

        d = dict(src_dict)
        owner = d.pop("owner")

        fencing_token = d.pop("fencingToken")

        to = check_transition_body_to(d.pop("to"))

        _outcome = d.pop("outcome", UNSET)
        outcome: OutcomeBody | Unset
        if isinstance(_outcome, Unset):
            outcome = UNSET
        else:
            outcome = OutcomeBody.from_dict(_outcome)

        pending_approval_ids = cast(list[str], d.pop("pendingApprovalIds", UNSET))

        transition_body = cls(
            owner=owner,
            fencing_token=fencing_token,
            to=to,
            outcome=outcome,
            pending_approval_ids=pending_approval_ids,
        )

        return transition_body
