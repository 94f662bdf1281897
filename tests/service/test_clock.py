"""The host's clock: what a stepped wall clock, a restart, a reboot and a broken file do to leases,
and which files are refused before any lease is kept in them."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from runlease_core.commands import Acquire
from runlease_core.decide import Write, decide
from runlease_core.instant import instant_from_ms, ms_from_instant, parse_instant
from runlease_core.record import RunRecord
from runlease_service.database import clock as clock_module
from runlease_service.database import file_systems
from runlease_service.database.base import Change, DatabaseSetupError, DatabaseUnavailableError
from runlease_service.database.clock import HostClock
from runlease_service.database.sqlite import SQLiteDatabase
from tests.chaos.server import ServedProcess, serving

SECOND_NS: Final = 1_000_000_000
HOUR_MS: Final = 3_600_000
TTL_MS: Final = 60_000
FAKETIME: Final = Path(f"/usr/lib/{os.uname().machine}-linux-gnu/faketime/libfaketimeMT.so.1")


@dataclass
class Machine:
    """A machine whose clocks stand until they are moved."""

    wall_ns: int = 1_788_220_800 * SECOND_NS
    boot_ns: int = 5_000 * SECOND_NS
    boot_id: str = "first-boot"

    def pass_by(self, *, ms: int) -> None:
        self.wall_ns += ms * 1_000_000
        self.boot_ns += ms * 1_000_000

    def step(self, *, ms: int) -> None:
        self.wall_ns += ms * 1_000_000

    def reboot(self, *, wall_ms: int) -> None:
        """Down and up again, after which the wall clock is moved by so much."""
        self.boot_id += "+"
        self.boot_ns = 7 * SECOND_NS
        self.step(ms=wall_ms)

    @property
    def wall_ms(self) -> int:
        return self.wall_ns // 1_000_000


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(time, "time_ns", lambda: machine.wall_ns)
    monkeypatch.setattr(clock_module, "_boot_ns", lambda: machine.boot_ns)
    monkeypatch.setattr(clock_module, "_boot_id", lambda: machine.boot_id)
    return machine


Opener = Callable[[], Awaitable[SQLiteDatabase]]


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Opener]:
    """Opens the test's file; what a test did not close is closed after it."""
    databases: list[SQLiteDatabase] = []

    async def open_one() -> SQLiteDatabase:
        databases.append(SQLiteDatabase(tmp_path / "runs.db"))
        await databases[-1].open()
        return databases[-1]

    yield open_one
    for database in databases:
        with suppress(DatabaseUnavailableError):  # it is closed
            await database.close()


async def acquire(database: SQLiteDatabase, *, ttl_ms: int = TTL_MS) -> RunRecord:
    command = Acquire(run_id="x", owner="a", lease_ttl_ms=ttl_ms)

    def judge(states: Any, now: Any) -> dict[str, Change]:  # noqa: ANN401 (the seam's own types)
        decision = decide(states["x"], command, now)
        assert isinstance(decision, Write)
        return {"x": Change(states["x"], decision.next)}

    await database.apply(["x"], judge, 0)
    return await read(database)


async def read(database: SQLiteDatabase) -> RunRecord:
    record, _ = await database.get("x")
    assert record is not None
    return record


async def left_ms(database: SQLiteDatabase) -> int:
    """How long the lease still lasts, by the database's clock."""
    record, now = await database.get("x")
    assert record is not None
    assert record.lease is not None
    return ms_from_instant(record.lease.expires_at) - ms_from_instant(now)


@pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS, 1, -1])
def test_a_step_while_it_runs_changes_nothing(
    step_ms: int, machine: Machine, tmp_path: Path
) -> None:
    with closing(HostClock(tmp_path / "clock")) as clock:
        before = clock.now()
        machine.step(ms=step_ms)
        stepped = clock.now()
        machine.pass_by(ms=250)
        after = clock.now()

    assert before == stepped == instant_from_ms(machine.wall_ms - step_ms - 250)
    assert after - before == timedelta(milliseconds=250)


