from typing import Literal

LifecycleStatusesItem = Literal[
    "cancelled", "completed", "failed", "queued", "running", "suspended"
]

LIFECYCLE_STATUSES_ITEM_VALUES: set[LifecycleStatusesItem] = {
    "cancelled",
    "completed",
    "failed",
    "queued",
    "running",
    "suspended",
}


def check_lifecycle_statuses_item(value: str) -> LifecycleStatusesItem:
    if value in LIFECYCLE_STATUSES_ITEM_VALUES:
        return value
    raise TypeError(
        f"Unexpected value {value!r}. Expected one of {LIFECYCLE_STATUSES_ITEM_VALUES!r}"
    )
