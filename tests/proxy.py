"""A TCP proxy that misbehaves on demand: it forwards, refuses, hangs, cuts, delays.

It runs in a thread of its own, so that tests of either kind can use it, and so that it goes on
while the test waits.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, Self

from tests.postgres_server import free_port

Trouble = Callable[[bytes, bool], float | None]
"""Of what passes, and whether it is a request: by how many seconds to delay it, None to cut the
connection in its place."""

HOST: Final = "127.0.0.1"
ORDER_S_MAX: Final = 10.0


class Proxy:
    """Between clients and `target`, a port of this host. Each order holds until the next."""

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self.target = target
        self.delay_s = 0.0
        self.trouble: Trouble | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy")
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def forward(self, target: int | None = None) -> None:
        """Pass everything on, from now on to another target if one is given."""
        self.target = target or self.target
        self._do(self._forward())

    def refuse(self) -> None:
        """Cut every connection and refuse new ones."""
        self._do(self._refuse())

    def hang(self) -> None:
        """Accept, and pass nothing on; what was sent meanwhile arrives with the next `forward`."""
        self._do(self._hang())

    def cut(self) -> None:
        """Reset every connection, and go on."""
        self._do(self._cut())

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, order: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(order, self._loop).result(ORDER_S_MAX)

    async def _open(self) -> None:
        self._passing = asyncio.Event()
        await self._forward()

    async def _forward(self) -> None:
        self._passing.set()
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, HOST, self.port)

    async def _refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        await self._cut()

    async def _hang(self) -> None:
        await self._forward()
        self._passing.clear()

    async def _cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _close(self) -> None:
        await self._refuse()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a task serves each connection"
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            await self._passing.wait()
            there, back = await asyncio.open_connection(HOST, self.target)
            self._writers.add(back)
            try:
                async with asyncio.TaskGroup() as pumps:
                    pumps.create_task(self._pump(reader, back, is_request=True))
                    pumps.create_task(self._pump(there, writer, is_request=False))
            finally:
                back.transport.abort()
                self._writers.discard(back)
        except* (OSError, EOFError):
            pass
        finally:
            writer.transport.abort()
            self._writers.discard(writer)
            self._tasks.discard(task)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_request: bool
    ) -> None:
        while data := await reader.read(65_536):
            await self._passing.wait()
            if self.trouble is not None:
                delay_s = self.trouble(data, is_request)
                if delay_s is None:
                    raise EOFError
                await asyncio.sleep(delay_s)
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            writer.write(data)
            await writer.drain()
        raise EOFError
