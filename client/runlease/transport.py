"""HTTP: the connections, the credential, and the two shells that carry an exchange out.

A forked child never uses its parent's connections: it opens its own.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import httpx

from runlease.exchange import Answered, Exchange, Send, Sleep

CONNECTIONS_MAX: Final = 100
KEEP_ALIVE_SECONDS: Final = 30.0
"""Shorter than the service's and common proxies' idle limits, so that a connection is rarely
closed under a request."""

Token: TypeAlias = str | Callable[[], str]
Verify: TypeAlias = bool | ssl.SSLContext | str
Certificate: TypeAlias = str | tuple[str, str]


class _Bearer(httpx.Auth):
    """The token in every request; a callable is asked each time, so that it may renew it."""

    def __init__(self, token: Token) -> None:
        self._token = token

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        token = self._token() if callable(self._token) else self._token
        request.headers["Authorization"] = f"Bearer {token}"
        yield request


@dataclass(frozen=True, kw_only=True)
class Connection:
    """How the service is reached.

    Args:
        url: Its address, as in `https://runlease.example`.
        token: A bearer token, or a callable that returns one and is asked for every request.
        verify: As httpx takes it: False, a file with certificates, or an SSL context.
        cert: The client's certificate file, or certificate and key.
        transport: In place of the network, for tests.
    """

    url: str
    token: Token | None = field(default=None, repr=False)
    verify: Verify = True
    cert: Certificate | None = None
    transport: Any = None

    def settings(self) -> dict[str, Any]:
        """What both kinds of httpx client are made with."""
        # Certificates take long to load, and are of no use without TLS.
        verify: Any = self.verify if self.url.startswith("https:") else False
        if isinstance(verify, str):
            verify = ssl.create_default_context(cafile=verify)
        if self.cert is not None:
            verify = ssl.create_default_context() if verify is True else verify
            files = (self.cert,) if isinstance(self.cert, str) else self.cert
            verify.load_cert_chain(*files)
        return {
            "base_url": self.url,
            "auth": None if self.token is None else _Bearer(self.token),
            "verify": verify,
            "transport": self.transport,
            "follow_redirects": False,
            "limits": httpx.Limits(
                max_connections=CONNECTIONS_MAX, keepalive_expiry=KEEP_ALIVE_SECONDS
            ),
        }


class Transport:
    """Requests over connections of this process's own; thread-safe."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._client = httpx.Client(**connection.settings())
        self._process = os.getpid()

    def run(self, steps: Exchange) -> Answered:
        """Carry an exchange out."""
        try:
            step = next(steps)
            while True:
                step = steps.send(self._do(step))
        except StopIteration as done:
            answered: Answered = done.value
            return answered

    def close(self) -> None:
        if os.getpid() == self._process:
            self._client.close()

    def _do(self, step: Send | Sleep) -> httpx.Response | httpx.TransportError | None:
        if isinstance(step, Sleep):
            time.sleep(step.seconds)
            return None
        if os.getpid() != self._process:
            self._client = httpx.Client(**self._connection.settings())
            self._process = os.getpid()
        try:
            return self._client.request(**_arguments(step.request), timeout=step.timeout_seconds)
        except httpx.TransportError as error:
            return error


class AsyncTransport:
    """`Transport` for asyncio."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._client = httpx.AsyncClient(**connection.settings())
        self._process = os.getpid()

    async def run(self, steps: Exchange) -> Answered:
        """As `Transport.run`."""
        try:
            step = next(steps)
            while True:
                step = steps.send(await self._do(step))
        except StopIteration as done:
            answered: Answered = done.value
            return answered

    async def close(self) -> None:
        if os.getpid() == self._process:
            await self._client.aclose()

    async def _do(self, step: Send | Sleep) -> httpx.Response | httpx.TransportError | None:
        if isinstance(step, Sleep):
            await asyncio.sleep(step.seconds)
            return None
        if os.getpid() != self._process:
            self._client = httpx.AsyncClient(**self._connection.settings())
            self._process = os.getpid()
        try:
            return await self._client.request(
                **_arguments(step.request), timeout=step.timeout_seconds
            )
        except httpx.TransportError as error:
            return error


def _arguments(request: Mapping[str, Any]) -> dict[str, Any]:
    return dict(request)
