"""Leases kept against a live service: endings that race renewals, long work, blocked loops,
signals, restarts, and a network that drops, delays and resets."""

from __future__ import annotations

import asyncio
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

import runlease
from runlease import LossReason, RunLeaseHeldError, RunLeaseLostError, RunStatus
from tests.proxy import Proxy
from tests.service.databases import OwnDatabase
from tests.service.server import Server, serve

WORKERS: Final = 20


@pytest.mark.parametrize(
    "releases",
    [pytest.param(200, id="short"), pytest.param(1000, id="full", marks=pytest.mark.long)],
)
def test_a_release_with_a_renewal_on_the_wire_leaves_the_run_queued(
    server: Server, proxy: Proxy, url: str, releases: int
) -> None:
    on_the_wire: defaultdict[str, threading.Event] = defaultdict(threading.Event)
    released: list[str] = []

    def slow_renewals(data: bytes, is_request: bool) -> float:
        renewed = re.findall(rb'"runId": ?"([^"]+)"', data) if is_request else []
        for run_id in renewed:
            on_the_wire[run_id.decode()].set()
        return random.uniform(0.0, 0.03) if renewed else 0.0

    proxy.trouble = slow_renewals
    with runlease.connect(url, lease_ttl_ms=600) as ledger, runlease.connect(server.url) as other:

        def end(worker: int) -> int:
            met = 0
            for number in range(releases // WORKERS):
                run = ledger.acquire(f"run-{worker}-{number}")
                is_met = on_the_wire[run.run_id].wait(0.5)
                try:
                    run.release()
                except RunLeaseLostError:
                    # The machine stood still for longer than the lease.
                    assert run.loss_reason is LossReason.UNPROVED
                    continue
                met += is_met
                record = other.get(run.run_id)
                assert record is not None
                assert record.status is RunStatus.QUEUED, record
                assert not run.lost
                released.append(run.run_id)
            return met

        with ThreadPoolExecutor(WORKERS) as threads:
            met = sum(threads.map(end, range(WORKERS)))
        proxy.trouble = None
        ledger.acquire("the last").release()  # whatever was on the wire has arrived before
        still = {run_id: other.get(run_id) for run_id in released}

    print(f"{releases} releases, {met} of them with a renewal on the wire")
    assert met > releases * 0.9
    assert {record and record.status for record in still.values()} == {RunStatus.QUEUED}


async def test_an_async_worker_that_blocks_its_loop_keeps_its_lease(server: Server) -> None:
    ttl_s, held, rivals = 1.0, [], []
    rival = runlease.connect(server.url, owner="rival", heartbeat=False)
    stop = threading.Event()

    def attack() -> None:
        while not stop.wait(0.1):
            try:
                rival.acquire("run-1")
            except RunLeaseHeldError:
                rivals.append("held")
            else:
                rivals.append("granted")

    async with runlease.aconnect(server.url, lease_ttl_ms=int(ttl_s * 1000)) as ledger:
        async with await ledger.acquire("run-1") as run:
            attacker = threading.Thread(target=attack)
            attacker.start()
            time.sleep(3 * ttl_s)  # noqa: ASYNC251 (what the test is about)
            held.append(run.held)
            stop.set()
            attacker.join()
        last = await ledger.get("run-1")
    rival.close()

    assert held == [True]
    assert set(rivals) == {"held"}
    assert last is not None
    assert (last.status, last.attempt, last.fencing_token) == (RunStatus.COMPLETED, 1, 1)


def test_work_of_twenty_lengths_is_one_attempt(server: Server) -> None:
    with (
        runlease.connect(server.url, lease_ttl_ms=200) as ledger,
        runlease.connect(server.url, owner="rival", heartbeat=False) as rival,
    ):
        refused = 0
        with ledger.acquire("run-1") as run:
            end = time.monotonic() + 4.0
            while time.monotonic() < end:
                with pytest.raises(RunLeaseHeldError):
                    rival.acquire("run-1")
                refused += 1
                assert run.held
                time.sleep(0.05)
        record = ledger.get("run-1")

    assert refused > 20
    assert record is not None
    assert (record.status, record.attempt, record.fencing_token) == (RunStatus.COMPLETED, 1, 1)


STOPPED_WORKER: Final = """
import sys, runlease
ledger = runlease.connect(sys.argv[1], owner="sleeper", lease_ttl_ms=600)
run = ledger.acquire("run-1")
print("taken", flush=True)
while run.held:
    pass
print("not held", flush=True)
try:
    run.complete()
except runlease.RunLeaseLostError as lost:
    print(f"refused: {run.loss_reason}", flush=True)
"""


def test_a_stopped_worker_does_not_hold_what_another_took(server: Server) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", STOPPED_WORKER, server.url], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "taken\n"
    process.send_signal(signal.SIGSTOP)
    with runlease.connect(server.url, owner="rival") as rival:
        taken = rival.acquire("run-1", wait=20)
        process.send_signal(signal.SIGCONT)
        out = process.communicate(timeout=20)[0].splitlines()
        still = rival.get("run-1")

        assert (taken.fencing_token, taken.attempt) == (2, 2)
        assert out[0] == "not held"
        assert out[1].startswith("refused: ")
        assert still is not None
        assert still.lease is not None
        assert still.lease.owner == "rival"


def troubled(share: float, seed: int) -> Callable[[bytes, bool], float | None]:
    """Of what passes, so much is dropped or delayed, requests and answers alike."""
    chance = random.Random(seed)

    def trouble(_data: bytes, _is_request: bool) -> float | None:
        drawn = chance.random()
        if drawn < share / 2:
            return None
        return chance.uniform(0.0, 0.2) if drawn < share else 0.0

    return trouble


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(5, id="short"),
        pytest.param(60, id="full", marks=[pytest.mark.long, pytest.mark.timeout(300)]),
    ],
)
def test_whatever_the_network_does_every_run_ends_once(
    server: Server, proxy: Proxy, url: str, seconds: int
) -> None:
    seed = random.randrange(1_000_000)
    proxy.trouble = troubled(0.2, seed)
    end = time.monotonic() + seconds
    outcomes: Counter[str] = Counter()
    reported: dict[str, list[tuple[str, int]]] = {}
    lock = threading.Lock()

    def work(worker: int) -> None:
        chance, number = random.Random(seed + worker), 0
        with runlease.connect(url, owner=f"worker-{worker}", lease_ttl_ms=1_000) as ledger:
            while time.monotonic() < end:
                # Two workers want each run.
                run_id = f"run-{worker // 2}-{number}"
                number += 1
                try:
                    with ledger.acquire(run_id, wait=5) as run:
                        time.sleep(chance.uniform(0.0, 0.4))
                        run.check()
                except runlease.RunAlreadyTerminalError:
                    outcomes["found finished"] += 1
                except RunLeaseLostError:
                    outcomes["lost"] += 1
                except (runlease.RunleaseError, RunLeaseHeldError) as error:
                    outcomes[type(error).__name__] += 1
                else:
                    with lock:
                        outcomes["reported success"] += 1
                        reported.setdefault(run_id, []).append((ledger.owner, run.fencing_token))

    def work_and_close(worker: int) -> None:
        try:
            work(worker)
        except ExceptionGroup:  # a lease could not be released, and runs out
            outcomes["closed without an answer"] += 1

    with ThreadPoolExecutor(WORKERS) as threads:
        list(threads.map(work_and_close, range(WORKERS)))
    proxy.trouble = None

    with runlease.connect(server.url) as reader:
        for run_id, claims in reported.items():
            record = reader.get(run_id)
            assert record is not None
            assert record.status is RunStatus.COMPLETED, (record, claims)
            assert len(claims) == 1, claims
            assert record.fencing_token == claims[0][1], (record, claims)
    print(f"seed {seed}: {dict(outcomes)}; {len(reported)} runs were reported, each by one worker")
    assert outcomes["reported success"] > WORKERS


