"""What the clients of a chaos test saw: every request with the time it was sent and the time its
answer was there, on the host's monotonic clock, which all processes of a test share.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

NOT_SENT: Final = -1
"""The connection was refused, so the service never saw the request."""
UNANSWERED: Final = 0
"""Sent, or at least begun; whether it was done is unknown."""
UNAVAILABLE: Final = 503

TERMINAL: Final = frozenset({"completed", "failed", "cancelled"})
GRANTS: Final = frozenset({"acquire"})
LEASES: Final = frozenset({"acquire", "renew", "fence-checkpoint"})
FENCED: Final = frozenset({"renew", "fence-checkpoint", "transition"})
READS: Final = frozenset({"get", "stored"})


class Call(NamedTuple):
    """One request as its client saw it."""

    run_id: str
    verb: str
    owner: str
    token: int | None
    ttl_ms: int
    start: float
    end: float
    status: int
    retry_after: bool
    body: bytes
    again: bool = False
    """An acquire under the key of one whose answer was lost: what it answers may be what that one
    wrote."""


History = list[Call]


class Cut(NamedTuple):
    """When all connections to the database were cut. Of what was in flight then, a service does
    not know the outcome, and carries it out once more."""

    start: float
    end: float


@dataclass(frozen=True)
class Event:
    """A call with its answer read."""

    call: Call
    cuts: int = 0
    """How many cuts it may have met: beside what was answered, it may have been carried out as
    often."""

    @cached_property
    def answer(self) -> Mapping[str, Any]:
        if self.call.status <= UNANSWERED or not self.call.body:
            return {}
        answer: dict[str, Any] = json.loads(self.call.body)
        return answer

    @property
    def done(self) -> bool:
        """Whether the service said yes."""
        return 200 <= self.call.status < 300

    @property
    def unknown(self) -> bool:
        """Whether the request may or may not have been carried out."""
        return self.call.status in (UNANSWERED, UNAVAILABLE)

    @property
    def code(self) -> str:
        code: str = self.answer.get("code", "")
        return code

    @cached_property
    def record(self) -> Mapping[str, Any] | None:
        """The record in the answer, also in a refusal's."""
        return self.answer if self.done and self.answer else self.answer.get("record")

    @cached_property
    def text(self) -> str:
        return canonical(self.record)

    @property
    def version(self) -> int:
        return self.record["version"] if self.record else 0

    @property
    def token(self) -> int:
        return self.record["fencingToken"] if self.record else 0

    def __str__(self) -> str:
        call = self.call
        told = f"{self.record['status']} v{self.version} t{self.token}" if self.record else ""
        return (
            f"{call.run_id} {call.verb} by {call.owner or 'an operator'}"
            f"{'' if call.token is None else f' under token {call.token}'}"
            f" [{call.start:.6f}, {call.end:.6f}]: {call.status} {self.code} {told}".rstrip()
        )


def canonical(record: object) -> str:
    """The same text for the same record, wherever it comes from."""
    return json.dumps(record, sort_keys=True)
