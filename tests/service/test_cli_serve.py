"""The command as a process of its own: nothing here is imported, everything is run."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType

import httpx
import pytest

from runlease_service.settings import Settings, environment_variable

WAIT_S_MAX = 40
ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 - the command is to refuse it, or to be told twice
COMMAND = [sys.executable, "-m", "runlease_service.cli"]


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RUNLEASE_")}
    return kept | {"COLUMNS": "300", **variables}


def run(
    *arguments: str, cwd: Path | None = None, variables: Mapping[str, str] = MappingProxyType({})
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=cwd,
        env=environment(variables),
        capture_output=True,
        text=True,
        timeout=WAIT_S_MAX,
        check=False,
    )


class Served:
    """A running service and its startup line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.startup_line = self.line()

    def line(self) -> str:
        """The next line of standard output; empty when there is none before the deadline."""
        assert self.process.stdout is not None
        deadline = threading.Timer(WAIT_S_MAX, self.process.kill)
        deadline.start()
        try:
            return self.process.stdout.readline()
        finally:
            deadline.cancel()

    @property
    def url(self) -> str:
        found = re.search(r"http://[^\s,\"]+", self.startup_line)
        assert found, f"no startup line: {self.startup_line!r}"
        return found[0]

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", timeout=WAIT_S_MAX, trust_env=False)

    def end(self, how: signal.Signals) -> tuple[int, str, str]:
        """The exit code, and what else was written to standard output and standard error."""
        self.process.send_signal(how)
        output, errors = self.process.communicate(timeout=WAIT_S_MAX)
        return self.process.returncode, output, errors


@contextmanager
def serve(
    folder: Path, *arguments: str, variables: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Served]:
    with subprocess.Popen(
        [*COMMAND, "serve", *arguments],
        cwd=folder,
        env=environment({"RUNLEASE_PORT": "0", **variables}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Served(process)
        finally:
            # Its workers end with it.
            process.kill()


def test_version_and_help_need_no_settings() -> None:
    shown = run("--version", variables={"RUNLEASE_PORT": "wrong"})
    helped = run("serve", "--help", variables={"RUNLEASE_PORT": "wrong"})

    assert shown.stdout == f"runlease {version('runlease')}\n"
    assert helped.returncode == 0


@pytest.fixture(scope="module")
def help_text() -> str:
    return " ".join(run("serve", "--help").stdout.split())


@pytest.mark.parametrize("name", Settings.model_fields)
def test_help_shows_every_setting(name: str, help_text: str) -> None:
    field = Settings.model_fields[name]
    flag = "--database" if name == "database_url" else f"--{name.replace('_', '-')}"
    default = "off" if field.default is False else field.default
    default = "none" if default == "" else default

    assert f" {flag} " in help_text
    assert (
        f"{field.description} [env: {environment_variable(name)}; default: {default}]" in help_text
    )


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_listens_and_ends_cleanly(how: signal.Signals, tmp_path: Path) -> None:
    with serve(tmp_path) as served:
        health = served.get("/healthz")
        ended = served.end(how)

    assert re.fullmatch(
        rf"runlease {re.escape(version('runlease'))} listening on http://127\.0\.0\.1:[1-9]\d*, "
        r"database sqlite:///runlease\.db, authentication none \(loopback only\)\n",
        served.startup_line,
    )
    assert health.status_code == 200
    assert "date" in health.headers
    assert "server" not in health.headers
    assert ended == (0, "", "")
    assert (tmp_path / "runlease.db").exists()


def test_a_flag_goes_before_the_environment(tmp_path: Path) -> None:
    variables = {
        "RUNLEASE_DATABASE_URL_FILE": "/nowhere",
        "RUNLEASE_LOG_FORMAT": "json",
        "RUNLEASE_HOST": "192.0.2.1",
    }
    with serve(
        tmp_path, "--database", "sqlite:///flag.db", "--host", "localhost", variables=variables
    ) as served:
        line = json.loads(served.startup_line)
        ended = served.end(signal.SIGTERM)

    assert line["event"] == "listening"
    assert line["level"] == "info"
    assert line["version"] == version("runlease")
    assert line["database"] == "sqlite:///flag.db"
    assert line["authentication"] == "none (loopback only)"
    assert line["timestamp"].endswith("Z")
    assert ended == (0, "", "")
    assert (tmp_path / "flag.db").exists()


def test_the_database_may_be_named_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("sqlite:///from-file.db\n")

    with serve(tmp_path, variables={"RUNLEASE_DATABASE_URL_FILE": "secret"}) as served:
        ended = served.end(signal.SIGTERM)

    assert ended == (0, "", "")
    assert (tmp_path / "from-file.db").exists()


@pytest.mark.parametrize("host", [ALL_ADDRESSES, "::"])
def test_an_address_that_others_reach_is_refused(host: str, tmp_path: Path) -> None:
    refused = run("serve", "--port", "0", "--host", host, cwd=tmp_path)

    assert refused.returncode == 2
    assert refused.stdout == ""
    assert refused.stderr.count("\n") == 1
    assert "--host 127.0.0.1" in refused.stderr
    assert "--allow-unauthenticated" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_it_serves_others_when_told_to(tmp_path: Path) -> None:
    with serve(tmp_path, "--host", ALL_ADDRESSES, "--allow-unauthenticated") as served:
        ended = served.end(signal.SIGTERM)

    assert f"http://{ALL_ADDRESSES}:" in served.startup_line
    assert "none (allowed by --allow-unauthenticated)" in served.startup_line
    assert ended == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "variables", "words"),
    [
        (["--port", "70000"], {}, "port (RUNLEASE_PORT)"),
        ([], {"RUNLEASE_WORKERS": "many"}, "workers (RUNLEASE_WORKERS)"),
        (["--database", "mysql://u:secret@h/d"], {}, "mysql:// is not supported"),
        ([], {"RUNLEASE_DATABASE_URL_FILE": "/nowhere"}, "RUNLEASE_DATABASE_URL_FILE"),
    ],
)
def test_a_wrong_setting_is_one_line(
    arguments: list[str], variables: dict[str, str], words: str
) -> None:
    refused = run("serve", *arguments, variables=variables)

    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert words in refused.stderr
    assert "secret" not in refused.stderr


