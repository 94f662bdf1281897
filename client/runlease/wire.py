"""What stands on the wire: commands as requests, answers as records or errors.

The only importer of what is generated from `openapi.yaml`, and the one place where a problem
document becomes an exception. An attempt whose answer was lost may have been carried out: where a
repetition is refused because of what the first attempt did, that is told apart here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, assert_never

import httpx

from runlease._generated.api.leases import (
    acquire_run,
    fence_checkpoint,
    renew_lease,
    renew_leases,
    transition_run,
)
from runlease._generated.api.operations import cancel_run, resume_run, revoke_lease
from runlease._generated.api.runs import delete_run, enqueue_run, get_run, put_run
from runlease._generated.models import (
    AcquireBody,
    EnqueueBody,
    FenceCheckpointBody,
    MessageBody,
    RecordBody,
    RenewBatchBody,
    RenewBody,
    ResumeBody,
    TransitionBody,
)
from runlease._generated.types import UNSET
from runlease.errors import AccessError, RefusedError, UnavailableError, UnexpectedAnswerError
from runlease.exchange import Answered, retry_after_seconds
from runlease_core.commands import (
    Acquire,
    AnyCommand,
    Cancel,
    CompareAndSet,
    Create,
    Delete,
    Enqueue,
    Existing,
    FenceCheckpoint,
    Renew,
    Resume,
    Revoke,
    Transition,
)
from runlease_core.errors import (
    Code,
    RunConflictError,
    RunLeaseLostError,
    RunNotFoundError,
    RunStoreError,
    RunValidationError,
    error_for,
)
from runlease_core.instant import format_instant
from runlease_core.lifecycle import RunStatus
from runlease_core.parsing import parse_record
from runlease_core.record import RunRecord

BATCH_LEASES_MAX: Final = 1000

RECORD_FIELDS: Final = frozenset(
    {
        "schema",
        "runId",
        "version",
        "status",
        "attempt",
        "fencingToken",
        "lease",
        "checkpointRef",
        "outcome",
        "suspension",
        "labels",
        "maxAttempts",
        "createdAt",
        "updatedAt",
    }
)
PART_FIELDS: Final = {
    "lease": frozenset({"owner", "acquiredAt", "expiresAt"}),
    "checkpointRef": frozenset({"key", "snapshotVersion", "savedAt"}),
    "outcome": frozenset({"code", "message"}),
    "suspension": frozenset({"suspendedAt", "pendingApprovalIds"}),
}
"""What this version knows of a record."""
Request: TypeAlias = Mapping[str, Any]


def get_request(run_id: str) -> Request:
    """The request that reads a run."""
    return get_run._get_kwargs(run_id)  # noqa: SLF001 (the generator's only way to a request)


def command_request(command: AnyCommand) -> Request:
    """The request that carries a command."""
    run_id, if_match = command.run_id, _if_match(command)
    match command:
        case Acquire():
            body = _present(
                owner=command.owner,
                leaseTtlMs=command.lease_ttl_ms,
                labels=dict(command.labels) or None,
                maxAttempts=command.max_attempts,
            )
            key = command.idempotency_key
            return acquire_run._get_kwargs(  # noqa: SLF001
                run_id,
                body=AcquireBody.from_dict(body),
                if_match=if_match,
                idempotency_key=UNSET if key is None else _quoted(key),
            )
        case Renew():
            return renew_lease._get_kwargs(  # noqa: SLF001
                run_id, body=RenewBody.from_dict(_fenced(command)), if_match=if_match
            )
        case FenceCheckpoint():
            ref = command.checkpoint_ref
            body = _fenced(command) | {
                "checkpointRef": {
                    "key": ref.key,
                    "snapshotVersion": ref.snapshot_version,
                    "savedAt": format_instant(ref.saved_at),
                }
            }
            return fence_checkpoint._get_kwargs(  # noqa: SLF001
                run_id, body=FenceCheckpointBody.from_dict(body), if_match=if_match
            )
        case Transition():
            outcome = command.outcome
            body = _present(
                owner=command.owner,
                fencingToken=command.fencing_token,
                to=command.to.value,
                outcome=outcome and _present(code=outcome.code, message=outcome.message),
                pendingApprovalIds=list(command.pending_approval_ids) or None,
            )
            return transition_run._get_kwargs(  # noqa: SLF001
                run_id, body=TransitionBody.from_dict(body), if_match=if_match
            )
        case Enqueue():
            body = _present(
                runId=run_id,
                labels=dict(command.labels) or None,
                maxAttempts=command.max_attempts,
            )
            return enqueue_run._get_kwargs(  # noqa: SLF001
                body=EnqueueBody.from_dict(body), if_match=if_match
            )
        case Cancel() | Revoke():
            module: Any = cancel_run if isinstance(command, Cancel) else revoke_lease
            request: Request = module._get_kwargs(  # noqa: SLF001
                run_id,
                body=MessageBody.from_dict(_present(message=command.message)),
                if_match=if_match,
            )
            return request
        case Resume():
            ids = command.pending_approval_ids
            body = _present(
                message=command.message, pendingApprovalIds=None if ids is None else list(ids)
            )
            return resume_run._get_kwargs(  # noqa: SLF001
                run_id, body=ResumeBody.from_dict(body), if_match=if_match
            )
        case Create():
            return put_run._get_kwargs(  # noqa: SLF001
                run_id, body=RecordBody.from_dict(command.record.to_json()), if_none_match="*"
            )
        case CompareAndSet():
            return put_run._get_kwargs(  # noqa: SLF001
                run_id, body=RecordBody.from_dict(command.record.to_json()), if_match=if_match
            )
        case Delete():
            return delete_run._get_kwargs(  # noqa: SLF001
                run_id, force="true" if command.force else UNSET, if_match=if_match
            )
        case _:
            assert_never(command)


def _fenced(command: Renew | FenceCheckpoint) -> dict[str, Any]:
    return {
        "owner": command.owner,
        "fencingToken": command.fencing_token,
        "leaseTtlMs": command.lease_ttl_ms,
    }


def _present(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 (JSON)
    return {name: value for name, value in fields.items() if value is not None}


def _if_match(command: AnyCommand) -> Any:  # noqa: ANN401 (text, or the generator's UNSET)
    expected = command.expected_version
    if expected is None:
        return UNSET
    return "*" if expected is Existing.ANY_VERSION else f'"{expected}"'


def _quoted(key: str) -> str:
    escaped = key.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def batches(renewals: Sequence[Renew]) -> list[Sequence[Renew]]:
    """Slices that one request may carry: one owner and one length each."""
    groups: dict[tuple[str, int], list[Renew]] = {}
    for renewal in renewals:
        groups.setdefault((renewal.owner, renewal.lease_ttl_ms), []).append(renewal)
    if len(groups) == 1:
        return [
            renewals[first : first + BATCH_LEASES_MAX]
            for first in range(0, len(renewals), BATCH_LEASES_MAX)
        ]
    # Answers come back in the order of the renewals, so mixed ones go one by one.
    return [[renewal] for renewal in renewals]


def batch_request(batch: Sequence[Renew]) -> Request:
    """The request that renews a slice of `batches`."""
    body = {
        "owner": batch[0].owner,
        "leaseTtlMs": batch[0].lease_ttl_ms,
        "leases": [{"runId": one.run_id, "fencingToken": one.fencing_token} for one in batch],
    }
    return renew_leases._get_kwargs(body=RenewBatchBody.from_dict(body))  # noqa: SLF001


# Answers.


def read_answer(answered: Answered) -> RunRecord | None:
    """The record that was read, None when there is none; problems are raised."""
    try:
        return _record(answered.response)
    except RunNotFoundError:
        return None


def command_answer(command: AnyCommand, answered: Answered) -> RunRecord | None:
    """The record after the command; refusals that a repetition owes to itself are told apart."""
    try:
        if answered.response.status_code == httpx.codes.NO_CONTENT:
            return None
        return _record(answered.response)
    except RunConflictError as error:
        # The version that is not there any more may be the one that the first attempt replaced.
        if answered.is_repeated and not isinstance(command, Acquire):
            raise UnavailableError(
                "the answer to the first attempt was lost, and the run has changed since"
            ) from error
        raise
    except RunLeaseLostError as error:
        # A release that was carried out unseen, and whose run has moved on since.
        if (
            answered.is_repeated
            and isinstance(command, Transition)
            and command.to is RunStatus.QUEUED
            and error.record is not None
        ):
            return error.record
        raise


def batch_answers(batch: Sequence[Renew], answered: Answered) -> list[RunRecord | Exception]:
    """For each lease of the slice its record, or why it was not renewed."""
    data = _json(answered.response)
    if not answered.response.is_success:
        raise _problem(data, answered.response)
    results = data.get("results")
    if not isinstance(results, list) or len(results) != len(batch):
        raise _unexpected(answered.response)
    return [_result(result, answered.response) for result in results]


def _result(result: object, response: httpx.Response) -> RunRecord | Exception:
    if not isinstance(result, dict):
        return _unexpected(response)
    try:
        if "problem" in result:
            return _problem(result["problem"], response)
        return _parsed(result.get("record"))
    except RunStoreError as error:
        return error


def _record(response: httpx.Response) -> RunRecord:
    data = _json(response)
    if response.is_success:
        return _parsed(data)
    raise _problem(data, response)


def _parsed(data: object) -> RunRecord:
    """The record; what a newer service adds to it is not looked at."""
    if isinstance(data, dict):
        data = _known(data, RECORD_FIELDS)
        for name, fields in PART_FIELDS.items():
            if isinstance(data.get(name), dict):
                data[name] = _known(data[name], fields)
    return parse_record(data, stored=True)


def _known(data: Mapping[str, Any], fields: frozenset[str]) -> dict[str, Any]:
    return {name: data[name] for name in fields & data.keys() if data[name] is not None}


def _json(response: httpx.Response) -> dict[str, Any]:
    try:
        data = response.json()
    except ValueError:
        raise _unexpected(response) from None
    if not isinstance(data, dict):
        raise _unexpected(response)
    return data


def _problem(data: Mapping[str, Any], response: httpx.Response) -> Exception:
    """The exception that a problem document stands for."""
    code, detail = data.get("code"), str(data.get("detail", ""))
    if code in ("UNAUTHENTICATED", "FORBIDDEN"):
        return AccessError(code, detail)
    if code in ("UNAVAILABLE", "REQUEST_TIMEOUT"):
        return UnavailableError(detail)
    if not isinstance(code, str):
        return _unexpected(response)
    if code not in tuple(Code):
        return RefusedError(code, detail)
    found = data.get("record")
    record = None if found is None else _parsed(found)
    if code == Code.RUN_VALIDATION_ERROR:
        return RunValidationError(detail, record, field=str(data.get("field", "")))
    error = error_for(Code(code), detail, record)
    error.retry_after_seconds = retry_after_seconds(response)
    return error


def _unexpected(response: httpx.Response) -> UnexpectedAnswerError:
    return UnexpectedAnswerError(
        f"{response.request.method} {response.request.url} answered {response.status_code} "
        f"{response.headers.get('content-type', 'without a content type')}, "
        "which is not how the service answers; check the URL and the versions"
    )
