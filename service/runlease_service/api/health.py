"""Whether the process lives, whether it can serve, and the lifecycle as data."""

from __future__ import annotations

import asyncio
import json

from fastapi import APIRouter, Request
from starlette.responses import Response

from runlease_core.lifecycle import EDGES, TERMINAL
from runlease_service.api.answers import json_answer
from runlease_service.api.models import Health, Lifecycle
from runlease_service.api.parse import StrictRoute
from runlease_service.api.problems import ServiceCode, unavailable
from runlease_service.api.responses import EVERYWHERE, responses
from runlease_service.api.service import Service
from runlease_service.database.base import DatabaseSetupError, DatabaseUnavailableError

router = APIRouter(tags=["service"], route_class=StrictRoute)

READY_WAIT_S = 1.5
_OK = '{"status":"ok"}'
_LIFECYCLE = json.dumps(
    {
        "statuses": list(EDGES),
        "terminal": [status for status in EDGES if status in TERMINAL],
        "edges": {status: [to for to in EDGES if to in edges] for status, edges in EDGES.items()},
    }
)


@router.get(
    "/healthz",
    operation_id="get_health",
    summary="Whether the process lives",
    response_model=None,
    responses=responses({200: {"model": Health, "description": "It lives."}}, *EVERYWHERE),
)
async def health() -> Response:
    """Never asks the database: a database that is away is no reason to restart the service."""
    return json_answer(200, _OK)


@router.get(
    "/readyz",
    operation_id="get_readiness",
    summary="Whether the service can serve",
    response_model=None,
    responses=responses(
        {200: {"model": Health, "description": "It can."}}, *EVERYWHERE, ServiceCode.UNAVAILABLE
    ),
)
async def ready(request: Request) -> Response:
    """Asks the database whether it takes a write, and answers within two seconds."""
    service: Service = request.app.state.service
    try:
        async with asyncio.timeout(READY_WAIT_S):
            await service.start()
            await service.database.ping()
    except (DatabaseUnavailableError, DatabaseSetupError, TimeoutError) as error:
        raise unavailable("the database cannot answer now") from error
    return json_answer(200, _OK)


@router.get(
    "/v1/lifecycle",
    operation_id="get_lifecycle",
    summary="The statuses and the legal edges",
    response_model=None,
    responses=responses({200: {"model": Lifecycle, "description": "The lifecycle."}}, *EVERYWHERE),
)
async def lifecycle() -> Response:
    """What the rules are read from, for dashboards and other stores."""
    return json_answer(200, _LIFECYCLE)
