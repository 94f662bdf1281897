from typing import Literal

LifecycleTerminalItem = Literal[
    "cancelled", "completed", "failed", "queued", "running", "suspended"
]

LIFECYCLE_TERMINAL_ITEM_VALUES: set[LifecycleTerminalItem] = {
    "cancelled",
    "completed",
    "failed",
    "queued",
    "running",
    "suspended",
}


def check_lifecycle_terminal_item(value: str) -> LifecycleTerminalItem:
    if value in LIFECYCLE_TERMINAL_ITEM_VALUES:
        return value
    raise TypeError(
        f"Unexpected value {value!r}. Expected one of {LIFECYCLE_TERMINAL_ITEM_VALUES!r}"
    )
