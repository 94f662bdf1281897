from typing import Literal

ListRunsLease = Literal["expired", "live", "none"]

LIST_RUNS_LEASE_VALUES: set[ListRunsLease] = {
    "expired",
    "live",
    "none",
}


def check_list_runs_lease(value: str) -> ListRunsLease:
    if value in LIST_RUNS_LEASE_VALUES:
        return value
    raise TypeError(
        f"Unexpected value {value!r}. Expected one of {LIST_RUNS_LEASE_VALUES!r}"
    )
