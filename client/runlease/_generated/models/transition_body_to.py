from typing import Literal

TransitionBodyTo = Literal["cancelled", "completed", "failed", "queued", "suspended"]

TRANSITION_BODY_TO_VALUES: set[TransitionBodyTo] = {
    "cancelled",
    "completed",
    "failed",
    "queued",
    "suspended",
}


def check_transition_body_to(value: str) -> TransitionBodyTo:
    if value in TRANSITION_BODY_TO_VALUES:
        return value
    raise TypeError(
        f"Unexpected value {value!r}. Expected one of {TRANSITION_BODY_TO_VALUES!r}"
    )
