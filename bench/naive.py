"""What one writes first: FastAPI and SQLAlchemy, read the row, then update it conditionally."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from fastapi import FastAPI, HTTPException
from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import create_async_engine

from runlease_service.api.bodies import RenewBody
from runlease_service.database.schema import runs

URL = os.environ["RUNLEASE_DATABASE_URL"].partition("?")[0]
engine = create_async_engine(URL.replace("postgresql:", "postgresql+asyncpg:"), pool_size=16)
app = FastAPI()


@app.get("/readyz")
async def ready() -> dict[str, str]:
    return {"status": "ok"}


@app.post("/v1/runs/{run_id}/renew")
async def renew(run_id: str, body: RenewBody) -> dict[str, object]:
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    async with engine.begin() as connection:
        row = (await connection.execute(select(runs).where(runs.c.run_id == run_id))).first()
        if row is None or (row.lease_owner, row.fencing_token) != (body.owner, body.fencing_token):
            raise HTTPException(409)
        swapped = await connection.execute(
            update(runs)
            .where(runs.c.run_id == run_id, runs.c.version == row.version)
            .values(
                version=row.version + 1,
                lease_acquired_at=now_ms,
                lease_expires_at=now_ms + body.lease_ttl_ms,
                updated_at=now_ms,
            )
        )
        if swapped.rowcount != 1:
            raise HTTPException(409)
    return {"runId": run_id, "version": row.version + 1, "expiresAt": now_ms + body.lease_ttl_ms}
