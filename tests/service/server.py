"""The service as a process of its own, on a real port."""

from __future__ import annotations

import os
import re
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

START_S_MAX: Final = 30
STOP_S_MAX: Final = 15
_URL = re.compile(r"https?://(127\.0\.0\.1):([0-9]+)")


@dataclass(frozen=True)
class Server:
    """A served process that accepts requests."""

    host: str
    port: int
    pid: int

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def resident_bytes(self) -> int:
        """What the process holds in memory now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def serve(database_url: str, *, ready: object = None, **settings: object) -> Iterator[Server]:
    """Start `runlease serve` and end it with SIGTERM; it must then end with code 0. `ready` is an
    SSL context that trusts the certificate of one that serves HTTPS."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("RUNLEASE_")
    } | {f"RUNLEASE_{name.upper()}": str(value) for name, value in settings.items()}
    command = [sys.executable, "-m", "runlease_service.cli", "serve", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--database", database_url],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    lines: list[str] = []
    found: list[tuple[str, int]] = []
    listening = threading.Event()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            match = _URL.search(line)
            if match and not found:
                found.append((match[1], int(match[2])))
                listening.set()
        listening.set()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        assert listening.wait(START_S_MAX), "the service did not start in time"
        assert found, "".join(lines)
        server = Server(*found[0], process.pid)
        trust = ready if isinstance(ready, ssl.SSLContext) else None
        url = server.url if trust is None else server.url.replace("http:", "https:")
        answer = httpx.get(f"{url}/readyz", verify=trust or False)
        assert answer.status_code == 200
        yield server
    finally:
        process.terminate()
        try:
            code = process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            reader.join()
            process.stdout.close()
            print("".join(lines))
    assert code == 0, f"the service ended with {code}"
