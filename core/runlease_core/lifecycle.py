"""The life of a run: its statuses and the edges between them.

Facts are tables here. `decide`, the HTTP endpoint `GET /v1/lifecycle` and every diagram read them,
so that there is one place to change. Source: the seed, "What a run record holds".
"""

from __future__ import annotations

from enum import StrEnum


class RunStatus(StrEnum):
    """The seed's `RunLifecycleStatus`: a small, closed vocabulary."""

    QUEUED = "queued"
    RUNNING = "running"
    SUSPENDED = "suspended"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


EDGES: dict[RunStatus, frozenset[RunStatus]] = {
    RunStatus.QUEUED: frozenset({RunStatus.RUNNING, RunStatus.CANCELLED, RunStatus.FAILED}),
    RunStatus.RUNNING: frozenset(
        {
            RunStatus.QUEUED,
            RunStatus.SUSPENDED,
            RunStatus.COMPLETED,
            RunStatus.FAILED,
            RunStatus.CANCELLED,
        }
    ),
    RunStatus.SUSPENDED: frozenset(
        {RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.CANCELLED, RunStatus.FAILED}
    ),
    RunStatus.COMPLETED: frozenset(),
    RunStatus.FAILED: frozenset(),
    RunStatus.CANCELLED: frozenset(),
}
"""From each status, the statuses it may become. A status is no edge to itself."""

TERMINAL: frozenset[RunStatus] = frozenset(status for status, to in EDGES.items() if not to)
"""The statuses without an outgoing edge: a late command cannot reopen a finished run."""


def can_transition_run(from_status: RunStatus | str, to_status: RunStatus | str) -> bool:
    """Whether the lifecycle has this edge. An unknown status has none."""
    return from_status in EDGES and to_status in EDGES[RunStatus(from_status)]


def is_terminal_run_status(status: RunStatus | str) -> bool:
    """Whether a run in this status is finished for ever. An unknown status is not."""
    return status in TERMINAL
