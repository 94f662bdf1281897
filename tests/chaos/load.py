"""Load: processes of threads, each thread one worker (or operator) on a connection of its own.

Plain sockets, since the clients share the machine with the service that they are to keep busy.
The threads draw from a seeded random source, yet what they meet depends on the machine: a history
cannot be repeated, only judged.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import random
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Final

from tests.chaos.history import NOT_SENT, UNANSWERED, UNAVAILABLE, Call, History
from tests.chaos.server import HOST, wait_until

ANSWER_S_MAX: Final = 60.0
REDIAL_S: Final = 0.02
COLLECT_S_MAX: Final = 90.0
START_S_MAX: Final = 60.0
DELETED_PREFIX: Final = "deleted/"
"""Runs under it are also deleted and made again."""


@dataclass(frozen=True)
class Plan:
    """What one load process does. Its threads are spread over the ports; those that roam send each
    request to the next port, and an acquire whose answer was lost once more."""

    ports: tuple[int, ...]
    threads: int
    seed: int
    slots: int = 20
    ttl_ms: tuple[int, int] = (200, 500)
    operators_every: int = 10
    deletes: bool = False
    roams: bool = False
    answer_s_max: float = ANSWER_S_MAX


class _Client:
    """HTTP/1.1 on one kept connection."""

    def __init__(self, port: int, answer_s_max: float) -> None:
        self._port = port
        self._answer_s_max = answer_s_max
        self._socket: socket.socket | None = None

    def call(self, method: str, path: str, body: object, key: str) -> tuple[int, bool, bytes]:
        """Status, whether it has Retry-After, body; or NOT_SENT, or UNANSWERED."""
        if self._socket is None:
            try:
                self._socket = socket.create_connection((HOST, self._port), self._answer_s_max)
            except OSError:
                return NOT_SENT, False, b""
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: {HOST}:{self._port}\r\n"
        if content:
            head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        if key:
            head += f'Idempotency-Key: "{key}"\r\n'
        try:
            self._socket.sendall(head.encode() + b"\r\n" + content)
            return self._read()
        except OSError:
            self.close()
            return UNANSWERED, False, b""

    def _read(self) -> tuple[int, bool, bytes]:
        assert self._socket is not None
        received = b""
        while b"\r\n\r\n" not in received:
            received += self._more()
        head, _, body = received.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        fields = dict(line.split(b": ", 1) for line in lines[1:])
        length = int(fields.get(b"content-length", 0))
        while len(body) < length:
            body += self._more()
        if fields.get(b"connection") == b"close":
            self.close()
        return int(lines[0].split(b" ")[1]), b"retry-after" in fields, body

    def _more(self) -> bytes:
        assert self._socket is not None
        data = self._socket.recv(65_536)
        if not data:
            raise ConnectionResetError
        return data

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class _Actor:
    """What workers and operators share: the clients, the history, and which run is current.

    A finished run stays finished, so a slot then goes on to its next run; each thread finds out
    by itself."""

    def __init__(self, plan: Plan, number: int, counted: Any) -> None:  # noqa: ANN401 (a shared int)
        self.plan = plan
        self.random = random.Random(plan.seed * 1000 + number)
        self.owner = f"w{plan.seed}-{number}"
        self.clients = [_Client(port, plan.answer_s_max) for port in plan.ports]
        self.turn = number
        self.history: History = []
        self.counted = counted
        self.generation = [0] * plan.slots

    def run_id(self) -> str:
        slot = self.random.randrange(self.plan.slots)
        if self.plan.deletes and slot % 4 == 0:
            return f"{DELETED_PREFIX}{slot}"
        return f"run/{slot}/{self.generation[slot]}"

    def call(
        self,
        run_id: str,
        verb: str,
        body: dict[str, Any] | None = None,
        *,
        owner: str = "",
        key: str = "",
        since: float | None = None,
    ) -> dict[str, Any]:
        method, path = "POST", f"/v1/runs/{run_id}/{verb}"
        if verb in ("get", "delete"):
            method, path = verb.upper(), f"/v1/runs/{run_id}"
            path += "?force=true" if verb == "delete" else ""
        sent = body or {}
        self.turn += self.plan.roams
        client = self.clients[self.turn % len(self.clients)]
        start = time.monotonic()
        # A lease counts from when it was asked for first.
        asked_s_ago = 0.0 if since is None else start - since
        ttl_ms = max(sent.get("leaseTtlMs", 0) - math.ceil(asked_s_ago * 1000), 0)
        status, retry_after, answer = client.call(method, path, body, key)
        end = time.monotonic()
        self.history.append(
            Call(
                run_id,
                verb,
                owner,
                sent.get("fencingToken"),
                ttl_ms,
                start,
                end,
                status,
                retry_after,
                answer,
                again=since is not None,
            )
        )
        if status in (NOT_SENT, UNANSWERED):
            time.sleep(REDIAL_S)  # the service is down; it is load that waits, not an assertion
            return {}
        if status < 300:
            self.counted.value += 1
        told: dict[str, Any] = json.loads(answer) if answer else {}
        if told.get("code") == "RUN_ALREADY_TERMINAL" or told.get("status") in (
            "completed",
            "failed",
            "cancelled",
        ):
            self._go_on(run_id)
        return told if status < 300 else {}

    def _go_on(self, run_id: str) -> None:
        if not run_id.startswith(DELETED_PREFIX):
            _, slot, generation = run_id.split("/")
            self.generation[int(slot)] = max(self.generation[int(slot)], int(generation) + 1)

    def step(self) -> None:
        raise NotImplementedError


class _Worker(_Actor):
    """Takes a lease, works under it, ends it or lets it run out, and comes back with old tokens."""

    def __init__(self, plan: Plan, number: int, counted: Any) -> None:  # noqa: ANN401
        super().__init__(plan, number, counted)
        self.held: tuple[str, int] | None = None
        self.old: deque[tuple[str, int]] = deque(maxlen=6)
        self.saved = 0

    def step(self) -> None:
        if self.old and self.random.random() < 0.1:
            self._under(*self.random.choice(self.old))
        elif self.held is None:
            self._acquire()
        else:
            run_id, token = self.held
            if self.random.random() < 0.12:
                self._let_go()  # as one that stopped: the lease runs out
            elif not self._under(run_id, token):
                self._let_go()

    def _let_go(self) -> None:
        if self.held is not None:
            self.old.append(self.held)
        self.held = None

    def _acquire(self) -> None:
        run_id = self.run_id()
        labels = {"slot": run_id.rsplit("/", 1)[0], "by": self.owner}
        body = {"owner": self.owner, "leaseTtlMs": self._ttl_ms(), "labels": labels}
        key, since = "", time.monotonic()
        if self.plan.roams:
            key = f"{self.owner}/{len(self.history)}"
        record = self.call(run_id, "acquire", body, owner=self.owner, key=key)
        if self.plan.roams and self.history[-1].status in (UNANSWERED, UNAVAILABLE):
            record = self.call(run_id, "acquire", body, owner=self.owner, key=key, since=since)
        if record:
            self.held = run_id, record["fencingToken"]

    def _under(self, run_id: str, token: int) -> bool:
        """Work under a token, perhaps an old one; whether the lease still stands."""
        fence: dict[str, Any] = {"owner": self.owner, "fencingToken": token}
        what = self.random.random()
        if what < 0.5:
            body = fence | {"leaseTtlMs": self._ttl_ms()}
            return bool(self.call(run_id, "renew", body, owner=self.owner))
        if what < 0.8:
            self.saved += 1
            ref = {
                "key": f"{run_id}/{self.saved}",
                "snapshotVersion": self.saved,
                "savedAt": "2026-09-01T00:00:00.000Z",
            }
            body = fence | {"leaseTtlMs": self._ttl_ms(), "checkpointRef": ref}
            return bool(self.call(run_id, "fence-checkpoint", body, owner=self.owner))
        to = self.random.choices(
            ("queued", "suspended", "completed", "failed"), weights=(70, 20, 5, 5)
        )[0]
        more: dict[str, Any] = {"pendingApprovalIds": ["apr_1"]} if to == "suspended" else {}
        if to in ("completed", "failed"):
            more = {"outcome": {"code": "ok", "message": f"by {self.owner}"}}
        self.call(run_id, "transition", fence | {"to": to} | more, owner=self.owner)
        return False

    def _ttl_ms(self) -> int:
        return self.random.randint(*self.plan.ttl_ms)


class _Operator(_Actor):
    """Looks, resumes, revokes, and now and then cancels or deletes."""

    def step(self) -> None:
        run_id = self.run_id()
        verb = self.random.choices(("get", "resume", "revoke", "cancel"), weights=(30, 40, 27, 3))[
            0
        ]
        if run_id.startswith(DELETED_PREFIX):
            verb = self.random.choice(("delete", "revoke"))
        self.call(run_id, verb, None if verb in ("get", "delete") else {"message": self.owner})


def _process(plan: Plan, stopping: Any, counted: Any, results: Connection) -> None:  # noqa: ANN401
    actors: list[_Actor] = [
        _Operator(plan, number, counted)
        if number % plan.operators_every == plan.operators_every - 1
        else _Worker(plan, number, counted)
        for number in range(plan.threads)
    ]

    def act(actor: _Actor) -> None:
        while not stopping.is_set():
            actor.step()
        for client in actor.clients:
            client.close()

    threads = [threading.Thread(target=act, args=(actor,)) for actor in actors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.send([call for actor in actors for call in actor.history])
    results.close()


class Load:
    """Running load processes."""

    def __init__(self, plans: Sequence[Plan]) -> None:
        context = multiprocessing.get_context("spawn")
        self._stopping = context.Event()
        self._counted = [context.RawValue("Q", 0) for _ in plans]
        self._results: list[Connection] = []
        self._processes: list[BaseProcess] = []
        for plan, counted in zip(plans, self._counted, strict=True):
            receiving, sending = context.Pipe(duplex=False)
            process = context.Process(
                target=_process, args=(plan, self._stopping, counted, sending), daemon=True
            )
            process.start()
            sending.close()
            self._results.append(receiving)
            self._processes.append(process)

    @property
    def answered(self) -> int:
        """About how many requests were carried out so far (threads may miscount)."""
        return sum(counted.value for counted in self._counted)

    def wait_for_more(self, answers: int, *, s_max: float = START_S_MAX) -> None:
        """Return when so many more requests were carried out."""
        target = self.answered + answers
        wait_until(lambda: self.answered >= target, f"{answers} answers", s_max=s_max)

    def run_for(self, seconds: float) -> None:
        """Return when the load has run for so long, beginning with its first answer."""
        self.wait_for_more(1)
        end = time.monotonic() + seconds
        wait_until(lambda: time.monotonic() >= end, "the load", s_max=seconds + 1)

    def stop(self) -> History:
        """What all threads saw."""
        self._stopping.set()
        history: History = []
        for results in self._results:
            assert results.poll(COLLECT_S_MAX), "a load process did not end"
            history += results.recv()
        return history

    def close(self) -> None:
        self._stopping.set()
        for process in self._processes:
            process.join(COLLECT_S_MAX)
            if process.is_alive():
                process.kill()
                process.join()
            process.close()
        for results in self._results:
            results.close()


@contextmanager
def load(plan: Plan, processes: int) -> Iterator[Load]:
    """The plan's threads in so many processes, each with a seed of its own."""
    seed = random.randrange(1_000_000)
    print(f"load seed {seed}")
    with loads([replace(plan, seed=seed + number) for number in range(processes)]) as running:
        yield running


@contextmanager
def loads(plans: Sequence[Plan]) -> Iterator[Load]:
    """One process for each plan."""
    running = Load(plans)
    try:
        yield running
    finally:
        running.close()