def test_a_busy_port_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        refused = run("serve", "--port", str(port), cwd=tmp_path)

    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert f"127.0.0.1 port {port}: Address already in use" in refused.stderr


def test_an_unusable_database_is_one_line(tmp_path: Path) -> None:
    failed = run("serve", "--port", "0", "--database", f"sqlite:///{tmp_path}/no/such.db")

    assert failed.returncode == 1
    assert failed.stdout == ""
    assert failed.stderr.count("\n") == 1
    assert f"{tmp_path}/no" in failed.stderr


def test_workers_share_the_port_and_end_with_the_supervisor(tmp_path: Path) -> None:
    with serve(tmp_path, "--workers", "2", "--log-format", "json") as served:
        health = [served.get("/healthz").status_code for _ in range(10)]
        ended = served.end(signal.SIGTERM)

    assert json.loads(served.startup_line)["event"] == "listening"
    assert health == [200] * 10
    assert ended == (0, "", "")


def test_workers_do_not_outlive_a_killed_supervisor(tmp_path: Path) -> None:
    with serve(tmp_path, "--workers", "2") as served:
        served.get("/healthz")
        # Reading ends when the last process that holds the pipes has ended.
        code, output, errors = served.end(signal.SIGKILL)

    assert code == -signal.SIGKILL
    assert (output, errors) == ("", "")


def test_workers_that_cannot_start_end_the_supervisor(tmp_path: Path) -> None:
    failed = run(
        "serve", "--port", "0", "--workers", "2", "--database", f"sqlite:///{tmp_path}/no/such.db"
    )

    assert failed.returncode == 1
    assert f"{tmp_path}/no" in failed.stderr
    assert "Traceback" not in failed.stderr
