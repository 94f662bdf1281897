from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.lifecycle_statuses_item import (
    LifecycleStatusesItem,
    check_lifecycle_statuses_item,
)
from ..models.lifecycle_terminal_item import (
    LifecycleTerminalItem,
    check_lifecycle_terminal_item,
)

if TYPE_CHECKING:
    from ..models.lifecycle_edges import LifecycleEdges


T = TypeVar("T", bound="Lifecycle")


@_attrs_define
class Lifecycle:
    """The statuses, which of them are terminal, and the legal edges.

    Attributes:
        statuses (list[LifecycleStatusesItem]):
        terminal (list[LifecycleTerminalItem]):
        edges (LifecycleEdges):
    """

    statuses: list[LifecycleStatusesItem]
    terminal: list[LifecycleTerminalItem]
    edges: LifecycleEdges
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        statuses = []
        for statuses_item_data in self.statuses:
            statuses_item: str = statuses_item_data
            statuses.append(statuses_item)

        terminal = []
        for terminal_item_data in self.terminal:
            terminal_item: str = terminal_item_data
            terminal.append(terminal_item)

        edges = self.edges.to_dict()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "statuses": statuses,
                "terminal": terminal,
                "edges": edges,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.lifecycle_edges import LifecycleEdges  # noqa: PLC0415

        d = dict(src_dict)
        statuses = []
        _statuses = d.pop("statuses")
        for statuses_item_data in _statuses:
            statuses_item = check_lifecycle_statuses_item(statuses_item_data)

            statuses.append(statuses_item)

        terminal = []
        _terminal = d.pop("terminal")
        for terminal_item_data in _terminal:
            terminal_item = check_lifecycle_terminal_item(terminal_item_data)

            terminal.append(terminal_item)

        edges = LifecycleEdges.from_dict(d.pop("edges"))

        lifecycle = cls(
            statuses=statuses,
            terminal=terminal,
            edges=edges,
        )

        lifecycle.additional_properties = d
        return lifecycle

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
