"""What every request passes first: its id, its path, its body, and the last word on errors.

Here and nowhere else: the path is decoded once, strictly, so that `a%2Fb` and `a/b` are one run
and bytes that are no UTF-8 are nobody's; the body is read once, up to a bound in size and time, so
that no length that lies and no sender that dribbles holds memory or a connection; and whatever
goes wrong below leaves as a problem document.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote_to_bytes

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runlease_core.errors import Code
from runlease_service.api.problems import ProblemError, ServiceCode
from runlease_service.api.service import REQUEST_ID
from runlease_service.auth.access import PRINCIPAL, Access, ForbiddenError, UnauthenticatedError
from runlease_service.auth.principal import Principal
from runlease_service.settings import Settings

log = structlog.get_logger()

BODY: Final = "runlease.body"
"""Where the scope holds the request's body."""
HEADERS: Final = "runlease.headers"
"""Where the scope holds the request's headers by name."""
ARRIVED: Final = "runlease.arrived"
"""Where a server's protocol notes that the whole request is there."""

QUERY_NAME_SHOWN_MAX: Final = 80
CERTIFICATE: Final = "runlease.certificate"
"""Where a server's protocol notes the common name of the client's certificate."""

_REQUEST_ID_GIVEN: Final = re.compile(rb"[A-Za-z0-9._~:/+=@-]{1,128}")
_PROCESS: Final = os.urandom(8).hex()
_COUNT: Final = itertools.count()
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_ONCE: Final = {b"if-match": "If-Match", b"idempotency-key": "Idempotency-Key"}


Header = tuple[bytes, bytes]


