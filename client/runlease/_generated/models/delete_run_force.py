from typing import Literal

DeleteRunForce = Literal["false", "true"]

DELETE_RUN_FORCE_VALUES: set[DeleteRunForce] = {
    "false",
    "true",
}


def check_delete_run_force(value: str) -> DeleteRunForce:
    if value in DELETE_RUN_FORCE_VALUES:
        return value
    raise TypeError(
        f"Unexpected value {value!r}. Expected one of {DELETE_RUN_FORCE_VALUES!r}"
    )
