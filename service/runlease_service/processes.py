"""The processes that serve: one, or several on one socket, and how they start and end.

A worker process reads its settings from the environment, to which the command handed them down. A
signal ends a server with exit code 0, also as a container's first process; workers end themselves
when their supervisor was killed.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Final

import structlog
import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from runlease_service.database.base import DatabaseSetupError
from runlease_service.logs import configure_logging
from runlease_service.protocol import BoundedProtocol
from runlease_service.settings import Settings, load_settings

ENDING_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_GARBAGE_THRESHOLDS: Final = (50_000, 20, 20)

log = structlog.get_logger()


def serve_on(listening: socket.socket, settings: Settings, announce: Callable[[], None]) -> bool:
    """Serve until a signal ends it; False when the service could not start, which was logged.

    `announce` is called once every process accepts.
    """
    config = uvicorn.Config(
        "runlease_service.processes:serving_app",
        factory=True,
        interface="asgi3",
        workers=settings.workers,
        loop="auto",  # uvloop where it is installed
        http=BoundedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # nothing here depends on who forwarded a request
        server_header=False,
        date_header=True,
        backlog=settings.backlog,
        timeout_keep_alive=settings.keep_alive_s,
        ssl_certfile=settings.tls_certificate or None,
        ssl_keyfile=settings.tls_key or None,
        ssl_ca_certs=settings.tls_client_ca or None,
        # Whoever has no certificate may still have a token.
        ssl_cert_reqs=ssl.CERT_OPTIONAL if settings.tls_client_ca else ssl.CERT_NONE,
        timeout_graceful_shutdown=settings.shutdown_wait_s,
    )

    with listening:
        if settings.workers > 1:
            supervisor = _Supervisor(config, listening, announce)
            supervisor.run()
            return not supervisor.failed
        server = _Server(config, announce)
        try:
            server.run(sockets=[listening])
        except SystemExit as end:
            # uvicorn leaves this way when the application did not start, which was logged.
            if end.code != STARTUP_FAILURE:
                raise
            return False
        return True


class _Server(uvicorn.Server):
    """A server in this process that says when it accepts, and that a signal ends with code 0."""

    def __init__(self, config: uvicorn.Config, announce: Callable[[], None]) -> None:
        super().__init__(config)
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._announce()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        # uvicorn's own raises the signal anew at the end, and the exit code would be the signal's.
        for one in ENDING_SIGNALS:
            signal.signal(one, self.handle_exit)
        yield


class _Supervisor(Multiprocess):
    """Worker processes on one socket; says when all of them accept."""

    def __init__(
        self, config: uvicorn.Config, listening: socket.socket, announce: Callable[[], None]
    ) -> None:
        super().__init__(config, [listening])
        self._announce = announce
        self._announced = False

    def keep_subprocess_alive(self) -> None:
        super().keep_subprocess_alive()
        if self._announced or self.should_exit.is_set():
            return
        if all(process.is_ready(timeout=1) for process in self.processes):
            self._announced = True
            self._announce()

    def terminate_all(self) -> None:
        # No worker accepts any more: who connects now is to be refused, not left waiting.
        for listening in self.sockets:
            listening.close()
        super().terminate_all()

    @property
    def failed(self) -> bool:
        """A worker could not start, which ended them all."""
        return any(process.exitcode == STARTUP_FAILURE for process in self.processes)


def serving_app() -> ASGIApp:
    """The application as a served process runs it, with the settings of its environment."""
    # Imported here: the supervisor and `--version` have no use for the whole service.
    from runlease_service.app import create_app  # noqa: PLC0415

    settings = load_settings()
    configure_logging(settings)
    BoundedProtocol.head_wait_s_max = settings.body_wait_ms_max / 1000
    BoundedProtocol.connections_max = settings.connections_max
    _end_with_the_supervisor()
    return _Served(create_app(settings))


class _Served:
    """The application, with what a process needs around its start. Requests pass untouched."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] == "lifespan":
            return self._lifespan(scope, receive, send)
        return self._app(scope, receive, send)

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_without_traceback(message: Message) -> None:
            if message["type"] == "lifespan.startup.complete":
                _settle_garbage_collector()
            # Starlette puts a traceback into its message; what failed is logged below, once.
            await send({"type": message["type"]})

        try:
            await self._app(scope, receive, send_without_traceback)
        except DatabaseSetupError as error:
            log.error(str(error))  # noqa: TRY400 - the operator can mend this without a traceback
            raise
        except Exception:
            log.exception("the service failed while it started or stopped")
            raise


def _settle_garbage_collector() -> None:
    # For the operator: what was made during the start lives as long as the process, so it is
    # taken out of the collector's sight (freeze), and shared pages stay shared. A request leaves
    # few cycles behind; with Python's usual thresholds the collector would search through all
    # live objects in the middle of requests, to be seen in the slowest of them. The price is
    # some memory that is given back later.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GARBAGE_THRESHOLDS)


def _end_with_the_supervisor() -> None:
    # A worker whose supervisor was killed would keep the port and the database for ever.
    supervisor = multiprocessing.parent_process()
    if supervisor is None:
        return

    def wait() -> None:
        supervisor.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="runlease-supervisor", daemon=True).start()
