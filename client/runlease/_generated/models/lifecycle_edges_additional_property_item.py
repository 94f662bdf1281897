from typing import Literal

LifecycleEdgesAdditionalPropertyItem = Literal[
    "cancelled", "completed", "failed", "queued", "running", "suspended"
]

LIFECYCLE_EDGES_ADDITIONAL_PROPERTY_ITEM_VALUES: set[
    LifecycleEdgesAdditionalPropertyItem
] = {
    "cancelled",
    "completed",
    "failed",
    "queued",
    "running",
    "suspended",
}


def check_lifecycle_edges_additional_property_item(
    value: str,
) -> LifecycleEdgesAdditionalPropertyItem:
    if value in LIFECYCLE_EDGES_ADDITIONAL_PROPERTY_ITEM_VALUES:
        return value
    raise TypeError(
        f"Unexpected value {value!r}. Expected one of {LIFECYCLE_EDGES_ADDITIONAL_PROPERTY_ITEM_VALUES!r}"
    )
