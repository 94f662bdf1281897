"""The OpenAPI document: what FastAPI derives from the routes, made whole.

`openapi.yaml` at the top of the repository is this document; `make generate` writes it.
"""

from __future__ import annotations

from typing import Any, Final

import yaml
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from runlease_service.api.models import Problem
from runlease_service.auth.access import needed_scope

DESCRIPTION: Final = """
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


BEARER: Final = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token of the service's tokens file; without such a file none is asked for.",
}


def install_openapi(app: FastAPI) -> None:
    """Let the application serve the whole document at `/openapi.json`."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


class _Dumper(yaml.SafeDumper):
    """YAML for readers: text of several lines as a block."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 (every part stands in its place)
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None
    )


_Dumper.add_representer(str, _text)


def to_yaml(document: dict[str, Any]) -> str:
    """The document as YAML, the same text for the same document."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        description=_unfold(app.description.strip()),
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        tags=TAGS,
        routes=app.routes,
    )
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas: dict[str, Any] = document["components"]["schemas"]
    schemas |= {name: schemas.get(name, schema) for name, schema in problem.pop("$defs").items()}
    schemas[Problem.__name__] = problem
    document["components"]["schemas"] = dict(sorted(schemas.items()))
    document["components"]["securitySchemes"] = {"bearer": BEARER}
    for template, path in document["paths"].items():
        for method, operation in path.items():
            operation["description"] = _unfold(operation["description"])
            if scope := needed_scope(method.upper(), template):
                operation["description"] += f"\n\nNeeds the scope `{scope}`."
                operation["security"] = [{"bearer": []}]
            for parameter in operation.get("parameters", ()):
                parameter["schema"] = _of_parameter(parameter["schema"])
    return document


def _unfold(text: str) -> str:
    """A docstring's lines as paragraphs."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _of_parameter(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter that is not sent is absent: there is no null in a header or a query."""
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    kept = {
        key: value for key, value in schema.items() if key not in ("anyOf", "title", "description")
    }
    return options[0] | kept if len(options) == 1 else kept
