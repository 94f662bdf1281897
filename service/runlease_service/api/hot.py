"""The hot door: the verbs that workers send all day, without the framework's way to them.

FastAPI declares every route, its models and the OpenAPI document, and serves all of them. For five
paths this layer comes before its router: the same functions, called with the same models read from
the same bytes, the same conditional headers and the same problems, at a fraction of the cost. A
test sends every request through both doors and compares the bytes of the answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from pydantic import ValidationError
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from runlease_core.errors import RunStoreError
from runlease_service.api import leases
from runlease_service.api.bodies import (
    AcquireBody,
    Body,
    FenceCheckpointBody,
    RenewBatchBody,
    RenewBody,
    TransitionBody,
    WellFormedBatchBody,
)
from runlease_service.api.front import BODY, HEADERS
from runlease_service.api.parse import body_missing, read_model
from runlease_service.api.problems import (
    ProblemError,
    database_unusable,
    problem_from_error,
    problem_from_validation,
)
from runlease_service.api.service import Service
from runlease_service.database.base import DatabaseSetupError

Endpoint = Callable[..., Awaitable[Response]]

RUNS: Final = "/v1/runs/"
BATCH: Final = "/v1/leases/renew"
IF_MATCH: Final = {b"if-match": "if_match"}
VERBS: Final[dict[str, tuple[Endpoint, type[Body], Mapping[bytes, str]]]] = {
    "acquire": (leases.acquire, AcquireBody, {**IF_MATCH, b"idempotency-key": "key"}),
    "renew": (leases.renew, RenewBody, IF_MATCH),
    "fence-checkpoint": (leases.fence_checkpoint, FenceCheckpointBody, IF_MATCH),
    "transition": (leases.transition, TransitionBody, IF_MATCH),
}


class HotDoor:
    """Answers the hot verbs; hands everything else on."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            path: str = scope["path"]
            if path.startswith(RUNS):
                run_id, slash, verb = path[len(RUNS) :].rpartition("/")
                if slash and verb in VERBS:
                    endpoint, model, headers = VERBS[verb]
                    response = await self._answer(scope, endpoint, model, headers, run_id=run_id)
                    await response(scope, receive, send)
                    return
            elif path == BATCH:
                response = await self._answer(
                    scope, leases.renew_batch, RenewBatchBody, IF_MATCH, fast=WellFormedBatchBody
                )
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _answer(
        self,
        scope: Scope,
        endpoint: Endpoint,
        model: type[Body],
        headers: Mapping[bytes, str],
        fast: type[Body] | None = None,
        **arguments: object,
    ) -> Response:
        known: dict[bytes, bytes] = scope[HEADERS]
        for name, parameter in headers.items():
            if name in known:
                arguments[parameter] = known[name].decode("latin-1")
        try:
            if not self._service.started:
                await self._service.start()
            raw: bytes = scope[BODY]
            if not raw:
                raise body_missing()
            body = read_model(model, raw, fast)
            return await endpoint(service=self._service, body=body, **arguments)
        except ValidationError as error:
            return problem_from_validation(error.errors(include_input=False)).response()
        except RunStoreError as error:
            return problem_from_error(error).response()
        except DatabaseSetupError:
            return database_unusable().response()
        except ProblemError as problem:
            return problem.response()
