"""B05, B27, B46: work that starves the heartbeat, work that outlasts it, connections that idle."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

import runlease
from runlease import RunLeaseHeldError, RunLeaseLostError, RunStatus
from tests.proxy import Proxy
from tests.service.databases import OwnDatabase
from tests.service.server import Server, serve

LEASES: Final = 500
DOWN_S: Final = 0.3

RIVAL: Final = """
import sys, runlease
with runlease.connect(sys.argv[1], owner="rival", heartbeat=False, lease_ttl_ms=60000) as ledger:
    print("ready", flush=True)
    print(ledger.acquire("run-1", wait=30).fencing_token, flush=True)
    sys.stdin.readline()
"""


def test_a_call_that_keeps_the_interpreter_lock_ends_what_it_starved(server: Server) -> None:
    """No thread runs meanwhile. When control returns, the lease is not held and nothing is
    reported."""
    rival = subprocess.Popen(
        [sys.executable, "-c", RIVAL, server.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert rival.stdout is not None
    try:
        with runlease.connect(server.url, owner="starved", lease_ttl_ms=800) as ledger:
            run = ledger.acquire("run-1")
            assert rival.stdout.readline() == "ready\n"

            ctypes.PyDLL(None).sleep(4)  # PyDLL keeps the lock, CDLL would give it up

            assert not run.held
            with pytest.raises(RunLeaseLostError):
                run.complete()
            assert rival.stdout.readline() == "2\n"
            record = ledger.get("run-1")
    finally:
        rival.communicate("\n", timeout=20)

    assert record is not None
    assert record.lease is not None
    assert (record.status, record.lease.owner) == (RunStatus.RUNNING, "rival")


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("lengths", [8, 60])
def test_long_work_on_many_leases_is_never_handed_out_again(
    database: OwnDatabase, lengths: int
) -> None:
    ttl_s = 2.0
    attacks, won = 0, 0
    with (
        serve(database.url, log_level="warning") as first,
        serve(database.url, log_level="warning") as second,
        Proxy(first.port) as proxy,
    ):
        url = f"http://127.0.0.1:{proxy.port}"
        with (
            runlease.connect(url, owner="worker", lease_ttl_ms=int(ttl_s * 1000)) as ledger,
            runlease.connect(second.url, owner="rival", heartbeat=False) as rival,
        ):
            with ThreadPoolExecutor(8) as threads:
                runs = list(threads.map(lambda n: ledger.acquire(f"run-{n}"), range(LEASES)))
            stop = threading.Event()

            def attack() -> None:
                nonlocal attacks, won
                while not stop.is_set():
                    for run in runs[:: LEASES // 20]:
                        attacks += 1
                        try:
                            rival.acquire(run.run_id)
                            won += 1
                        except RunLeaseHeldError:
                            pass
                    stop.wait(0.05)

            attacker = threading.Thread(target=attack)
            attacker.start()
            end = time.monotonic() + lengths * ttl_s
            time.sleep(lengths * ttl_s / 2)
            proxy.refuse()  # the service goes, and another comes in its place
            time.sleep(DOWN_S)
            proxy.forward(second.port)
            while time.monotonic() < end:
                time.sleep(0.05)
            stop.set()
            attacker.join()
            with ThreadPoolExecutor(8) as threads:
                records = list(threads.map(lambda run: run.complete(), runs))

    print(f"{LEASES} leases for {lengths} lengths, {attacks} attacks, {won} won")
    assert won == 0
    assert attacks > 20 * lengths
    assert {(one.status, one.attempt, one.fencing_token) for one in records} == {
        (RunStatus.COMPLETED, 1, 1)
    }


def test_a_connection_that_idles_as_long_as_the_server_keeps_it_is_no_error(
    database: OwnDatabase,
) -> None:
    """The server closes after a second; the client asks again at just about that time."""
    with (
        serve(database.url, keep_alive_s=1, log_level="warning") as server,
        runlease.connect(server.url, heartbeat=False) as ledger,
    ):

        def work(number: int) -> tuple[int, int]:
            time.sleep(1 + (number % 41 - 20) / 1000)
            run = ledger.acquire(f"run-{number}")
            time.sleep(1 + (number % 37 - 18) / 1000)
            run.renew()
            run.complete()
            return run.fencing_token, run.attempt

        with ThreadPoolExecutor(50) as threads:
            granted = list(threads.map(work, range(100)))

    assert set(granted) == {(1, 1)}
