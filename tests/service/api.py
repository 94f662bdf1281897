"""The service's endpoints as methods. Each returns the whole answer; nothing is hidden."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx


def path_of(run_id: str, verb: str = "") -> str:
    segment = quote(run_id, safe="")
    if segment in (".", ".."):
        # A client would take it for a step up; so a caller who means it encodes it.
        segment = segment.replace(".", "%2E")
    return f"/v1/runs/{segment}" + (f"/{verb}" if verb else "")


class Api:
    """A client without opinions."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def verb(
        self,
        run_id: str,
        verb: str,
        body: object = None,
        *,
        if_match: str | None = None,
        key: str | None = None,
    ) -> httpx.Response:
        headers = {}
        if if_match is not None:
            headers["If-Match"] = if_match
        if key is not None:
            headers["Idempotency-Key"] = key
        return await self.http.post(path_of(run_id, verb), json=body, headers=headers)

    async def acquire(
        self,
        run_id: str,
        owner: str = "a",
        ttl: int | None = None,
        *,
        if_match: str | None = None,
        key: str | None = None,
        **fields: object,
    ) -> httpx.Response:
        body = {"owner": owner, **_ttl(ttl), **fields}
        return await self.verb(run_id, "acquire", body, if_match=if_match, key=key)

    async def renew(
        self,
        run_id: str,
        token: int,
        owner: str = "a",
        ttl: int | None = None,
        *,
        if_match: str | None = None,
    ) -> httpx.Response:
        body = {"owner": owner, "fencingToken": token, **_ttl(ttl)}
        return await self.verb(run_id, "renew", body, if_match=if_match)

    async def fence(
        self,
        run_id: str,
        token: int,
        owner: str = "a",
        *,
        key: str = "snapshots/1",
        if_match: str | None = None,
    ) -> httpx.Response:
        ref = {"key": key, "snapshotVersion": 1, "savedAt": "2026-09-01T00:00:00.000Z"}
        body = {"owner": owner, "fencingToken": token, "checkpointRef": ref}
        return await self.verb(run_id, "fence-checkpoint", body, if_match=if_match)

    async def transition(
        self,
        run_id: str,
        token: int,
        to: str,
        owner: str = "a",
        *,
        if_match: str | None = None,
        **fields: object,
    ) -> httpx.Response:
        body = {"owner": owner, "fencingToken": token, "to": to, **fields}
        return await self.verb(run_id, "transition", body, if_match=if_match)

    async def cancel(
        self, run_id: str, message: str | None = None, *, if_match: str | None = None
    ) -> httpx.Response:
        body = None if message is None else {"message": message}
        return await self.verb(run_id, "cancel", body, if_match=if_match)

    async def resume(
        self, run_id: str, approvals: list[str] | None = None, *, if_match: str | None = None
    ) -> httpx.Response:
        body = None if approvals is None else {"pendingApprovalIds": approvals}
        return await self.verb(run_id, "resume", body, if_match=if_match)

    async def revoke(self, run_id: str, *, if_match: str | None = None) -> httpx.Response:
        return await self.verb(run_id, "revoke", if_match=if_match)

    async def enqueue(
        self, run_id: str, *, if_match: str | None = None, **fields: object
    ) -> httpx.Response:
        headers = {} if if_match is None else {"If-Match": if_match}
        return await self.http.post("/v1/runs", json={"runId": run_id, **fields}, headers=headers)

    async def renew_all(
        self, leases: list[Any], owner: str = "a", **fields: object
    ) -> httpx.Response:
        body = {"owner": owner, "leases": leases, **fields}
        return await self.http.post("/v1/leases/renew", json=body)

    async def get(self, run_id: str, **headers: str) -> httpx.Response:
        return await self.http.get(path_of(run_id), headers=_header_names(headers))

    async def put(self, record: dict[str, Any], **headers: str) -> httpx.Response:
        return await self.http.put(
            path_of(record["runId"]), json=record, headers=_header_names(headers)
        )

    async def delete(
        self, run_id: str, *, force: bool = False, if_match: str | None = None
    ) -> httpx.Response:
        return await self.http.delete(
            path_of(run_id),
            params={"force": "true"} if force else {},
            headers={} if if_match is None else {"If-Match": if_match},
        )

    async def page(self, **filters: str | int | list[str]) -> httpx.Response:
        return await self.http.get("/v1/runs", params=filters)

    async def everything(self) -> list[dict[str, Any]]:
        """All records, to show that nothing changed."""
        runs: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            filters = {} if cursor is None else {"cursor": cursor}
            page = (await self.page(limit=1000, **filters)).raise_for_status().json()
            runs += page["runs"]
            if "nextCursor" not in page:
                return runs
            cursor = page["nextCursor"]


def refused(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The problem, when it is the expected one."""
    problem: dict[str, Any] = answer.json()
    assert (answer.status_code, problem["code"]) == (status, code), problem
    return problem


def record_of(answer: httpx.Response, status: int = 200) -> dict[str, Any]:
    """The record, when the answer is the expected one and its ETag the record's version."""
    assert answer.status_code == status, answer.text
    record: dict[str, Any] = answer.json()
    assert answer.headers["etag"] == f'"{record["version"]}"'
    return record


def _ttl(ttl: int | None) -> dict[str, int]:
    return {} if ttl is None else {"leaseTtlMs": ttl}


def _header_names(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}
