"""What happens to replicas on one PostgreSQL: a script of faults in random order.

One fault at a time, except that connections are also cut while a replica is stopped, so that the
others never fall still for long and every kind is met by load. Where libfaketime is installed, one
replica lives under it, and its wall clock is stepped.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final

from tests.chaos.history import Cut
from tests.chaos.load import Load
from tests.chaos.server import ServedProcess, get, wait_until
from tests.postgres_server import run_sql

FAKETIME: Final = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
STEP_S: Final = 600
STEP_SHOWS_S_MAX: Final = 10.0
"""How long a step may take to show in the replica's answers."""
STEP_MARGIN_S: Final = 30
ANSWERS_BETWEEN: Final = (50, 400)
"""How many requests are carried out between two faults."""
PAUSE_S: Final = (0.8, 2.0)
"""How long a replica is stopped: longer than any lease of the load."""
DOWN_S: Final = (0.0, 0.7)
"""How long a killed replica stays away."""


class SteppedClock:
    """The wall clock of the processes that live in this environment."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "faketime"
        self.offset_s = 0
        self.environment = {
            "LD_PRELOAD": str(FAKETIME),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "DONT_FAKE_MONOTONIC": "1",
        }
        self._write()

    def step(self, by_s: int) -> None:
        self.offset_s += by_s
        self._write()

    def _write(self) -> None:
        # Replaced in one go: it is read at every look at the clock.
        new = self._file.with_suffix(".new")
        new.write_text(f"{self.offset_s:+d}s\n")
        new.replace(self._file)

    def shows_in(self, served: ServedProcess) -> bool:
        """Whether the replica dates its answers by this clock."""
        _, headers, _ = get(served.port, "/healthz")
        shown = parsedate_to_datetime(headers["date"]).timestamp()
        return abs(shown - time.time() - self.offset_s) < STEP_MARGIN_S


class Faults:
    """The script, and what came of it.

    Args:
        replicas: Those that are killed and stopped.
        server: The URL of the server's own database, from which connections are cut.
        database: The name of the replicas' database.
        clock: The clock of the first replica, where it can be stepped.
    """

    def __init__(
        self,
        replicas: Sequence[ServedProcess],
        server: str,
        database: str,
        clock: SteppedClock | None,
        seed: int,
    ) -> None:
        self._replicas = replicas
        self._server = server
        self._database = database
        self._clock = clock
        self._random = random.Random(seed)
        self._kinds: dict[str, Callable[[Load], None]] = {
            "kill": self._kill,
            "cut": lambda _: self._cut(),
            "pause": self._pause,
        }
        if clock is not None:
            self._kinds["step"] = self._step
        self.done: Counter[str] = Counter()
        self.cuts: list[Cut] = []
        self.connections_cut = 0

    @property
    def kinds(self) -> Sequence[str]:
        return list(self._kinds)

    def happen(self, running: Load, seconds: float) -> None:
        """Every kind in random order, again and again, until the time is over."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for kind in self._random.sample(self.kinds, len(self._kinds)):
                running.wait_for_more(self._random.randint(*ANSWERS_BETWEEN))
                self._kinds[kind](running)
                self.done[kind] += 1

    def _kill(self, running: Load) -> None:
        served = self._random.choice(self._replicas)
        served.kill()
        running.run_for(self._random.uniform(*DOWN_S))
        served.start()

    def _cut(self) -> None:
        start = time.monotonic()
        ((cut,),) = run_sql(
            self._server,
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"  # noqa: S608 (our name)
            f" WHERE datname = '{self._database}' AND pid <> pg_backend_pid()",
        )
        self.cuts.append(Cut(start, time.monotonic()))
        self.connections_cut += cut

    def _pause(self, running: Load) -> None:
        seconds = self._random.uniform(*PAUSE_S)
        with self._random.choice(self._replicas).paused():
            running.run_for(seconds / 2)
            if self._random.random() < 0.5:
                self._cut()
            running.run_for(seconds / 2)

    def _step(self, _: Load) -> None:
        clock, served = self._clock, self._replicas[0]
        assert clock is not None
        clock.step(-STEP_S if clock.offset_s > 0 else STEP_S)
        wait_until(lambda: clock.shows_in(served), "the step shows", s_max=STEP_SHOWS_S_MAX)
