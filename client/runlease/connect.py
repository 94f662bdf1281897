"""From a URL to a ledger.

`http://` and `https://` lead to the service; `memory:` and `sqlite:` run the same ledger in this
process, so that a notebook needs no server. What is not part of the client is reached by name, in
one table, when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from importlib import import_module
from typing import Any, Final

from runlease.remote import AsyncRemoteExecutor, RemoteExecutor
from runlease.transport import Certificate, Connection, Token, Verify
from runlease_core.async_ledger import AsyncRunLedger
from runlease_core.errors import RunValidationError
from runlease_core.execution import CommandExecutor
from runlease_core.fields import LEASE_TTL_MS_DEFAULT
from runlease_core.handle import AsyncRunLeaseHandle, RunLeaseHandle
from runlease_core.ledger import RunLedger
from runlease_core.store import MemoryRunStore

OPTIONAL: Final = {
    "sqlite": ("runlease_service.embedded:open_store", "sql"),
    "postgresql": ("runlease_service.embedded:open_store", "postgres"),
}
"""URL scheme to what opens it, and the extra that brings it."""

_MEMORIES: Final[dict[str, MemoryRunStore]] = {}


class ConnectedLedger(RunLedger):
    """A `RunLedger` that closes what it was connected with."""

    _target: Any = None

    def _close(self, error: BaseException | None) -> None:
        try:
            super()._close(error)
        finally:
            if self._target is not None:
                self._target.close()


class AsyncConnectedLedger(AsyncRunLedger):
    """An `AsyncRunLedger` that closes what it was connected with."""

    _targets: tuple[Any, ...] = ()

    async def _close(self, error: BaseException | None) -> None:
        try:
            await super()._close(error)
        finally:
            for target in self._targets:
                closed = target.close()
                if closed is not None:
                    await closed


def connect(
    url: str,
    *,
    token: Token | None = None,
    owner: str | None = None,
    lease_ttl_ms: int = LEASE_TTL_MS_DEFAULT,
    heartbeat: bool = True,
    on_lost: Callable[[RunLeaseHandle], object] | None = None,
    verify: Verify = True,
    cert: Certificate | None = None,
    now: Callable[[], datetime] | None = None,
) -> RunLedger:
    """A ledger over what the URL names; close it, or use it in a `with` block.

    Args:
        url: `http(s)://host:port` is the service; `memory://` and `sqlite:///file.db` run in this
            process (`sqlite:` needs `runlease[sql]`).
        token: A bearer token, or a callable that returns one and is asked for every request.
        owner: The worker's identity; by default host, process and a random part.
        lease_ttl_ms: How long a lease lasts without renewal, in milliseconds.
        heartbeat: Whether leases are renewed in the background.
        on_lost: Called with the handle when its lease is lost, in the thread that notices it.
        verify: As httpx takes it: False, a file with certificates, or an SSL context.
        cert: The client's certificate file, or certificate and key.
        now: A clock, for tests of in-process stores.

    Raises:
        RunValidationError: RUN_VALIDATION_ERROR, the URL or a setting cannot be used.
    """
    options: dict[str, Any] = {
        "owner": owner,
        "lease_ttl_ms": lease_ttl_ms,
        "heartbeat": heartbeat,
        "on_lost": on_lost,
        "now": now,
    }
    if _is_http(url):
        remote = RemoteExecutor(Connection(url=url, token=token, verify=verify, cert=cert))
        ledger = ConnectedLedger(remote, **options)
        ledger._target = remote  # noqa: SLF001 (our own class)
        return ledger
    target = _in_process(url, now)
    ledger = ConnectedLedger(target, **options)
    ledger._target = None if isinstance(target, MemoryRunStore) else target  # noqa: SLF001
    return ledger


def aconnect(
    url: str,
    *,
    token: Token | None = None,
    owner: str | None = None,
    lease_ttl_ms: int = LEASE_TTL_MS_DEFAULT,
    heartbeat: bool = True,
    on_lost: Callable[[AsyncRunLeaseHandle], object] | None = None,
    verify: Verify = True,
    cert: Certificate | None = None,
    now: Callable[[], datetime] | None = None,
) -> AsyncRunLedger:
    """`connect` for asyncio; nothing is sent yet, so there is nothing to await."""
    options: dict[str, Any] = {
        "owner": owner,
        "lease_ttl_ms": lease_ttl_ms,
        "heartbeat": heartbeat,
        "on_lost": on_lost,
        "now": now,
    }
    if _is_http(url):
        connection = Connection(url=url, token=token, verify=verify, cert=cert)
        remote, renewer = AsyncRemoteExecutor(connection), RemoteExecutor(connection)
        ledger = AsyncConnectedLedger(remote, renewer=renewer, **options)
        ledger._targets = (remote, renewer)  # noqa: SLF001 (our own class)
        return ledger
    target = _in_process(url, now)
    if isinstance(target, MemoryRunStore):
        return AsyncConnectedLedger(target, **options)
    ledger = AsyncConnectedLedger(target.in_threads(), renewer=target, **options)
    ledger._targets = (target,)  # noqa: SLF001
    return ledger


def _is_http(url: str) -> bool:
    return url.startswith(("http://", "https://"))


def _in_process(url: str, now: Callable[[], datetime] | None) -> Any:  # noqa: ANN401 (a store or an executor)
    scheme, separator, _ = url.partition(":")
    if separator and scheme == "memory":
        return _MEMORIES.setdefault(url, MemoryRunStore())
    if not separator or scheme not in OPTIONAL:
        raise RunValidationError(
            "url: must begin with http://, https://, memory://, sqlite:/// or postgresql://",
            field="url",
        )
    path, extra = OPTIONAL[scheme]
    module, name = path.split(":")
    try:
        opened: CommandExecutor = getattr(import_module(module), name)(url, clock=now)
    except ModuleNotFoundError as error:
        raise RunValidationError(
            f"url: {scheme}: needs {error.name}: pip install 'runlease[{extra}]'", field="url"
        ) from error
    return opened