def test_all_processes_on_a_file_share_the_anchor_of_the_first(
    machine: Machine, tmp_path: Path
) -> None:
    with closing(HostClock(tmp_path / "clock")) as first:
        first.settled()
        machine.step(ms=HOUR_MS)
        with closing(HostClock(tmp_path / "clock")) as second:
            assert (first.alone, second.alone) == (True, False)
            assert second.moved_ms == 0
            assert second.now() == first.now()
            machine.pass_by(ms=10)
            assert second.now() == first.now()
        # The second leaves, a third comes: still the first's.
        with closing(HostClock(tmp_path / "clock")) as third:
            assert not third.alone
            assert third.now() == first.now()


def test_the_clock_counts_from_the_anchor_also_when_its_first_process_has_gone(
    machine: Machine, tmp_path: Path
) -> None:
    first = HostClock(tmp_path / "clock")
    first.settled()
    machine.step(ms=HOUR_MS)
    with closing(HostClock(tmp_path / "clock")) as second:
        expected = first.now()
        first.close()
        with closing(HostClock(tmp_path / "clock")) as third:
            assert second.now() == third.now() == expected


@pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS, 1_001, -1_001])
async def test_a_process_that_is_alone_takes_a_new_anchor_and_moves_the_leases_with_it(
    step_ms: int, machine: Machine, opened: Opener
) -> None:
    database = await opened()
    before = await acquire(database)
    await database.close()
    machine.pass_by(ms=10_000)
    machine.step(ms=step_ms)

    database = await opened()

    moved = await read(database)
    _, now = await database.get("x")
    assert before.lease is not None
    assert moved.lease is not None
    assert now == instant_from_ms(machine.wall_ms)
    assert moved.lease.expires_at - before.lease.expires_at == timedelta(milliseconds=step_ms)
    assert moved.lease.acquired_at - before.lease.acquired_at == timedelta(milliseconds=step_ms)
    assert await left_ms(database) == TTL_MS - 10_000
    assert (moved.version, moved.fencing_token) == (before.version + 1, before.fencing_token)
    assert moved.updated_at == now


@pytest.mark.parametrize("step_ms", [0, 1, -1, 1000, -1000])
async def test_a_restart_under_a_clock_that_only_drifts_writes_nothing(
    step_ms: int, machine: Machine, opened: Opener
) -> None:
    database = await opened()
    before = await acquire(database)
    await database.close()
    machine.step(ms=step_ms)
    machine.pass_by(ms=10_000)

    database = await opened()

    assert await read(database) == before
    assert await left_ms(database) == TTL_MS - 10_000


async def test_a_real_restart_writes_nothing(opened: Opener) -> None:
    database = await opened()
    before = await acquire(database)
    for _ in range(5):
        await database.close()
        database = await opened()

    assert await read(database) == before


@pytest.mark.parametrize("step_ns", [2_000_000_001, -2_000_000_001, 2_000_999_999, -2_000_999_999])
async def test_a_lease_is_moved_up_to_the_next_millisecond_and_never_made_shorter(
    step_ns: int, machine: Machine, opened: Opener
) -> None:
    database = await opened()
    await acquire(database)
    await database.close()
    machine.wall_ns += step_ns

    database = await opened()

    assert TTL_MS <= await left_ms(database) <= TTL_MS + 1


async def test_a_process_that_is_not_alone_moves_nothing(machine: Machine, opened: Opener) -> None:
    first = await opened()
    before = await acquire(first)
    machine.step(ms=HOUR_MS)

    second = await opened()

    assert await read(second) == await read(first) == before
    assert await left_ms(second) == await left_ms(first) == TTL_MS


async def test_after_a_reboot_a_lease_from_the_future_is_cut_to_its_length(
    machine: Machine, opened: Opener
) -> None:
    machine.step(ms=24 * HOUR_MS)  # the clock is a day ahead until the reboot
    database = await opened()
    before = await acquire(database)
    await database.close()
    machine.reboot(wall_ms=-24 * HOUR_MS)

    database = await opened()

    cut = await read(database)
    assert cut.lease is not None
    assert cut.lease.acquired_at == instant_from_ms(machine.wall_ms)
    assert await left_ms(database) == TTL_MS
    assert cut.version == before.version + 1


async def test_after_a_reboot_a_lease_that_can_be_right_is_left_alone(
    machine: Machine, opened: Opener
) -> None:
    database = await opened()
    before = await acquire(database)
    await database.close()
    machine.reboot(wall_ms=20_000)

    database = await opened()

    assert await read(database) == before
    assert await left_ms(database) == TTL_MS - 20_000


@pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS])
async def test_a_crash_while_the_leases_are_moved_ends_none_early(
    step_ms: int,
    machine: Machine,
    opened: Opener,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database = await opened()
    await acquire(database)
    await database.close()
    machine.step(ms=step_ms)

    def crash(_: HostClock) -> None:
        raise OSError("gone")

    with monkeypatch.context() as patched:
        patched.setattr(HostClock, "settled", crash)
        with pytest.raises(DatabaseSetupError, match="gone"):
            await opened()
    after_it = await opened()
    assert await left_ms(after_it) == TTL_MS
    await after_it.close()

    # The same, but gone before the leases were moved: only a clock that goes back is written down.
    machine.step(ms=step_ms)
    clock = HostClock(tmp_path / "runs.db-clock")
    assert abs(clock.moved_ms) == HOUR_MS
    clock.close()
    assert await left_ms(await opened()) == TTL_MS


BROKEN: Final[dict[str, bytes]] = {
    "empty": b"",
    "no JSON": b"anchor",
    "no ASCII": b"\xff\xfe",
    "half": b'{"bootId": "first-boot", "offs',
    "a list": b"[1, 2]",
    "null": b"null",
    "a number": b"7",
    "no offset": b'{"bootId": "first-boot"}',
    "text": b'{"bootId": "first-boot", "offsetNs": "soon"}',
    "infinite": b'{"bootId": "first-boot", "offsetNs": Infinity}',
    "no number": b'{"bootId": "first-boot", "offsetNs": NaN}',
    "after the year 9999": b'{"bootId": "first-boot", "offsetNs": 1' + b"0" * 40 + b"}",
    "before 1970": b'{"bootId": "first-boot", "offsetNs": -1' + b"0" * 40 + b"}",
    "nested": b"[" * 100_000,
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
async def test_a_broken_clock_file_is_written_anew(
    content: bytes, machine: Machine, opened: Opener, tmp_path: Path
) -> None:
    database = await opened()
    before = await acquire(database)
    await database.close()
    file = tmp_path / "runs.db-clock"
    file.write_bytes(content)

    database = await opened()

    assert await read(database) == before
    assert await left_ms(database) == TTL_MS
    assert json.loads(file.read_bytes())["bootId"] == machine.boot_id


# Files that are refused.


async def refusal(path: Path) -> str:
    """What the operator is told; and that nothing is left open, so that opening it later can be
    alone with the file."""
    database = SQLiteDatabase(path, wait_ms_max=100)
    with pytest.raises(DatabaseSetupError) as refused:
        await database.open()
    await database.close()
    assert is_let_go(Path(f"{path}-clock"))
    return str(refused.value)


def is_let_go(clock_file: Path) -> bool:
    if not clock_file.exists():
        return True
    with closing(HostClock(clock_file)) as clock:
        return clock.alone


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "fuse.sshfs"])
@pytest.mark.parametrize("name", ["plain", "with space", "bäck\\slash"])
async def test_a_network_file_system_is_refused(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / name / "inside"
    folder.mkdir(parents=True)
    mount = str(folder.parent).replace("\\", "\\134").replace(" ", "\\040")
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "/dev/root / ext4 rw 0 0\n"
        f"server:/x {mount} {kind} rw 0 0\n"
        f"tmpfs {mount}-not tmpfs rw 0 0\n"
    )
    monkeypatch.setattr(file_systems, "MOUNTS", mounts)

    told = await refusal(folder / "runs.db")

    assert f"network file system ({kind})" in told
    assert str(folder) in told
    assert list(folder.iterdir()) == []


async def test_the_innermost_mount_decides_and_a_link_leads_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote, local = tmp_path / "remote", tmp_path / "remote" / "local"
    local.mkdir(parents=True)
    mounts = tmp_path / "mounts"
    mounts.write_text(
        f"/dev/root / ext4 rw 0 0\ns:/x {remote} nfs4 rw 0 0\n/dev/sdb {local} xfs rw 0 0\n"
    )
    monkeypatch.setattr(file_systems, "MOUNTS", mounts)
    (tmp_path / "link.db").symlink_to(remote / "runs.db")

    assert "network file system (nfs4)" in await refusal(tmp_path / "link.db")
    database = SQLiteDatabase(local / "runs.db")
    await database.open()
    await database.close()


async def test_where_the_kernel_does_not_tell_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_systems, "MOUNTS", tmp_path / "absent")
    database = SQLiteDatabase(tmp_path / "runs.db")

    await database.open()
    await database.close()


