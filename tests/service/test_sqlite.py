"""SQLite behind the seam, and the executor on it: the order of a batch, what a failure leaves
behind, the rows of a record, and who waits for whom."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from runlease_core.commands import (
    Acquire,
    AnyCommand,
    Cancel,
    CompareAndSet,
    Delete,
    Enqueue,
    Renew,
)
from runlease_core.decide import Converged, Refused, State, Write, decide
from runlease_core.errors import Code
from runlease_core.record import RunRecord, Tombstone
from runlease_service.app import create_app
from runlease_service.database.base import (
    Change,
    Corrupt,
    DatabaseSetupError,
    DatabaseUnavailableError,
    Judge,
    RunQuery,
)
from runlease_service.database.sqlite import SQLiteDatabase, path_of
from runlease_service.executor import Answer, Executor, OverloadedError
from runlease_service.settings import Settings
from tests.clock import ManualClock

WAIT_S: Final = 20.0
TTL_MS: Final = 60_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
async def opened(path: Path, clock: ManualClock) -> AsyncIterator[SQLiteDatabase]:
    database = SQLiteDatabase(path, clock=clock, wait_ms_max=300)
    await database.open()
    yield database
    await database.close()


@contextmanager
def stranger(path: Path) -> Iterator[sqlite3.Connection]:
    """Another process's connection to the file."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as connection:
        yield connection


def rows(path: Path, query: str = "SELECT run_id, version, fencing_token FROM runs") -> list[Any]:
    with stranger(path) as connection:
        return connection.execute(query).fetchall()


def labels(path: Path) -> list[tuple[str, str]]:
    return rows(path, "SELECT run_id, label FROM run_labels ORDER BY run_id, label")


def judging(*commands: AnyCommand) -> Judge:
    """Decide these commands, one after the other, as the executor does."""

    def judge(states: Mapping[str, State | Corrupt], now: datetime) -> Mapping[str, Change]:
        changes: dict[str, Change] = {}
        for command in commands:
            before = states[command.run_id]
            assert not isinstance(before, Corrupt)
            known = changes.get(command.run_id)
            decision = decide(known.after if known else before, command, now)
            if isinstance(decision, Write):
                changes[command.run_id] = Change(before, decision.next)
        return changes

    return judge


async def apply(database: SQLiteDatabase, *commands: AnyCommand) -> None:
    """One batch."""
    run_ids = list({command.run_id: None for command in commands})
    assert not await database.apply(run_ids, judging(*commands), 0)


async def read(database: SQLiteDatabase, run_id: str = "x") -> RunRecord | None:
    record, _ = await database.get(run_id)
    return record


async def state_of(database: SQLiteDatabase, run_id: str = "x") -> State | Corrupt:
    """What a judge is shown."""
    seen: list[State | Corrupt] = []

    def look(states: Mapping[str, State | Corrupt], _: datetime) -> Mapping[str, Change]:
        seen.append(states[run_id])
        return {}

    await database.apply([run_id], look, 0)
    return seen[0]


def acquire(run_id: str = "x", owner: str = "a", **more: Any) -> Acquire:  # noqa: ANN401
    return Acquire(run_id=run_id, owner=owner, lease_ttl_ms=TTL_MS, **more)


def enqueue(run_id: str = "x", **more: Any) -> Enqueue:  # noqa: ANN401
    return Enqueue(run_id=run_id, **more)


def delete(run_id: str = "x") -> Delete:
    return Delete(run_id=run_id, force=True)


# The order of a batch.


