from typing import Literal

RunRecordStatus = Literal[
    "cancelled", "completed", "failed", "queued", "running", "suspended"
]

RUN_RECORD_STATUS_VALUES: set[RunRecordStatus] = {
    "cancelled",
    "completed",
    "failed",
    "queued",
    "running",
    "suspended",
}


def check_run_record_status(value: str) -> RunRecordStatus:
    if value in RUN_RECORD_STATUS_VALUES:
        return value
    raise TypeError(
        f"Unexpected value {value!r}. Expected one of {RUN_RECORD_STATUS_VALUES!r}"
    )
