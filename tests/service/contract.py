"""Is an answer what the OpenAPI document says? Every client of the service tests asks.

Stricter than the document: an answer holds no field that it does not name.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from openapi_schema_validator import OAS31Validator

from runlease_service.app import create_app
from runlease_service.settings import Settings

RUNS: Final = "/v1/runs/"
PROBLEM: Final = "application/problem+json"
DESCRIBED_HEADERS: Final = frozenset(
    {"etag", "retry-after", "runlease-lease-remaining-ms", "location", "allow"}
)
UNDESCRIBED_PATHS: Final = re.compile(r"/openapi\.json|/docs(?:/.*)?|/favicon\.ico")
ANYWHERE: Final = frozenset({404, 405})
"""Statuses of paths and methods that the document does not have."""


@cache
def document() -> dict[str, Any]:
    """The document that the service serves."""
    return create_app(Settings(database_url="sqlite:///never-opened.db")).openapi()


def template(method: str, path: str) -> str | None:
    """The document's path for a decoded one; None when it has none."""
    paths: Mapping[str, Mapping[str, Any]] = document()["paths"]
    name = path
    if name not in paths and path.startswith(RUNS):
        name = RUNS + "{runId}"
        if method == "POST":
            verb = path.removeprefix(RUNS).rpartition("/")
            name += "".join(verb[1:]) if verb[1] else ""
    return name if method.lower() in paths.get(name, {}) else None


def check(
    method: str, path: str, status: int, headers: Mapping[str, str], body: bytes
) -> tuple[str, str, int]:
    """Fail unless the document has this answer; returns (method, template, status)."""
    if UNDESCRIBED_PATHS.fullmatch(path):
        return method, path, status
    asked = "GET" if method == "HEAD" else method
    where = f"{method} {path} → {status}"
    assert "x-request-id" in headers, where
    if status >= 400:
        _check_problem(where, status, headers, body if method != "HEAD" else None)
    name = template(asked, path)
    if name is None:
        assert status in ANYWHERE | {408, 413, 414, 415, 422}, where
        return method, "(none)", status
    operation = document()["paths"][name][asked.lower()]
    assert str(status) in operation["responses"], f"{where} is not in the document"
    described = operation["responses"][str(status)]
    names = {header.lower() for header in described.get("headers", {})}
    stray = (DESCRIBED_HEADERS & headers.keys()) - names
    assert not stray, f"{where}: {stray} is not in the document"
    content = described.get("content", {})
    if method == "HEAD" or not content:
        assert not body, where
        return method, name, status
    media_type = headers["content-type"].partition(";")[0]
    assert media_type in content, f"{where}: {media_type} is not in the document"
    validator = _validator(name, asked.lower(), status, media_type)
    errors = list(validator.iter_errors(json.loads(body)))
    assert not errors, f"{where}: {errors[0].message} at {list(errors[0].absolute_path)}"
    return method, name, status


def _check_problem(where: str, status: int, headers: Mapping[str, str], body: bytes | None) -> None:
    assert headers["content-type"] == PROBLEM, where
    if body is None:
        return
    problem = json.loads(body)
    assert {"type", "title", "status", "detail", "code"} <= problem.keys(), where
    assert problem["status"] == status, where
    assert problem["type"].endswith(problem["code"]), where
    assert problem["detail"].strip(": ") == problem["detail"] != "", f"{where}: {problem}"
    assert len(body) < 16_384 or "record" in problem, f"{where}: what was sent is echoed"
    assert b"Traceback" not in body, where


@cache
def _validator(name: str, method: str, status: int, media_type: str) -> OAS31Validator:
    responses = document()["paths"][name][method]["responses"]
    schema = responses[str(status)]["content"][media_type]["schema"]
    return OAS31Validator({**schema, "components": _closed_components()})


@cache
def _closed_components() -> dict[str, Any]:
    components: dict[str, Any] = copy.deepcopy(document()["components"])
    for schema in components["schemas"].values():
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
    return components
