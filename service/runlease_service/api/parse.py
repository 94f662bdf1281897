"""How FastAPI's router reads a JSON body: by the same strict reader as the hot door."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.responses import Response

from runlease_core.errors import RunValidationError
from runlease_core.parsing import strict_json
from runlease_service.api.bodies import Body
from runlease_service.api.problems import (
    ProblemError,
    problem_from_error,
    problem_from_validation,
)

T = TypeVar("T", bound=Body)


def read_json(raw: bytes) -> object:
    """The body's JSON: UTF-8, no duplicate key, no NaN, bounded nesting; else 400."""
    try:
        return strict_json(raw)
    except RunValidationError as error:
        raise problem_from_error(error, status=400) from None


def read_model(model: type[T], raw: bytes, fast: type[T] | None = None) -> T:
    """The body as a model, read as strictly as by `read_json`.

    pydantic's own reader is faster but keeps the last of two equal keys. It is believed where the
    body has as many colons as the model has keys: then no key stands twice, nor within another.
    `fast` is a model that reads what is well-formed alike, and nothing else.
    """
    try:
        body = (fast or model).model_validate_json(raw)
        if raw.count(b":") == body.keys():
            return body
    except ValidationError:
        pass  # the strict reader finds the words for it
    return model.model_validate(read_json(raw))


def body_missing() -> ProblemError:
    """There is no body where one is needed."""
    return problem_from_validation([{"loc": ("body",), "msg": "Field required"}])


class StrictRequest(Request):
    """A request whose JSON is read strictly."""

    async def json(self) -> object:
        return read_json(await self.body())


class StrictRoute(APIRoute):
    """A route whose requests are strict."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handler(StrictRequest(request.scope, request.receive))

        return strict