def test_a_restart_shorter_than_the_deadline_loses_no_lease(
    database: OwnDatabase,
) -> None:
    with serve(database.url, log_level="warning") as first, Proxy(first.port) as proxy:
        url = f"http://127.0.0.1:{proxy.port}"
        ledgers = [runlease.connect(url, owner=f"w{n}", lease_ttl_ms=15_000) for n in range(50)]
        with ThreadPoolExecutor(50) as threads:
            runs = list(threads.map(lambda ledger: ledger.acquire(ledger.owner), ledgers))
        proxy.refuse()
    down = time.monotonic()
    with serve(database.url, log_level="warning") as second:
        again = Proxy(second.port)
        again.port = proxy.port
        with again:
            away_s = time.monotonic() - down
            versions = [run.record.version for run in runs if run.record]
            deadline = time.monotonic() + 20
            while any(
                run.record and run.record.version == before
                for run, before in zip(runs, versions, strict=True)
            ):
                assert time.monotonic() < deadline, "they are not renewed"
                time.sleep(0.05)
            held = [run.held for run in runs]
            records = [run.complete() for run in runs]
            for ledger in ledgers:
                ledger.close()

    print(f"away for {away_s:.1f} s of 15")
    assert all(held)
    assert {(one.status, one.attempt, one.fencing_token) for one in records} == {
        (RunStatus.COMPLETED, 1, 1)
    }


@pytest.mark.long
def test_a_thousand_leases_are_renewed_by_one_request(proxy: Proxy, url: str) -> None:
    requests = 0

    def count(data: bytes, is_request: bool) -> float:
        nonlocal requests
        requests += is_request and data.startswith(b"POST /v1/leases/renew")
        return 0.0

    ttl_s = 6.0
    with runlease.connect(url, lease_ttl_ms=int(ttl_s * 1000)) as ledger:
        with ThreadPoolExecutor(8) as threads:
            runs = list(threads.map(lambda n: ledger.acquire(f"run-{n}"), range(1000)))
        # From here on all beat together: what was acquired first is due first.
        time.sleep(ttl_s / 3)
        proxy.trouble, used = count, time.process_time()
        time.sleep(ttl_s)
        proxy.trouble, used = None, time.process_time() - used

        assert all(run.held for run in runs)
    print(f"{requests} requests for 1,000 leases in {ttl_s:g} s, {used:.2f} s of a core")
    # Three intervals, each cut by the jitter into at most a few requests.
    assert 2 <= requests <= 30


async def test_a_loss_wakes_an_async_worker_from_the_heartbeats_thread(server: Server) -> None:
    async with runlease.aconnect(server.url, lease_ttl_ms=300) as ledger:
        run = await ledger.acquire("run-1")
        async with runlease.aconnect(server.url, heartbeat=False) as operator:
            await operator.cancel("run-1", "superseded")

        await asyncio.wait_for(run.lost_event.wait(), 20)

        assert run.loss_reason is runlease.LossReason.CANCELLED
