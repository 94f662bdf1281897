"""The README is true: its walk runs as written, and it names every setting and every code."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from runlease_core.errors import Code
from runlease_core.parsing import parse_record
from runlease_service.api.models import RECORD_EXAMPLE
from runlease_service.api.problems import STATUS, ServiceCode
from runlease_service.settings import Settings, environment_variable

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHOWN_URL = "http://127.0.0.1:8080"
START_S_MAX = 30
WALK_S_MAX = 60


def walk() -> list[str]:
    return re.findall(r"<!-- walk -->\n```sh\n(.*?)```", README, re.DOTALL)


def expectations(block: str) -> list[list[str]]:
    """What the comments under each command show, as fragments that must come in this order."""
    shown = re.findall(r"((?:^# .*\n)+)", block, re.MULTILINE)
    return [
        [part.strip() for part in re.sub(r"^# ?", "", text, flags=re.MULTILINE).split("...")]
        for text in shown
    ]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "runlease_service.cli", "serve", "--port", str(port)],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until_ready(url, process)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=START_S_MAX)


def wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S_MAX
    while time.monotonic() < deadline:
        assert process.poll() is None, "the service ended while starting"
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=1):  # noqa: S310 (our own)
                return
        except OSError:
            time.sleep(0.05)
    pytest.fail("the service did not become ready")


def test_the_walk_prints_what_the_readme_shows(service: str) -> None:
    blocks = walk()
    script = "set -e\n" + "\n".join(blocks)

    done = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "RUNLEASE_URL": service},
        capture_output=True,
        text=True,
        timeout=WALK_S_MAX,
        check=True,
    )

    fragments = [part for block in blocks for shown in expectations(block) for part in shown]
    assert len(fragments) > 20
    position = 0
    for fragment in fragments:
        for line in filter(None, fragment.splitlines()):
            found = done.stdout.find(line, position)
            assert found >= 0, f"not printed after position {position}: {line!r}\n{done.stdout}"
            position = found + len(line)


def test_the_python_examples_run(service: str) -> None:
    examples = re.findall(r"```python\n(.*?)```", README, re.DOTALL)

    printed = [
        subprocess.run(
            [sys.executable, "-W", "error", "-c", example.replace(SHOWN_URL, service)],
            capture_output=True,
            text=True,
            timeout=WALK_S_MAX,
            check=True,
        ).stdout
        for example in examples
    ]

    assert printed[0] == "1\n"
    assert printed[1] == ""
    assert "passed" in printed[2]


def test_every_setting_stands_in_the_readme_with_its_default_and_description() -> None:
    table = README.partition("<!-- settings -->")[2].partition("<!-- /settings -->")[0]

    assert table.strip() == settings_table(), "paste: python -m tests.house.test_readme"


def settings_table() -> str:
    rows = ["| flag | variable | default | what |", "|---|---|---|---|"]
    for name, field in Settings.model_fields.items():
        flag = "database" if name == "database_url" else name.replace("_", "-")
        default = "off" if field.default is False else field.default
        default = "none" if default == "" else default
        rows.append(
            f"| `--{flag}` | `{environment_variable(name)}` | `{default}` | {field.description} |"
        )
    return "\n".join(rows)


def test_every_code_stands_in_the_readme_with_its_status() -> None:
    rows = re.findall(r"^\| ([0-9, ]+) \| `([A-Z_]+)` \|", README, re.MULTILINE)

    assert {code for _, code in rows} == {*Code, *ServiceCode}
    assert all(str(STATUS[code]) in statuses for statuses, code in rows)


def test_every_file_that_the_readme_names_exists() -> None:
    names = re.findall(r"`((?:core|service|tests|bench)/[\w/.]*)`", README)

    assert len(names) > 8
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_every_make_target_that_the_readme_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")

    named = set(re.findall(r"`make\s+(\w+)`", README)) | {"run", "test"}

    assert [name for name in named if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []


def test_the_example_record_of_the_contract_is_a_record() -> None:
    assert json.loads(json.dumps(parse_record(RECORD_EXAMPLE).to_json())) == RECORD_EXAMPLE


if __name__ == "__main__":
    print(settings_table())