class Front:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, settings: Settings, access: Access | None) -> None:
        self._app = app
        self._access = access
        self._body_bytes_max = settings.body_bytes_max
        self._url_bytes_max = settings.url_bytes_max
        self._body_wait_s_max = settings.body_wait_ms_max / 1000

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[HEADERS] = known = dict(scope["headers"])
        request_id = _request_id(known.get(b"x-request-id", b""))
        REQUEST_ID.set(request_id)
        id_header = (b"x-request-id", request_id.encode())
        head, started = scope["method"] == "HEAD", False

        async def sending(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message["headers"].append(id_header)
            elif head:
                message["body"] = b""
            await send(message)

        if head:
            scope = {**scope, "method": "GET"}  # the server keeps its own
        try:
            receive = await self._intake(scope, receive)
            await self._app(scope, receive, sending)
        except ProblemError as problem:
            await problem.response()(scope, receive, sending)
        except Exception:
            log.exception(
                "request_failed",
                request_id=request_id,
                method=scope["method"],
                path=scope["path"],
            )
            if started:
                raise
            failure = ProblemError(ServiceCode.INTERNAL_ERROR, "the service made an error")
            await failure.response()(scope, receive, sending)

    async def _intake(self, scope: Scope, receive: Receive) -> Receive:
        """Decode the path, read the body, and hand both on as the layers below expect them."""
        raw_path: bytes = scope.get("raw_path") or scope["path"].encode()
        if len(raw_path) + len(scope["query_string"]) > self._url_bytes_max:
            raise ProblemError(
                ServiceCode.URI_TOO_LONG, f"the URL is longer than {self._url_bytes_max} bytes"
            )
        if b"%" in raw_path:
            scope["path"] = _decoded(raw_path, "runId")
            if "\n" in scope["path"]:
                # A route's pattern ends before a last line feed: `x%0A` would be taken for `x`.
                raise _malformed("runId", "must hold no control character and no lone surrogate")
        if self._access is not None:
            PRINCIPAL.set(self._judged(self._access, scope))
        if b"%" in scope["query_string"]:
            _decoded(scope["query_string"], "query")
        if scope["query_string"] and _takes_no_query(scope):
            name = scope["query_string"].decode("latin-1").partition("&")[0].partition("=")[0]
            raise _malformed(name[:QUERY_NAME_SHOWN_MAX], "is not a known parameter here")
        body = await self._read(scope, receive)
        delivered = False

        async def replay() -> Message:
            nonlocal delivered
            if delivered:
                return await receive()
            delivered = True
            return {"type": "http.request", "body": body, "more_body": False}

        scope[BODY] = body
        return replay

    @staticmethod
    def _judged(access: Access, scope: Scope) -> Principal | None:
        """Who asks, before the body is read or anything is looked up."""
        credential = scope[HEADERS].get(b"authorization")
        try:
            return access.judge(scope["method"], scope["path"], credential, scope.get(CERTIFICATE))
        except UnauthenticatedError as error:
            challenge = {"WWW-Authenticate": "Bearer"}
            raise ProblemError(ServiceCode.UNAUTHENTICATED, str(error), headers=challenge) from None
        except ForbiddenError as error:
            raise ProblemError(ServiceCode.FORBIDDEN, str(error)) from None

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        known: dict[bytes, bytes] = scope[HEADERS]
        media_type = known.get(b"content-type", b"")
        if len(known) != len(scope["headers"]):
            media_type = _check_repeated(scope["headers"], media_type)
        length = known.get(b"content-length", b"")
        chunked = b"transfer-encoding" in known
        if not chunked and (not length or length == b"0"):
            return b""
        if length.isdigit() and int(length) > self._body_bytes_max:
            raise self._too_large()
        # A server that has the whole request already says so: then there is nothing to time.
        is_there = scope.get(ARRIVED, False)
        body = await (self._chunks(receive) if is_there else self._in_time(receive))
        if not chunked and length.isdigit() and len(body) != int(length):
            raise _broken_off()
        if body and scope["method"] in _WITH_BODY and not _is_json(media_type):
            raise ProblemError(
                ServiceCode.UNSUPPORTED_MEDIA_TYPE,
                "send the body as Content-Type: application/json",
            )
        return body

    async def _in_time(self, receive: Receive) -> bytes:
        # asyncio.timeout does the same at three times the cost, which here is every request's.
        task, late = asyncio.current_task(), False
        assert task is not None, "a request is answered in a task"

        def cut() -> None:
            nonlocal late
            late = True
            task.cancel()

        timer = asyncio.get_running_loop().call_later(self._body_wait_s_max, cut)
        try:
            return await self._chunks(receive)
        except asyncio.CancelledError:
            if not late or task.uncancel() > 0:
                raise
            raise ProblemError(
                ServiceCode.REQUEST_TIMEOUT,
                f"the body did not arrive within {self._body_wait_s_max:g} s",
                headers={"Connection": "close"},
            ) from None
        finally:
            timer.cancel()

    async def _chunks(self, receive: Receive) -> bytes:
        message = _unbroken(await receive())
        body: bytes = message.get("body", b"")
        if not message.get("more_body", False):
            return self._bounded(body)
        chunks, size = [body], len(body)
        while message.get("more_body", False):
            message = _unbroken(await receive())
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > self._body_bytes_max:
                raise self._too_large()
            chunks.append(chunk)
        return b"".join(chunks)

    def _bounded(self, body: bytes) -> bytes:
        if len(body) > self._body_bytes_max:
            raise self._too_large()
        return body

    def _too_large(self) -> ProblemError:
        # The rest is not read: the connection cannot be used again.
        return ProblemError(
            ServiceCode.PAYLOAD_TOO_LARGE,
            f"the body is larger than {self._body_bytes_max} bytes",
            headers={"Connection": "close"},
        )


def _takes_no_query(scope: Scope) -> bool:
    """Whether the path is one of ours that has no parameters. So a typo never passes silently; the
    list and DELETE know their own."""
    path: str = scope["path"]
    is_list = scope["method"] == "GET" and path == "/v1/runs"
    return path.startswith("/v1/") and scope["method"] != "DELETE" and not is_list


def _check_repeated(headers: Iterable[Header], media_type: bytes) -> bytes:
    """Refuse a condition that is sent twice: only one line would be seen, and none is ignored.

    Of several media types the framework sees the first; two that differ are no JSON."""
    once: set[bytes] = set()
    for name, value in headers:
        if name == b"content-type" and value != media_type:
            media_type = b"several"
        elif name in _ONCE:
            if name in once:
                raise _malformed(_ONCE[name], "must be sent once")
            once.add(name)
    return media_type


def _request_id(given: bytes) -> str:
    """The caller's `X-Request-Id` when it is fit for a log, else a new one."""
    if given and _REQUEST_ID_GIVEN.fullmatch(given):
        return given.decode("ascii")
    return f"{_PROCESS}{next(_COUNT):06x}"


def _unbroken(message: Message) -> Message:
    """Half a body is no body: a resume that lost the approvals it names must not be obeyed."""
    if message["type"] == "http.disconnect":
        raise _broken_off()
    return message


def _broken_off() -> ProblemError:
    return _malformed("body", "is not as long as it was said to be", status=400)


def _decoded(raw: bytes, field: str) -> str:
    try:
        return unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise _malformed(field, "must be UTF-8") from None


def _malformed(field: str, problem: str, status: int | None = None) -> ProblemError:
    return ProblemError(
        Code.RUN_VALIDATION_ERROR, f"{field}: {problem}", field=field, status=status
    )


def _is_json(media_type: bytes) -> bool:
    kind = media_type.partition(b";")[0].strip().lower()
    return kind == b"application/json" or (
        kind.startswith(b"application/") and kind.endswith(b"+json") and kind.count(b"/") == 1
    )
