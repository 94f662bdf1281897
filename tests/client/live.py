"""The service in this process, on a real port, with a clock that a test may move."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

import uvicorn

from runlease_service.app import create_app
from runlease_service.settings import Settings

STOP_S_MAX = 10.0


@contextmanager
def serving(database_url: str, clock: Callable[[], datetime] | None = None) -> Iterator[str]:
    """The URL of a service that accepts connections."""
    app = create_app(Settings(database_url=database_url), clock=clock)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(STOP_S_MAX)
