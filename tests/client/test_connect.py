"""From a URL to a ledger, and what a worker's environment needs for it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import runlease
from runlease import RunLeaseHeldError, RunValidationError
from tests.core.examples import CHECKPOINT
from tests.service.in_process import until

ROOT: Final = Path(__file__).parents[2]
INSTALL_S_MAX: Final = 100


@pytest.mark.parametrize("scheme", ["memory", "sqlite"])
def test_the_same_ledger_runs_in_the_process(scheme: str, tmp_path: Path) -> None:
    url = f"memory://{tmp_path}" if scheme == "memory" else f"sqlite:///{tmp_path}/runs.db"
    with runlease.connect(url, owner="a") as first, runlease.connect(url, owner="b") as second:
        with first.acquire("run-1") as run:
            run.record_checkpoint(CHECKPOINT)
            with pytest.raises(RunLeaseHeldError) as held:
                second.acquire("run-1")
            assert held.value.retry_after_seconds is not None
            assert held.value.retry_after_seconds > 50
        record = second.get("run-1")

        assert record is not None
        assert (record.status, record.checkpoint_ref) == ("completed", CHECKPOINT)
        second.delete("run-1")
        assert first.get("run-1") is None
        assert first.acquire("run-1").fencing_token == 2


@pytest.mark.parametrize("scheme", ["memory", "sqlite"])
async def test_and_so_does_the_asynchronous_one(scheme: str, tmp_path: Path) -> None:
    url = f"memory://{tmp_path}" if scheme == "memory" else f"sqlite:///{tmp_path}/runs.db"
    async with runlease.aconnect(url, lease_ttl_ms=300) as ledger:
        async with await ledger.acquire("run-1") as run:
            first = run.record

            async def is_renewed() -> bool:
                return run.record != first

            await until(is_renewed, "the heartbeat renews it", s_max=20)
        record = await ledger.get("run-1")

    assert record is not None
    assert (record.status, record.fencing_token) == ("completed", 1)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("127.0.0.1:8080", "must begin with http://"),
        ("ftp://host", "must begin with http://"),
        ("", "must begin with http://"),
    ],
)
def test_a_url_that_leads_nowhere_is_named(url: str, words: str) -> None:
    with pytest.raises(RunValidationError, match=words) as refused:
        runlease.connect(url)

    assert refused.value.field == "url"


WITHOUT_EXTRAS: Final = """
import runlease, sys
with runlease.connect("memory://") as ledger:
    with ledger.acquire("run-1") as run:
        assert run.held
    assert ledger.get("run-1").status == "completed"
there = {"fastapi", "sqlalchemy", "uvicorn", "pydantic", "starlette", "runlease_service"}
print(sorted(there & sys.modules.keys()))
try:
    runlease.connect("sqlite:///runs.db")
except runlease.RunValidationError as error:
    print(error)
"""


def test_a_workers_environment_needs_neither_fastapi_nor_sqlalchemy_nor_uvicorn(
    tmp_path: Path,
) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    subprocess.run(
        [python, *["-m", "pip", "-q", "install"], "-c", ROOT / "constraints.txt", ROOT],
        check=True,
        timeout=INSTALL_S_MAX,
    )

    said = subprocess.run(
        [python, "-c", WITHOUT_EXTRAS], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    installed = subprocess.run(
        [python, "-m", "pip", "list", "--format=freeze"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout

    assert said[0] == "[]"
    assert re.fullmatch(r"url: sqlite: needs \w+: pip install 'runlease\[sql\]'", said[1])
    assert not {"fastapi", "sqlalchemy", "uvicorn"} & {
        line.partition("==")[0].lower() for line in installed.splitlines()
    }
