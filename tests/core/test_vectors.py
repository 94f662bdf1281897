"""The reference ledger's answers to 60 random command sequences, record for record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runlease_core import (
    MemoryRunStore,
    Outcome,
    RunLedger,
    RunRecord,
    RunStoreError,
    parse_checkpoint_ref,
    parse_outcome,
    record_to_text,
)
from tests.clock import ManualClock

LINES = (Path(__file__).parents[1] / "vectors" / "ledger.jsonl").read_text().splitlines()
SEQUENCES: list[dict[str, Any]] = [json.loads(line) for line in LINES]


def test_all_sixty_reference_sequences_are_here() -> None:
    assert len(SEQUENCES) == 60


@pytest.mark.parametrize("sequence", SEQUENCES, ids=lambda sequence: str(sequence["runId"]))
def test_the_ledger_answers_as_the_reference_did(sequence: dict[str, Any]) -> None:
    store, clock, run_id = MemoryRunStore(), ManualClock(), sequence["runId"]
    for step in sequence["steps"]:
        clock.set_ms(step["atMs"])
        before = store.get(run_id)
        ledger = RunLedger(
            store,
            owner=step.get("owner", "operator"),
            lease_ttl_ms=step.get("leaseTtlMs", 60_000),
            heartbeat=False,
            now=clock,
        )
        if "error" in step:
            with pytest.raises(RunStoreError) as refused:
                give(ledger, run_id, step)
            assert refused.value.code == step["error"]
            assert store.get(run_id) == before
        else:
            record = give(ledger, run_id, step)
            assert record.to_json() == step["record"]
            stored = store.get(run_id)
            assert stored is not None
            assert record_to_text(stored) == record_to_text(record)


def give(ledger: RunLedger, run_id: str, step: dict[str, Any]) -> RunRecord:
    match step["op"]:
        case "acquire":
            record = ledger.acquire(run_id).record
            assert record is not None
            return record
        case "resume":
            return ledger.request_resume(run_id)
        case "cancel":
            return ledger.cancel(run_id, step.get("message"))
    handle = ledger.adopt(run_id, step["fencingToken"])
    match step["op"], step.get("to"):
        case "renew", None:
            return handle.renew()
        case "fence-checkpoint", None:
            return handle.record_checkpoint(parse_checkpoint_ref(step["checkpointRef"]))
        case "transition", "queued":
            return handle.release()
        case "transition", "suspended":
            return handle.suspend(step["pendingApprovalIds"])
        case "transition", "completed":
            return handle.complete(outcome(step))
        case "transition", "failed":
            return handle.fail(outcome(step))
        case "transition", "cancelled":
            return handle.cancel(outcome=outcome(step))
    raise AssertionError(step)


def outcome(step: dict[str, Any]) -> Outcome:
    return parse_outcome(step["outcome"])
