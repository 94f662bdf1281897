"""The application: wiring, nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from runlease_core.errors import RunStoreError
from runlease_service.api import health, leases, operations, runs
from runlease_service.api.answers import ALWAYS
from runlease_service.api.docs import install_docs
from runlease_service.api.front import Front
from runlease_service.api.hot import HotDoor
from runlease_service.api.openapi import DESCRIPTION, install_openapi
from runlease_service.api.problems import (
    ProblemError,
    ServiceCode,
    database_unusable,
    problem_from_error,
    problem_from_status,
    problem_from_validation,
)
from runlease_service.api.service import Service
from runlease_service.auth.access import Access
from runlease_service.auth.tokens import TokenFile
from runlease_service.database import connect
from runlease_service.database.base import DatabaseSetupError
from runlease_service.settings import Settings

# Verbs first: their last segment is theirs, and what is left of a path is the run's id.
ROUTERS: Final = (leases.router, operations.router, runs.router, health.router)


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Application(FastAPI):
    """FastAPI with the front before its own layers: what goes by the hot door passes none of
    them, and no error is left for them to answer."""

    _front: ASGIApp | None = None

    def put_in_front(self, front: ASGIApp) -> None:
        self._front = front

    async def routed(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The framework's own way to an endpoint."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                names = {name for name, _ in message["headers"]}
                message["headers"] += (header for header in ALWAYS if header[0] not in names)
            await send(message)

        await super().__call__(scope, receive, sending)

    def build_middleware_stack(self) -> ASGIApp:
        # Starlette's outermost layer answers a fault of ours in plain text; the front has the
        # last word instead.
        outermost = super().build_middleware_stack()
        return outermost.app if isinstance(outermost, ServerErrorMiddleware) else outermost

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self._front or self.routed)(scope, receive, send)


def create_app(
    settings: Settings | None = None,
    *,
    clock: Callable[[], datetime] | None = None,
    hot_door: bool = True,
) -> FastAPI:
    """The service as an ASGI application.

    Args:
        settings: Every setting; by default from the environment.
        clock: For tests: returns an aware UTC datetime and decides in place of the database's.
        hot_door: Whether the hot verbs go past the framework's router; both ways answer alike.
    """
    settings = settings or Settings()
    service = Service(
        settings,
        connect(
            settings.database_url,
            clock=clock,
            wait_ms_max=settings.database_wait_ms_max,
            read_connections_max=settings.read_connections_max,
            lanes=settings.database_lanes,
            pooled=settings.database_pooled,
            require_durable=settings.require_durable,
        ),
    )

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.start()
        yield
        await service.stop()

    app = Application(
        title="runlease",
        version=version("runlease"),
        summary="Who may advance this run now?",
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    access = None
    if settings.tokens_file:
        access = Access(TokenFile(Path(settings.tokens_file)), clock or _utc_now)
    app.put_in_front(
        Front(HotDoor(app.routed, service) if hot_door else app.routed, settings, access)
    )
    app.state.service = service
    for router in ROUTERS:
        app.include_router(router)
    install_docs(app)
    install_openapi(app)
    _install_problems(app)
    return app


def _install_problems(app: FastAPI) -> None:
    @app.exception_handler(RunStoreError)
    async def refused(_: Request, error: RunStoreError) -> Response:
        return problem_from_error(error).response()

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> Response:
        return problem_from_validation(error.errors()).response()

    @app.exception_handler(DatabaseSetupError)
    async def away(_: Request, _error: DatabaseSetupError) -> Response:
        return database_unusable().response()

    @app.exception_handler(HTTPException)
    async def known(request: Request, error: HTTPException) -> Response:
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            return _method_not_allowed(app, request).response()
        if not isinstance(error, ProblemError):
            error = problem_from_status(error)
        return error.response()


def _method_not_allowed(app: FastAPI, request: Request) -> ProblemError:
    """A path is several routes here, one a method; all of them are named, not the first alone."""
    routes = [*app.routes, *(route for router in ROUTERS for route in router.routes)]
    allowed = {
        method
        for route in routes
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE
        for method in route.methods or ()
    } or {"GET"}
    if "GET" in allowed:
        allowed.add("HEAD")
    names = ", ".join(sorted(allowed))
    detail = f"this path takes {names}"
    if request.method == "POST":
        detail += "; the last segment of a POST path is a verb, as in /v1/runs/my-run/acquire"
    return ProblemError(ServiceCode.METHOD_NOT_ALLOWED, detail, headers={"Allow": names})
