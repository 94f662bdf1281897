"""Who asks, and what they may: scopes and prefixes of run ids.

A scope says what kind of command, a prefix which runs. A prefix is a whole number of segments: it
is empty and covers everything, or ends in `/`, so that `team-a/` never covers `team-ab/x`. Ids are
compared as text, code point by code point, after the path was decoded once: no case folding, no
normal form, and an id with `.` or `..` segments does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """What kind of command a credential allows."""

    READ = "read"
    """get, list"""
    WORK = "work"
    """enqueue, acquire, renew, fence-checkpoint, transition"""
    OPERATE = "operate"
    """cancel, resume, revoke"""
    STORE = "store"
    """create, compareAndSet, delete"""


@dataclass(frozen=True, slots=True)
class Principal:
    """A credential that was recognised. `subject` is its name: leases belong to it."""

    subject: str
    scopes: frozenset[Scope]
    prefixes: tuple[str, ...]

    def covers(self, run_id: str) -> bool:
        """Whether one of the prefixes covers the run, which need not exist."""
        return run_id.startswith(self.prefixes)


def check_prefix(prefix: object) -> str:
    """A prefix that may be given.

    Raises:
        ValueError: It would cover half a segment.
    """
    if not isinstance(prefix, str) or (prefix and not prefix.endswith("/")):
        raise ValueError("a prefix is empty, which covers every run, or ends in a slash")
    return prefix
