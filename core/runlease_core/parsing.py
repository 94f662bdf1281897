"""Reading records and their parts from JSON. Each reader names the fields it knows and refuses
any other, so that a typo never passes silently.

What comes out of a store goes through `stored=True` or `stored_record`: those say
RUN_INTEGRITY_ERROR, so that a corrupt row is never taken for an absent one, nor for the caller's
mistake.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from runlease_core.errors import RunIntegrityError, RunStoreError
from runlease_core.fields import (
    MAX_ATTEMPTS_MAX,
    check_approval_ids,
    check_counter,
    check_labels,
    check_message,
    malformed,
)
from runlease_core.instant import parse_instant
from runlease_core.lifecycle import EDGES, RunStatus
from runlease_core.record import CheckpointRef, Lease, Outcome, RunRecord, Suspension

KEY_SHOWN_MAX: Final = 80
_REQUIRED: Final = frozenset(
    {
        "schema",
        "runId",
        "version",
        "status",
        "attempt",
        "fencingToken",
        "createdAt",
        "updatedAt",
    }
)
_OPTIONAL: Final = frozenset(
    {"lease", "checkpointRef", "outcome", "suspension", "labels", "maxAttempts"}
)


def _fields(
    data: object, name: str, required: frozenset[str], optional: frozenset[str] = frozenset()
) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise malformed(name, "must be an object")
    if missing := sorted(required - data.keys()):
        raise malformed(_join(name, missing[0]), "is missing")
    if unknown := sorted(map(str, data.keys() - required - optional)):
        raise malformed(_join(name, _shown(unknown[0])), "is not a known field")
    return data


def _join(name: str, part: str) -> str:
    return part if name == "record" else f"{name}.{part}"


def parse_lease(data: object) -> Lease:
    """Read `lease`."""
    known = _fields(data, "lease", frozenset({"owner", "acquiredAt", "expiresAt"}))
    return Lease(
        owner=known["owner"],
        acquired_at=parse_instant(known["acquiredAt"], "lease.acquiredAt"),
        expires_at=parse_instant(known["expiresAt"], "lease.expiresAt"),
    )


def parse_checkpoint_ref(data: object) -> CheckpointRef:
    """Read `checkpointRef`."""
    known = _fields(data, "checkpointRef", frozenset({"key", "snapshotVersion", "savedAt"}))
    return CheckpointRef(
        key=known["key"],
        snapshot_version=known["snapshotVersion"],
        saved_at=parse_instant(known["savedAt"], "checkpointRef.savedAt"),
    )


def parse_outcome(data: object) -> Outcome:
    """Read `outcome`."""
    known = _fields(data, "outcome", frozenset({"code"}), frozenset({"message"}))
    if "message" in known:
        check_message(known["message"], "outcome.message")
    return Outcome(code=known["code"], message=known.get("message"))


def parse_suspension(data: object) -> Suspension:
    """Read `suspension`."""
    known = _fields(data, "suspension", frozenset({"suspendedAt", "pendingApprovalIds"}))
    return Suspension(
        suspended_at=parse_instant(known["suspendedAt"], "suspension.suspendedAt"),
        pending_approval_ids=check_approval_ids(
            known["pendingApprovalIds"], "suspension.pendingApprovalIds"
        ),
    )


def _parse(data: object) -> RunRecord:
    known = _fields(data, "record", _REQUIRED, _OPTIONAL)
    status = known["status"]
    if not isinstance(status, str) or status not in EDGES:
        raise malformed("status", "must be one of " + ", ".join(RunStatus))
    optional: dict[str, Any] = {}
    readers: tuple[tuple[str, str, Callable[[object], Any]], ...] = (
        ("lease", "lease", parse_lease),
        ("checkpointRef", "checkpoint_ref", parse_checkpoint_ref),
        ("outcome", "outcome", parse_outcome),
        ("suspension", "suspension", parse_suspension),
        ("labels", "labels", check_labels),
        (
            "maxAttempts",
            "max_attempts",
            lambda value: check_counter(value, "maxAttempts", least=1, most=MAX_ATTEMPTS_MAX),
        ),
    )
    for key, attribute, read in readers:
        if key in known:
            optional[attribute] = read(known[key])
    return RunRecord(
        schema=known["schema"],
        run_id=known["runId"],
        version=known["version"],
        status=RunStatus(status),
        attempt=known["attempt"],
        fencing_token=known["fencingToken"],
        created_at=parse_instant(known["createdAt"], "createdAt"),
        updated_at=parse_instant(known["updatedAt"], "updatedAt"),
        **optional,
    )


def parse_record(data: object, *, stored: bool = False) -> RunRecord:
    """Read a record from its JSON object, refusing everything malformed.

    Raises:
        RunValidationError: RUN_VALIDATION_ERROR, the caller sent it; mend the named field.
        RunIntegrityError: RUN_INTEGRITY_ERROR with `stored=True`, it came out of a store.
    """
    if not stored:
        return _parse(data)
    return stored_record(lambda: _parse(data))


def stored_record(build: Callable[[], RunRecord]) -> RunRecord:
    """Build a record from what a store held; what is malformed there is RUN_INTEGRITY_ERROR."""
    try:
        return build()
    except RunStoreError as error:
        raise RunIntegrityError(f"the stored record is malformed: {error.detail}") from error
    except (LookupError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise RunIntegrityError("the stored record cannot be read") from error


def record_from_text(text: str | bytes, *, stored: bool = False) -> RunRecord:
    """Read a record from JSON text; a duplicate key, NaN or broken JSON is refused too.

    Raises:
        RunValidationError: RUN_VALIDATION_ERROR, or RunIntegrityError with `stored=True`.
    """
    if stored:
        return stored_record(lambda: _parse(strict_json(text)))
    return _parse(strict_json(text))


def strict_json(text: str | bytes) -> object:
    """JSON by RFC 8259 and no more: UTF-8, no duplicate key, no NaN or Infinity, bounded nesting.

    Raises:
        RunValidationError: RUN_VALIDATION_ERROR; the text is no such JSON.
    """
    try:
        text = text.decode() if isinstance(text, bytes) else text
        return _READER.decode(text)
    except RecursionError:
        raise malformed("body", "is nested too deeply") from None
    except UnicodeDecodeError:
        raise malformed("body", "is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise malformed("body", f"is not JSON: {error.msg} at {error.pos}") from None
    except ValueError:
        raise malformed("body", "holds a number with too many digits") from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    known = dict(pairs)
    if len(known) != len(pairs):
        twice, seen = "", set[str]()
        for key, _ in pairs:
            if key in seen:
                twice = key
                break
            seen.add(key)
        raise malformed(_shown(twice), "appears twice in one object")
    return known


def _shown(key: str) -> str:
    """A key of the caller's as an answer may show it: bounded, and without what cannot be sent."""
    shown = (char if char.isprintable() else ascii(char)[1:-1] for char in key[:KEY_SHOWN_MAX])
    return "".join(shown)[:KEY_SHOWN_MAX]


def _no_constant(name: str) -> None:
    raise malformed("body", f"{name} is not JSON")


_READER: Final = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_constant=_no_constant)
