"""Renewals a second over HTTP, in interleaved rounds: against the floor, a route that stores
nothing, and on PostgreSQL also against what one writes first.

    make bench ARGS="--seconds 5 --rounds 5 --runs 100000 --connections 64"
    make bench ARGS="--postgres"
    make bench ARGS="--postgres --batch"     # leases a second, a thousand a request, four in flight
    make bench ARGS="--postgres --runs 1000000 --few 1000"   # against as many runs in all

The load comes from wrk (Debian: apt install wrk). Where there are two cores, the servers share the
first, and wrk and PostgreSQL have the second.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from runlease_core.commands import Acquire
from runlease_service.database import connect
from runlease_service.executor import Executor

HERE = Path(__file__).parent
START_S_MAX = 60
SLICE = 1000


@dataclass(frozen=True)
class Figures:
    """What one round of wrk printed."""

    requests_s: float
    p50_ms: float
    p99_ms: float
    max_ms: float
    errors: int


async def fill(url: str, runs: int) -> None:
    """Make that many runs, all held by one owner for a day."""
    database = connect(
        url,
        wait_ms_max=60_000,
        read_connections_max=1,
        lanes=2,
        pooled=False,
        require_durable=False,
    )
    await database.open()
    executor = Executor(database)
    executor.start()
    for first in range(0, runs, SLICE):
        await executor.execute_all(
            [
                Acquire(run_id=f"run-{number:07d}", owner="worker-1", lease_ttl_ms=86_400_000)
                for number in range(first, min(first + SLICE, runs))
            ]
        )
    await executor.stop()
    await database.close()


def serve(stack: ExitStack, arguments: list[str], port: int, database_url: str) -> str:
    """Start a server on the first core and wait until it is ready."""
    process = subprocess.Popen(
        [*pinned(0), sys.executable, "-m", *arguments, "--port", str(port)],
        env={**os.environ, "RUNLEASE_DATABASE_URL": database_url},
    )
    stack.callback(process.wait)
    stack.callback(process.terminate)
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + START_S_MAX
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=1):  # noqa: S310 (our own)
                return url
        except OSError:
            time.sleep(0.1)
    sys.exit(f"{arguments} did not become ready")


def load(url: str, options: argparse.Namespace, runs: int) -> Figures:
    """One round of wrk from the second core."""
    done = subprocess.run(
        [
            *pinned(1),
            "wrk",
            "-t1",
            f"-c{options.connections}",
            f"-d{options.seconds}s",
            "-s",
            str(HERE / ("batch.lua" if options.batch else "renew.lua")),
            url,
        ],
        env={**os.environ, "BENCH_RUNS": str(runs)},
        capture_output=True,
        text=True,
        check=True,
    )
    return Figures(**json.loads(done.stdout.splitlines()[-1]))


def pinned(core: int) -> list[str]:
    enough = (os.cpu_count() or 1) > 1 and shutil.which("taskset")
    return ["taskset", "-c", str(core)] if enough else []


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--batch", action="store_true")
    parser.add_argument("--few", type=int, help="compare with a database of so many runs")
    options = parser.parse_args()
    if options.batch:
        options.connections = 4
    if shutil.which("wrk") is None:
        sys.exit("wrk is not installed (Debian: apt install wrk)")

    with ExitStack() as stack:
        database = postgres if options.postgres else sqlite
        url = database(stack)
        asyncio.run(fill(url, options.runs))
        ours = ["runlease_service.cli", "serve"]
        quiet = ["--log-level", "warning", "--no-access-log"]
        servers = {"runlease": (ours, url, options.runs)}
        if options.few is not None:
            servers["few"] = (ours, database(stack), options.few)
            asyncio.run(fill(servers["few"][1], options.few))
        elif not options.batch:
            servers["floor"] = (["uvicorn", "bench.floor:app", *quiet], url, options.runs)
            if options.postgres:
                servers["naive"] = (["uvicorn", "bench.naive:app", *quiet], url, options.runs)
        urls = {
            name: serve(stack, arguments, free_port(), database_url)
            for name, (arguments, database_url, _) in servers.items()
        }
        rounds: dict[str, list[Figures]] = {name: [] for name in urls}
        for _ in range(options.rounds):
            for name, address in urls.items():
                rounds[name].append(load(address, options, servers[name][2]))
    report(rounds)


def sqlite(stack: ExitStack) -> str:
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="runlease-bench-"))
    return f"sqlite:///{folder}/runs.db"


def postgres(stack: ExitStack) -> str:
    """A server of our own, on the second core, that waits for the disk."""
    server = subprocess.Popen(
        [*pinned(1), sys.executable, "-m", "tests.postgres_server"],
        stdout=subprocess.PIPE,
        text=True,
    )
    stack.callback(server.wait)
    stack.callback(server.terminate)
    assert server.stdout is not None, "it was asked for"
    url = server.stdout.readline().strip()
    subprocess.run(
        [sys.executable, "-m", "runlease_service.cli", "migrate", "--database", url], check=True
    )
    return url


def report(rounds: dict[str, list[Figures]]) -> None:
    print(f"{'':10} {'a second':>10} {'p50 ms':>8} {'p99 ms':>8} {'max ms':>8} {'errors':>7}")
    for name, figures in rounds.items():
        for one in figures:
            print(
                f"{name:10} {one.requests_s:10.0f} {one.p50_ms:8.2f} {one.p99_ms:8.2f} "
                f"{one.max_ms:8.2f} {one.errors:7d}"
            )
    ours = rounds["runlease"]
    for name in rounds.keys() - {"runlease"}:
        pairs = zip(ours, rounds[name], strict=True)
        ratio = statistics.median(one.requests_s / other.requests_s for one, other in pairs)
        print(f"runlease/{name}, median of rounds: {ratio:.2f}")
    tail = statistics.median(one.p99_ms / one.p50_ms for one in ours)
    print(f"runlease p99/p50, median of rounds: {tail:.2f}")


if __name__ == "__main__":
    main()
