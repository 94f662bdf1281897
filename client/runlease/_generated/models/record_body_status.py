from typing import Literal

RecordBodyStatus = Literal[
    "cancelled", "completed", "failed", "queued", "running", "suspended"
]

RECORD_BODY_STATUS_VALUES: set[RecordBodyStatus] = {
    "cancelled",
    "completed",
    "failed",
    "queued",
    "running",
    "suspended",
}


def check_record_body_status(value: str) -> RecordBodyStatus:
    if value in RECORD_BODY_STATUS_VALUES:
        return value
    raise TypeError(
        f"Unexpected value {value!r}. Expected one of {RECORD_BODY_STATUS_VALUES!r}"
    )
