"""`runlease serve` as a process that a test may kill, stop and start again on the same port.

A process is ended by its own handle. Its output goes to a file, so that nobody has to read a pipe
while it is under load, and is printed when the test is over.
"""

from __future__ import annotations

import http.client
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

HOST: Final = "127.0.0.1"
READY_S_MAX: Final = 60.0
END_S_MAX: Final = 40.0
POLL_S: Final = 0.01
# Below the ports that the kernel gives to clients: while the service is down, a client that dials
# a port of that range could be connected to itself.
PORTS: Final = range(20_000, 32_000)


def parameter(name: str, default: int) -> int:
    """A test's number, which `CHAOS_<name>` in the environment replaces."""
    return int(os.environ.get(f"CHAOS_{name}", default))


def wait_until(condition: Callable[[], bool], what: str, *, s_max: float) -> None:
    """Return when the condition holds; fail when it does not in time."""
    deadline = time.monotonic() + s_max
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {s_max:g} s"
        time.sleep(POLL_S)


def free_port() -> int:
    """A port that nobody listens on, outside the kernel's range for clients."""
    for port in random.sample(PORTS, 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port
    raise AssertionError("no free port")


def get(port: int, path: str, *, s_max: float = 10.0) -> tuple[int, dict[str, str], bytes]:
    """One request on a connection of its own: status, headers, body."""
    connection = http.client.HTTPConnection(HOST, port, timeout=s_max)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, headers, answer.read()
    finally:
        connection.close()


@dataclass
class ServedProcess:
    """One service on one port, over as many processes as it takes."""

    database_url: str
    folder: Path
    arguments: tuple[str, ...] = ()
    settings: dict[str, object] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / f"served-{self.port}.log"

    def start(self) -> None:
        """Start it, and return when it is ready."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        settings = {"log_level": "warning"} | self.settings
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("RUNLEASE_")
        } | {f"RUNLEASE_{name.upper()}": str(value) for name, value in settings.items()}
        command = [sys.executable, "-m", "runlease_service.cli", "serve", "--port", str(self.port)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--database", self.database_url, *self.arguments],
                env=environment | self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def wait(self) -> None:
        """Return when it is ready."""
        wait_until(self._is_ready, "the service is ready", s_max=READY_S_MAX)

    def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()
        try:
            return get(self.port, "/readyz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(END_S_MAX)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """SIGSTOP, then SIGCONT."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def terminate(self) -> int:
        """SIGTERM; returns the exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(END_S_MAX)


@contextmanager
def serving(
    database: Path,
    *arguments: str,
    environment: dict[str, str] | None = None,
    **settings: object,
) -> Iterator[ServedProcess]:
    """A ready service on a file."""
    served = ServedProcess(
        f"sqlite:///{database}", database.parent, arguments, settings, environment or {}
    )
    with ended(served):
        served.start()
        yield served


@contextmanager
def ended(served: ServedProcess) -> Iterator[None]:
    """Whatever is left of a service in the end is ended, and what it said is shown."""
    try:
        yield
    finally:
        if served.process is not None and served.process.poll() is None:
            served.process.terminate()
            try:
                served.process.wait(END_S_MAX)
            except subprocess.TimeoutExpired:
                served.process.kill()
                served.process.wait()
        if served.log.exists():
            print(served.log.read_text()[-4000:])