async def test_a_batch_locks_reads_judges_writes_and_commits_in_this_order(
    path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    connect = sqlite3.connect

    def traced(*arguments: Any, **named: Any) -> sqlite3.Connection:  # noqa: ANN401
        connection: sqlite3.Connection = connect(*arguments, **named)
        connection.set_trace_callback(lambda text: steps.append(text.split("(")[0].strip()))
        return connection

    def telling_the_time() -> datetime:
        steps.append("clock")
        return clock()

    monkeypatch.setattr(sqlite3, "connect", traced)
    database = SQLiteDatabase(path, clock=telling_the_time)
    await database.open()
    steps.clear()

    def judge(states: Mapping[str, State | Corrupt], now: datetime) -> Mapping[str, Change]:
        steps.append("judge")
        return judging(acquire())(states, now)

    await database.apply(["x"], judge, 0)
    done = [step.split(" ")[0] if step != "BEGIN IMMEDIATE" else step for step in steps]
    await database.close()

    assert done[:4] == ["BEGIN IMMEDIATE", "SELECT", "clock", "judge"]
    assert done[-2:] == ["INSERT", "COMMIT"]


async def test_nothing_is_visible_before_the_commit_and_all_of_it_after(
    opened: SQLiteDatabase, path: Path
) -> None:
    await apply(opened, acquire("known"))
    seen: list[Any] = []

    def judge(states: Mapping[str, State | Corrupt], now: datetime) -> Mapping[str, Change]:
        changes = judging(acquire("x", labels={"k": "v"}), acquire("known"))(states, now)
        seen.append(rows(path))
        with stranger(path) as connection, pytest.raises(sqlite3.OperationalError, match="locked"):
            connection.execute("BEGIN IMMEDIATE")
        return changes

    await opened.apply(["x", "known"], judge, 0)

    assert seen == [[("known", 1, 1)]]
    assert rows(path) == [("known", 2, 2), ("x", 1, 1)]
    assert labels(path) == [("x", "k=v")]


async def test_a_judge_that_fails_leaves_nothing_and_no_lock(
    opened: SQLiteDatabase, path: Path
) -> None:
    def broken(_: Mapping[str, State | Corrupt], _now: datetime) -> Mapping[str, Change]:
        raise LookupError("a fault of ours")

    with pytest.raises(LookupError):
        await opened.apply(["x"], broken, 0)

    assert rows(path) == []
    with stranger(path) as connection:
        connection.execute("BEGIN IMMEDIATE")
    await apply(opened, acquire())
    assert rows(path) == [("x", 1, 1)]


async def test_a_row_that_is_not_what_was_read_undoes_the_whole_batch(
    opened: SQLiteDatabase, path: Path
) -> None:
    await apply(opened, acquire("x"))

    def mistaken(states: Mapping[str, State | Corrupt], now: datetime) -> Mapping[str, Change]:
        right = judging(acquire("new"), acquire("x"))(states, now)
        before = right["x"].before
        assert isinstance(before, RunRecord)
        return {**right, "x": Change(replace(before, version=7), right["x"].after)}

    with pytest.raises(AssertionError):
        await opened.apply(["new", "x"], mistaken, 0)

    assert rows(path) == [("x", 1, 1)]


async def test_a_lock_held_by_another_is_waited_for_and_then_it_is_unavailable(
    opened: SQLiteDatabase, path: Path
) -> None:
    with stranger(path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        start = time.monotonic()
        with pytest.raises(DatabaseUnavailableError) as unavailable:
            await apply(opened, acquire())
        waited_s = time.monotonic() - start
        # Reading goes on meanwhile.
        assert await read(opened) is None

    assert 0.25 < waited_s < WAIT_S
    assert "locked" not in str(unavailable.value)
    await apply(opened, acquire())
    assert rows(path) == [("x", 1, 1)]


async def test_a_closed_database_is_unavailable(path: Path) -> None:
    database = SQLiteDatabase(path)
    with pytest.raises(DatabaseUnavailableError):
        await apply(database, acquire())
    with pytest.raises(DatabaseUnavailableError):
        await database.get("x")
    await database.open()
    await database.close()
    with pytest.raises(DatabaseUnavailableError):
        await database.ping()


@pytest.mark.parametrize(
    "url", ["sqlite:///", "sqlite:///:memory:", "sqlite://", "sqlite:///x?y=1"]
)
def test_a_url_that_names_no_file_is_refused(url: str) -> None:
    with pytest.raises(DatabaseSetupError, match=r"name a file: sqlite:///runlease\.db"):
        path_of(url)


# The rows of a record.

MALFORMED: Final = [
    "run_id = ''",
    "run_id = printf('%513s', 'x')",
    "run_id = NULL",
    "version = 0",
    "version = -1",
    f"version = {2**53}",
    "version = NULL",
    "status = 'paused'",
    "status = NULL",
    "status = 'queued'",  # under a lease
    "attempt = 0",
    "fencing_token = -1",
    f"fencing_token = {2**53}",
    "lease_owner = NULL",
    "lease_expires_at = NULL",
    "lease_acquired_at = NULL",
    "lease_expires_at = lease_acquired_at - 1",
    "checkpoint_key = 'k'",
    "checkpoint_snapshot_version = 1",
    "checkpoint_saved_at = 1",
    "outcome_code = 'ok'",
    "suspended_at = 1",
    "pending_approval_ids = '[]'",
    "suspended_at = 1, pending_approval_ids = '[]'",
    "max_attempts = 0",
    "max_attempts = 10001",
    "created_at = NULL",
    "updated_at = NULL",
    "deleted_at = 1",
    "deleted_at = 1, version = 0",  # and a status
]


@pytest.mark.parametrize("assignment", MALFORMED)
async def test_a_hand_on_the_file_cannot_make_a_malformed_row(
    assignment: str, opened: SQLiteDatabase, path: Path
) -> None:
    await apply(opened, acquire())
    before = await read(opened)

    with stranger(path) as connection, pytest.raises(sqlite3.IntegrityError):
        connection.execute(f"UPDATE runs SET {assignment}")  # noqa: S608 (the table above)

    assert await read(opened) == before


async def test_a_row_that_was_spoiled_all_the_same_is_corrupt_and_never_absent(
    opened: SQLiteDatabase, path: Path
) -> None:
    await apply(opened, acquire("x"), acquire("y"))
    with stranger(path) as connection:
        connection.execute("PRAGMA ignore_check_constraints=ON")
        connection.execute("UPDATE runs SET status = 'paused' WHERE run_id = 'x'")

    assert isinstance(await state_of(opened, "x"), Corrupt)
    assert isinstance(await state_of(opened, "y"), RunRecord)


async def test_a_deleted_run_leaves_its_token_and_nothing_else(
    opened: SQLiteDatabase, path: Path
) -> None:
    await apply(opened, acquire(labels={"k": "v"}))
    await apply(opened, acquire())
    await apply(opened, delete())

    assert await state_of(opened) == Tombstone("x", 2)
    assert await read(opened) is None
    assert (await opened.page(RunQuery(limit=10))).runs == ()
    assert labels(path) == []
    kept = rows(path, "SELECT * FROM runs")[0]
    assert [value for value in kept if value is not None][:4] == ["x", 0, 1, 2]


async def test_a_run_made_again_stands_above_its_tombstone(
    opened: SQLiteDatabase, path: Path
) -> None:
    await apply(opened, acquire())
    await apply(opened, delete())

    await apply(opened, acquire(labels={"again": "yes"}))

    record = await read(opened)
    assert record is not None
    assert (record.version, record.fencing_token) == (1, 2)
    assert labels(path) == [("x", "again=yes")]
    assert (await opened.page(RunQuery(limit=10))).runs == (record,)


async def test_label_rows_follow_the_record(opened: SQLiteDatabase, path: Path) -> None:
    await apply(opened, enqueue(labels={"a": "1", "b": "2"}), enqueue("y", labels={"a": "1"}))
    await apply(opened, acquire())  # a grant leaves them
    held = await read(opened)
    assert held is not None
    assert labels(path) == [("x", "a=1"), ("x", "b=2"), ("y", "a=1")]

    swapped = replace(held, version=3, labels={"b": "3", "c": "4"})
    await apply(opened, CompareAndSet(run_id="x", expected_version=2, record=swapped))
    assert labels(path) == [("x", "b=3"), ("x", "c=4"), ("y", "a=1")]
    assert await read(opened) == swapped

    await apply(opened, Cancel(run_id="x"))
    assert labels(path) == [("x", "b=3"), ("x", "c=4"), ("y", "a=1")]
    await apply(opened, delete())
    assert labels(path) == [("y", "a=1")]


async def test_created_and_deleted_in_one_batch_leaves_a_tombstone(
    opened: SQLiteDatabase, path: Path
) -> None:
    await apply(opened, acquire(labels={"k": "v"}), delete())

    assert await state_of(opened) == Tombstone("x", 1)
    assert labels(path) == []


async def test_deleted_and_made_again_in_one_batch_is_a_new_run(
    opened: SQLiteDatabase, path: Path
) -> None:
    await apply(opened, acquire(labels={"old": "1"}))

    await apply(opened, delete(), acquire(owner="b", labels={"new": "2"}))

    record = await read(opened)
    assert record is not None
    assert record.lease is not None
    assert (record.version, record.fencing_token, record.lease.owner) == (1, 2, "b")
    assert labels(path) == [("x", "new=2")]


async def test_a_tombstone_made_a_run_and_deleted_again_in_one_batch_keeps_the_last_token(
    opened: SQLiteDatabase, path: Path
) -> None:
    await apply(opened, acquire(), delete())

    await apply(opened, acquire(), delete(), acquire(labels={"k": "v"}), delete())

    assert await state_of(opened) == Tombstone("x", 3)
    assert labels(path) == []


async def test_many_changes_of_one_run_in_one_batch_are_one_row(
    opened: SQLiteDatabase, path: Path
) -> None:
    renewals = [Renew(run_id="x", owner="a", fencing_token=1) for _ in range(5)]

    await apply(opened, acquire(), *renewals)
    await apply(opened, *renewals)

    assert rows(path) == [("x", 11, 1)]


# The executor.


class Gate:
    """A database whose batches wait until the gate is opened."""

    def __init__(self, database: SQLiteDatabase) -> None:
        self.inner = database
        self.open_gate = asyncio.Event()
        self.batches: list[int] = []
        self._reached = asyncio.Event()

    def shut(self) -> None:
        self.open_gate.clear()
        self._reached.clear()

    async def is_reached(self) -> None:
        """Return when a batch stands before the gate, or has passed it."""
        async with asyncio.timeout(WAIT_S):
            await self._reached.wait()

    @property
    def lanes(self) -> int:
        return self.inner.lanes

    async def apply(self, run_ids: Sequence[str], judge: Judge, lane: int) -> Collection[str]:
        self.batches.append(len(run_ids))
        self._reached.set()
        await self.open_gate.wait()
        return await self.inner.apply(run_ids, judge, lane)

    async def open(self) -> None:
        await self.inner.open()

    async def get(self, run_id: str) -> tuple[RunRecord | None, datetime]:
        return await self.inner.get(run_id)

    async def page(self, query: RunQuery) -> Any:  # noqa: ANN401
        return await self.inner.page(query)

    async def ping(self) -> None:
        await self.inner.ping()

    async def close(self) -> None:
        await self.inner.close()


MakeExecutor = Callable[..., Executor]


@pytest.fixture
def gate(opened: SQLiteDatabase) -> Gate:
    return Gate(opened)


@pytest.fixture
async def make_executor(gate: Gate, quiet_log: None) -> AsyncIterator[MakeExecutor]:
    """Executors behind the gate; they are stopped with the gate open."""
    made: list[Executor] = []

    def make(**bounds: int) -> Executor:
        made.append(Executor(gate, **bounds))
        made[-1].start()
        return made[-1]

    yield make
    gate.open_gate.set()
    for executor in made:
        await executor.stop()


async def in_time(*tasks: asyncio.Task[Any]) -> list[Any]:
    async with asyncio.timeout(WAIT_S):
        return await asyncio.gather(*tasks, return_exceptions=True)


def executing(executor: Executor, *commands: AnyCommand) -> list[asyncio.Task[Answer]]:
    return [asyncio.ensure_future(executor.execute(command)) for command in commands]


async def test_a_batch_is_never_larger_than_its_bound(
    gate: Gate, make_executor: MakeExecutor, path: Path
) -> None:
    executor = make_executor(batch_commands_max=4)
    tasks = executing(executor, *(acquire(f"r{number:02}") for number in range(10)))
    await gate.is_reached()
    gate.open_gate.set()

    answers = await in_time(*tasks)

    assert all(isinstance(answer.decision, Write) for answer in answers)
    assert max(gate.batches) <= 4
    assert sum(gate.batches) == len(rows(path)) == 10


async def test_what_waits_shares_one_transaction_and_sees_what_came_before(
    gate: Gate, make_executor: MakeExecutor
) -> None:
    executor = make_executor()
    first = executing(executor, acquire("other"))
    await gate.is_reached()
    tasks = executing(executor, acquire(), acquire(owner="b"), delete(), acquire(owner="b"))
    await asyncio.sleep(0)
    gate.open_gate.set()

    await in_time(*first)
    granted, held, deleted, again = (answer.decision for answer in await in_time(*tasks))

    assert len(gate.batches) == 2
    assert granted.next.fencing_token == 1
    assert isinstance(held, Refused)
    assert held.code is Code.RUN_LEASE_HELD
    assert deleted.next == Tombstone("x", 1)
    assert (again.next.fencing_token, again.next.lease.owner) == (2, "b")


async def test_a_full_queue_refuses_at_once_and_does_nothing(
    gate: Gate, make_executor: MakeExecutor, path: Path
) -> None:
    executor = make_executor(queue_depth_max=3)
    flying = executing(executor, acquire("flying"))
    await gate.is_reached()
    queued = executing(executor, *(acquire(f"r{number}") for number in range(3)))
    await asyncio.sleep(0)

    with pytest.raises(OverloadedError, match="too many"):
        await executor.execute(acquire("refused"))
    with pytest.raises(OverloadedError, match="too many"):
        await executor.execute_all([acquire("refused")])
    gate.open_gate.set()
    await in_time(*flying, *queued)

    assert [row[0] for row in rows(path)] == ["flying", "r0", "r1", "r2"]
    assert isinstance((await executor.execute(acquire("later"))).decision, Write)


async def test_a_bulk_request_that_does_not_fit_is_refused_as_a_whole(
    gate: Gate, make_executor: MakeExecutor, path: Path
) -> None:
    executor = make_executor(queue_depth_max=3)
    gate.open_gate.set()

    with pytest.raises(OverloadedError):
        await executor.execute_all([acquire(f"r{number}") for number in range(4)])

    assert rows(path) == []
    answers = await executor.execute_all([acquire(f"r{number}") for number in range(3)])
    assert all(isinstance(answer, Answer) for answer in answers)


@pytest.mark.parametrize("operation", ["INSERT", "UPDATE"])
async def test_a_poisoned_command_costs_no_other(
    operation: str, gate: Gate, make_executor: MakeExecutor, path: Path
) -> None:
    executor = make_executor()
    if operation == "UPDATE":
        gate.open_gate.set()
        await in_time(*executing(executor, acquire("poisoned")))
        gate.shut()
    with stranger(path) as connection:
        connection.execute(
            f"CREATE TRIGGER poison BEFORE {operation} ON runs WHEN NEW.run_id = 'poisoned' "
            "BEGIN SELECT RAISE(ABORT, 'poison'); END"
        )
    first = executing(executor, acquire("first"))
    await gate.is_reached()
    names = ["a", "b", "poisoned", "c", "d"]
    tasks = executing(executor, *(acquire(name, labels={"n": name}) for name in names))
    await asyncio.sleep(0)
    gate.open_gate.set()

    await in_time(*first)
    answers = dict(zip(names, await in_time(*tasks), strict=True))

    assert isinstance(answers.pop("poisoned"), sqlite3.IntegrityError)
    assert all(isinstance(answer.decision, Write) for answer in answers.values())
    written = {run_id: version for run_id, version, _ in rows(path)}
    assert {name: written[name] for name in answers} == dict.fromkeys(answers, 1)
    assert written.get("poisoned", 0) == (1 if operation == "UPDATE" else 0)


async def test_a_single_command_does_not_wait_behind_a_large_request(
    gate: Gate, make_executor: MakeExecutor
) -> None:
    executor = make_executor(batch_commands_max=4)
    order: list[str] = []
    bulk = asyncio.ensure_future(
        executor.execute_all([acquire(f"bulk-{number:02}") for number in range(40)])
    )
    bulk.add_done_callback(lambda _: order.append("bulk"))
    await gate.is_reached()
    singles = executing(executor, acquire("single-1"), acquire("single-2"))
    for single in singles:
        single.add_done_callback(lambda _: order.append(f"single after {len(gate.batches)}"))
    await asyncio.sleep(0)
    gate.open_gate.set()

    await in_time(*singles, bulk)

    # The first batch was the large request's alone; the second is shared evenly.
    assert order[-1] == "bulk"
    assert {int(told.rpartition(" ")[2]) for told in order[:-1]} <= {2, 3}
    assert len(bulk.result()) == 40


async def test_single_commands_do_not_starve_a_large_request(
    gate: Gate, make_executor: MakeExecutor
) -> None:
    executor = make_executor(batch_commands_max=4)
    first = executing(executor, acquire("first"))
    await gate.is_reached()
    singles = executing(executor, *(acquire(f"single-{number:02}") for number in range(40)))
    await asyncio.sleep(0)
    bulk = asyncio.ensure_future(
        executor.execute_all([acquire(f"bulk-{number}") for number in range(4)])
    )
    left: list[int] = []
    bulk.add_done_callback(lambda _: left.append(sum(not single.done() for single in singles)))
    await asyncio.sleep(0)
    gate.open_gate.set()

    await in_time(*first, *singles, bulk)

    assert left[0] > 20


async def test_a_command_that_waits_too_long_is_answered_that_its_outcome_is_unknown(
    gate: Gate, make_executor: MakeExecutor, path: Path
) -> None:
    executor = make_executor(wait_ms_max=100)
    flying = executing(executor, acquire("flying"))
    await gate.is_reached()
    queued = executing(executor, acquire("queued"))

    told = await in_time(*flying, *queued)

    assert all(isinstance(one, DatabaseUnavailableError) for one in told)
    assert "unknown" in str(told[0])
    # What had not begun when its caller was told is dropped; what flew lands.
    gate.open_gate.set()
    await in_time(*executing(executor, acquire("later")))
    assert [row[0] for row in rows(path)] == ["flying", "later"]


async def test_a_caller_that_has_gone_costs_nothing(
    gate: Gate, make_executor: MakeExecutor, path: Path
) -> None:
    executor = make_executor()
    flying = executing(executor, acquire("flying"))
    await gate.is_reached()
    (gone,) = executing(executor, acquire("gone"))
    stays = executing(executor, acquire("stays"))
    await asyncio.sleep(0)
    gone.cancel()
    gate.open_gate.set()

    await in_time(*flying, *stays, gone)

    assert [row[0] for row in rows(path)] == ["flying", "stays"]


async def test_stopping_finishes_what_is_queued_and_takes_nothing_more(
    gate: Gate, make_executor: MakeExecutor, path: Path
) -> None:
    executor = make_executor(batch_commands_max=2)
    tasks = executing(executor, *(acquire(f"r{number}") for number in range(7)))
    await gate.is_reached()
    stopping = asyncio.ensure_future(executor.stop())
    await asyncio.sleep(0)

    with pytest.raises(OverloadedError, match="stopping"):
        await executor.execute(acquire("late"))
    assert not stopping.done()
    gate.open_gate.set()
    answers = await in_time(*tasks, stopping)

    assert all(isinstance(answer.decision, Write) for answer in answers[:-1])
    assert len(rows(path)) == 7
    await executor.stop()  # once more does no harm


async def test_a_retried_grant_is_found_in_the_same_batch(
    gate: Gate, make_executor: MakeExecutor
) -> None:
    executor = make_executor()
    first = executing(executor, acquire("other"))
    await gate.is_reached()
    tasks = executing(executor, *(acquire(idempotency_key="k") for _ in range(3)))
    await asyncio.sleep(0)
    gate.open_gate.set()

    await in_time(*first)
    granted, *retried = (answer.decision for answer in await in_time(*tasks))

    assert isinstance(granted, Write)
    assert isinstance(granted.next, RunRecord)
    assert retried == [Converged(granted.next)] * 2


async def test_a_blocked_database_is_503_in_time_and_serves_again(
    path: Path, quiet_log: None
) -> None:
    app = create_app(
        Settings(
            database_url=f"sqlite:///{path}", request_wait_ms_max=1000, database_wait_ms_max=10_000
        )
    )
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=app), base_url="http://test", timeout=WAIT_S
    ) as http:
        body = {"owner": "a"}
        assert (await http.post("/v1/runs/known/acquire", json=body)).status_code == 201
        with stranger(path) as connection:
            connection.execute("BEGIN IMMEDIATE")
            start = time.monotonic()
            refused = await http.post("/v1/runs/x/acquire", json=body)
            waited_s = time.monotonic() - start
            alive = await http.get("/healthz")
            known = await http.get("/v1/runs/known")
        again = await http.post("/v1/runs/y/acquire", json=body)
    await app.state.service.stop()

    assert refused.status_code == 503
    assert refused.json()["code"] == "UNAVAILABLE"
    assert int(refused.headers["Retry-After"]) >= 1
    assert waited_s < 8  # the request's bound, not the lock's
    assert (alive.status_code, known.status_code, again.status_code) == (200, 200, 201)
