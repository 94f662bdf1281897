"""The reference ledger's 60 sequences through the ledger that `connect` returns, over HTTP."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cache

import pytest

import runlease
from runlease_core import RunLedger, RunRecord, RunStoreError
from tests.client.live import serving
from tests.clock import ManualClock
from tests.core.test_vectors import SEQUENCES, give
from tests.service.databases import OwnDatabase


def test_the_connected_ledger_answers_as_the_reference_did(database: OwnDatabase) -> None:
    clock, steps = ManualClock(), 0
    with serving(database.url, clock) as url, ExitStack() as ledgers:

        @cache
        def ledger_of(owner: str, lease_ttl_ms: int) -> RunLedger:
            return ledgers.enter_context(
                runlease.connect(url, owner=owner, lease_ttl_ms=lease_ttl_ms, heartbeat=False)
            )

        for sequence in SEQUENCES:
            run_id = sequence["runId"]
            for step in sequence["steps"]:
                clock.set_ms(step["atMs"])
                ledger = ledger_of(step.get("owner", "operator"), step.get("leaseTtlMs", 60_000))
                before = ledger.get(run_id)
                if "error" in step:
                    with pytest.raises(RunStoreError) as refused:
                        give(ledger, run_id, step)
                    assert refused.value.code == step["error"]
                    assert ledger.get(run_id) == before
                else:
                    record: RunRecord = give(ledger, run_id, step)
                    assert record.to_json() == step["record"]
                    assert ledger.get(run_id) == record
                steps += 1
    assert steps > 500
