"""The floor: a plain FastAPI route that parses the same body with pydantic and stores nothing."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from runlease_service.api.bodies import RenewBody


@asynccontextmanager
async def _quiet(_: FastAPI) -> AsyncIterator[None]:
    """The same treatment of the garbage collector as the service gives itself."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    yield


app = FastAPI(lifespan=_quiet)


@app.get("/readyz")
async def ready() -> dict[str, str]:
    return {"status": "ok"}


@app.post("/v1/runs/{run_id}/renew")
async def renew(run_id: str, body: RenewBody) -> dict[str, object]:
    return {"runId": run_id, "owner": body.owner, "fencingToken": body.fencing_token}
