"""The hot door: the verbs that workers send all day, without the framework's way to them.

FastAPI declares every route, its models and the OpenAPI document, and serves all of them. For five
paths this layer comes before its router: the same functions, called with the same models read from
the same bytes, the same conditional headers and the same problems, at a fraction of the cost. A
test sends every request through both doors and compares the bytes of the answers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from pydantic import BaseModel, ValidationError
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from runlease_core.errors import RunStoreError
from runlease_service.api import leases
from runlease_service.api.bodies import (
    AcquireBody,
    FenceCheckpointBody,
    RenewBatchBody,
    RenewBody,
    TransitionBody,
)
from runlease_service.api.front import BODY
from runlease_service.api.parse import body_missing, read_json
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
VERBS: Final[dict[str, tuple[Endpoint, type[BaseModel], frozenset[str]]]] = {
    "acquire": (leases.acquire, AcquireBody, frozenset({"if_match", "key"})),
    "renew": (leases.renew, RenewBody, frozenset({"if_match"})),
    "fence-checkpoint": (leases.fence_checkpoint, FenceCheckpointBody, frozenset({"if_match"})),
    "transition": (leases.transition, TransitionBody, frozenset({"if_match"})),
}
_HEADERS: Final = {b"if-match": "if_match", b"idempotency-key": "key"}


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
                    scope, leases.renew_batch, RenewBatchBody, frozenset({"if_match"})
                )
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _answer(
        self,
        scope: Scope,
        endpoint: Endpoint,
        model: type[BaseModel],
        headers: frozenset[str],
        **arguments: object,
    ) -> Response:
        for name, value in scope["headers"]:
            parameter = _HEADERS.get(name)
            if parameter in headers and parameter not in arguments:
                arguments[parameter] = value.decode("latin-1")
        try:
            if not self._service.started:
                await self._service.start()
            raw: bytes = scope[BODY]
            if not raw:
                raise body_missing()
            body = model.model_validate(read_json(raw))
            return await endpoint(service=self._service, body=body, **arguments)
        except ValidationError as error:
            return problem_from_validation(error.errors(include_input=False)).response()
        except RunStoreError as error:
            return problem_from_error(error).response()
        except DatabaseSetupError:
            return database_unusable().response()
        except ProblemError as problem:
            return problem.response()
