"""openapi.yaml is what the service serves, valid, whole, and true of its own examples."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from runlease_service.api.openapi import to_yaml
from runlease_service.api.problems import MEDIA_TYPE
from tests.service.contract import document

COMMITTED: Final = Path(__file__).parents[2] / "openapi.yaml"
DOCUMENT: Final = document()
OPERATIONS: Final = {
    f"{method} {path}": operation
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}
ERRORS: Final = [
    (name, status)
    for name, operation in OPERATIONS.items()
    for status in operation["responses"]
    if int(status) >= 400
]
RECORD_HEADERS: Final = {"ETag", "Runlease-Lease-Remaining-Ms"}
PROBLEM: Final = {"$ref": "#/components/schemas/Problem"}
STALE: Final = "openapi.yaml is not what the code says; run: make generate"


def test_the_committed_document_is_the_served_one() -> None:
    written = COMMITTED.read_text(encoding="utf-8")

    assert written == to_yaml(DOCUMENT), STALE
    assert yaml.safe_load(written) == DOCUMENT, STALE


def test_the_command_that_writes_the_document_writes_the_same() -> None:
    command = [sys.executable, "-m", "runlease_service.cli", "openapi"]

    made = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)

    assert made.stdout == to_yaml(DOCUMENT)


def test_the_document_is_valid() -> None:
    errors = list(OpenAPIV31SpecValidator(DOCUMENT).iter_errors())

    assert not errors, errors[0]


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_says_what_it_does(name: str) -> None:
    operation = OPERATIONS[name]

    for part in ("operationId", "summary", "description"):
        assert operation[part].strip(), part
    assert len(operation["summary"]) < 80
    for status, response in operation["responses"].items():
        assert response["description"].strip(), status
    for parameter in operation.get("parameters", []):
        assert parameter["description"].strip(), parameter["name"]


def test_no_operation_id_is_given_twice() -> None:
    ids = [operation["operationId"] for operation in OPERATIONS.values()]

    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(("name", "status"), ERRORS, ids=str)
def test_every_error_is_a_problem(name: str, status: str) -> None:
    response = OPERATIONS[name]["responses"][status]

    assert response["content"] == {MEDIA_TYPE: {"schema": PROBLEM}}
    if status == "503":
        assert "Retry-After" in response["headers"]
    if status == "412" or (status == "409" and "{runId}" in name):
        assert response["headers"].keys() >= RECORD_HEADERS
    if "RUN_LEASE_HELD" in response["description"]:
        assert "Retry-After" in response["headers"]


@pytest.mark.parametrize("name", [name for name in OPERATIONS if "/v1/runs" in name])
def test_every_answer_with_a_record_names_its_headers(name: str) -> None:
    record = {"$ref": "#/components/schemas/RunRecord"}
    for status, response in OPERATIONS[name]["responses"].items():
        content = response.get("content", {}).get("application/json", {})
        if content.get("schema") == record or status == "304":
            assert response["headers"].keys() >= RECORD_HEADERS, status


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_takes_a_condition_or_names_no_run(name: str) -> None:
    parameters = {parameter["name"] for parameter in OPERATIONS[name].get("parameters", [])}

    if "/v1/runs" in name or "/v1/leases" in name:
        assert "If-Match" in parameters


def test_no_field_of_a_request_may_be_null() -> None:
    """An optional field is left out, never null; a generator must not think otherwise."""
    for where, schema in _schemas(DOCUMENT["components"], "components"):
        assert schema.get("type") != "null", where
        assert schema.get("default", 0) is not None, where


def test_every_example_fits_its_schema() -> None:
    checked = 0
    for where, schema in _schemas(DOCUMENT, "document"):
        for example in _examples(schema):
            whole = {**schema, "components": DOCUMENT["components"]}
            errors = list(OAS31Validator(whole).iter_errors(example))
            assert not errors, f"{where}: {errors[0].message}"
            checked += 1
    for name, operation in OPERATIONS.items():
        for parameter in operation.get("parameters", []):
            for example in _examples(parameter):
                whole = {**parameter["schema"], "components": DOCUMENT["components"]}
                OAS31Validator(whole).validate(example)
                checked += 1
        for media in operation.get("requestBody", {}).get("content", {}).values():
            for example in _examples(media):
                whole = {**media["schema"], "components": DOCUMENT["components"]}
                OAS31Validator(whole).validate(example)
                checked += 1
        assert name
    assert checked > 10


def _examples(holder: dict[str, Any]) -> list[Any]:
    examples = holder.get("examples", [])
    if isinstance(examples, dict):
        examples = [example["value"] for example in examples.values()]
    return [*examples, *([holder["example"]] if "example" in holder else [])]


def _schemas(part: object, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema object below, however deep: what has a type, a reference or a choice."""
    if isinstance(part, dict):
        if part.keys() & {"type", "$ref", "anyOf", "oneOf", "allOf", "const", "enum"} and (
            "in" not in part
        ):
            yield where, part
        for name, inner in part.items():
            if name not in ("examples", "example", "default", "const", "enum"):
                yield from _schemas(inner, f"{where}.{name}")
    elif isinstance(part, list):
        for number, inner in enumerate(part):
            yield from _schemas(inner, f"{where}[{number}]")
