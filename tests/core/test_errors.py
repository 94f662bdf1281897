"""One class for each of the seed's codes, and a page that says so."""

from __future__ import annotations

import pytest

from runlease_core import errors
from runlease_core.errors import (
    ERROR_CLASSES,
    Code,
    RunIntegrityError,
    RunStoreError,
    RunValidationError,
    error_for,
)
from tests.core.examples import LIVE

SEED_CODES = {
    "RUN_LEASE_HELD",
    "RUN_LEASE_LOST",
    "RUN_ALREADY_TERMINAL",
    "RUN_SUSPENDED",
    "RUN_INVALID_TRANSITION",
    "RUN_INTEGRITY_ERROR",
    "RUN_VALIDATION_ERROR",
    "RUN_CONFLICT",
    "RUN_NOT_FOUND",
    "RUN_STORE_ATOMIC_REQUIRED",
}


def every_subclass(of: type[RunStoreError]) -> list[type[RunStoreError]]:
    return [found for child in of.__subclasses__() for found in (child, *every_subclass(child))]


def test_the_codes_are_the_seeds() -> None:
    assert set(Code) == SEED_CODES
    assert all(code.name == code.value == str(code) for code in Code)


def test_every_code_has_exactly_one_class() -> None:
    own = [error for error in every_subclass(RunStoreError) if error.__module__ == errors.__name__]

    assert sorted(error.code for error in own) == sorted(Code)
    assert {error.code: error for error in own} == ERROR_CLASSES


@pytest.mark.parametrize("code", list(Code))
def test_an_error_carries_code_detail_and_record(code: Code) -> None:
    error = error_for(code, "what was found", LIVE)

    assert type(error) is ERROR_CLASSES[code]
    assert isinstance(error, RunStoreError)
    assert (error.code, error.detail, error.record) == (code, "what was found", LIVE)
    assert str(error) == "what was found"
    assert error_for(code, "nothing was read").record is None


@pytest.mark.parametrize("code", list(Code))
def test_the_class_is_named_after_its_code(code: Code) -> None:
    words = code.value.removesuffix("_ERROR").split("_")

    assert ERROR_CLASSES[code].__name__ == "".join(map(str.capitalize, words)) + "Error"


def test_the_tree_in_the_modules_page_names_every_class_and_code() -> None:
    page = errors.__doc__ or ""
    tree = {
        words[1]: words[2]
        for line in page.splitlines()
        if (words := line.split())[:1] in (["├──"], ["└──"])
    }

    assert tree == {error.__name__: code.value for code, error in ERROR_CLASSES.items()}


@pytest.mark.parametrize("error", [RunStoreError, *ERROR_CLASSES.values()])
def test_every_class_says_what_it_means_and_what_to_do(error: type[RunStoreError]) -> None:
    assert error.__doc__
    assert error.__doc__.strip().endswith(".")


def test_a_validation_error_names_the_field() -> None:
    assert RunValidationError("x", field="lease.owner").field == "lease.owner"
    assert RunValidationError("x").field == ""
    assert not issubclass(RunIntegrityError, RunValidationError)
