"""The OpenAPI document: what FastAPI derives from the routes, made whole.

`openapi.yaml` at the top of the repository is this document; `make generate` writes it.
"""

from __future__ import annotations

from typing import Any, Final

import yaml
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from runlease_service.api.models import Problem

DESCRIPTION: Final = """\
`runlease` holds one authoritative record per run: status, lease, fencing token, version. A worker
acquires a run before it works on it, renews while it works, and sends its owner and fencing token
with every write; a worker that was taken over is refused.

Every error is an RFC 9457 problem document with a stable `code`, and the `record` that was judged
where one was read. Every command is safe to send again. A 503 means that the outcome is unknown.
"""

TAGS: Final = [
    {"name": "leases", "description": "What workers do."},
    {"name": "operations", "description": "What operators do."},
    {"name": "runs", "description": "The run as a resource."},
    {"name": "service", "description": "The service itself."},
]


def install_openapi(app: FastAPI) -> None:
    """Let the application serve the whole document at `/openapi.json`."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def to_yaml(document: dict[str, Any]) -> str:
    """The document as YAML, the same text for the same document."""
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        description=app.description,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        tags=TAGS,
        routes=app.routes,
    )
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas: dict[str, Any] = document["components"]["schemas"]
    schemas |= {name: schemas.get(name, schema) for name, schema in problem.pop("$defs").items()}
    schemas[Problem.__name__] = problem
    document["components"]["schemas"] = dict(sorted(schemas.items()))
    return document