async def test_a_link_to_the_file_shares_its_clock(
    machine: Machine, opened: Opener, tmp_path: Path
) -> None:
    first = await opened()
    await acquire(first)
    machine.step(ms=HOUR_MS)
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.db"
    link.symlink_to(tmp_path / "runs.db")

    second = SQLiteDatabase(link)
    await second.open()

    assert await left_ms(second) == TTL_MS
    await second.close()


async def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    told = await refusal(tmp_path / "absent" / "runs.db")

    assert told == f"the folder {tmp_path}/absent does not exist; make it first"


async def test_a_folder_that_cannot_be_written_is_refused() -> None:
    told = await refusal(Path("/proc/runs.db"))  # not even root can

    assert told.startswith("/proc/runs.db cannot be opened: ")


async def test_a_folder_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runs.db").mkdir()

    told = await refusal(tmp_path / "runs.db")

    assert told == f"{tmp_path}/runs.db cannot be opened: unable to open database file"


async def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    path.write_bytes(b"dear diary\n" * 500)

    told = await refusal(path)

    assert told == f"{path} cannot be opened: file is not a database"
    assert path.read_bytes() == b"dear diary\n" * 500


async def test_a_database_with_tables_of_these_names_is_refused_and_left_alone(
    tmp_path: Path,
) -> None:
    path = tmp_path / "runs.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE runs (distance REAL)")

    told = await refusal(path)

    assert told == f"{path} cannot be opened: table runs already exists"
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
    assert tables == [("runs",)]


async def test_a_newer_schema_is_refused(opened: Opener, tmp_path: Path) -> None:
    await (await opened()).close()
    with closing(sqlite3.connect(tmp_path / "runs.db")) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")

    told = await refusal(tmp_path / "runs.db")

    assert told.startswith(f"{tmp_path}/runs.db was made by a newer runlease (schema 9999, ")


async def test_a_file_that_another_holds_is_refused_after_a_bounded_wait(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as stranger:
        stranger.execute("BEGIN EXCLUSIVE")

        told = await refusal(path)

    assert told == f"{path} cannot be opened: database is locked"


# The same with real processes under a wall clock that is stepped.


def stepped(tmp_path: Path, step: str) -> dict[str, str]:
    """The environment of a process whose wall clock the file moves while it runs."""
    (tmp_path / "step").write_text(step)
    return {
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(tmp_path / "step"),
        "FAKETIME_NO_CACHE": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }


def lease_of(served: ServedProcess, owner: str) -> tuple[int, dict[str, Any], int]:
    """Try to take the run: the status, the lease, and how long it still lasts."""
    answer = httpx.post(
        f"http://127.0.0.1:{served.port}/v1/runs/x/acquire",
        json={"owner": owner, "leaseTtlMs": HOUR_MS},
    )
    record = answer.json().get("record", answer.json())
    lease: dict[str, Any] = record["lease"]
    return answer.status_code, lease, int(answer.headers["Runlease-Lease-Remaining-Ms"])


@pytest.mark.skipif(
    not FAKETIME.exists(), reason=f"needs libfaketime (Debian: faketime): {FAKETIME}"
)
@pytest.mark.parametrize("step_s", [7200, -7200])
def test_served_processes_agree_on_a_lease_through_steps_and_a_restart(
    step_s: int, tmp_path: Path
) -> None:
    database = tmp_path / "runs.db"
    environment = stepped(tmp_path, "+0s")
    with serving(database, environment=environment) as first:
        taken, lease, _ = lease_of(first, "a")
        (tmp_path / "step").write_text(f"{step_s:+}s")
        told_by_first = lease_of(first, "b")
        with serving(database, environment=environment) as second:
            told_by_second = lease_of(second, "b")
        first.terminate()
        first.start()
        told_after = lease_of(first, "b")

    assert taken == 201
    for status, found, left in (told_by_first, told_by_second, told_after):
        assert status == 409
        assert HOUR_MS - 60_000 < left <= HOUR_MS
        assert found["owner"] == "a"
    assert told_by_first[1] == told_by_second[1] == lease
    moved = parse_instant(told_after[1]["expiresAt"]) - parse_instant(lease["expiresAt"])
    assert abs(moved - timedelta(seconds=step_s)) < timedelta(seconds=2)
