import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from runlease_service.settings import (
    SECRET_BYTES_MAX,
    Settings,
    SettingsError,
    environment_variable,
    load_settings,
    mask_password,
)


@pytest.fixture(autouse=True)
def no_settings_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("RUNLEASE_")]:
        monkeypatch.delenv(name)


def refusal(given: dict[str, Any] | None = None) -> str:
    with pytest.raises(SettingsError) as refused:
        load_settings(given)
    message = str(refused.value)
    assert "\n" not in message
    return message


def test_the_defaults_serve_loopback_and_a_file() -> None:
    settings = Settings()

    assert (settings.host, settings.port, settings.workers) == ("127.0.0.1", 8080, 1)
    assert settings.database_path == Path("runlease.db")
    assert not settings.allow_unauthenticated


def test_settings_never_change_once_made() -> None:
    settings = Settings(database_url="sqlite:////tmp/x.db")

    with pytest.raises(ValidationError):
        setattr(settings, "port", 1)  # noqa: B010 - the type checker refuses the plain form

    assert settings.database_path == Path("/tmp/x.db")  # noqa: S108 - nothing is opened


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_has_a_default_and_one_line_of_description(name: str) -> None:
    field = Settings.model_fields[name]

    assert not field.is_required()
    assert field.description
    assert field.description.endswith(".")
    assert "\n" not in field.description


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_number_has_both_bounds(name: str) -> None:
    field = Settings.model_fields[name]
    if field.annotation is not int:
        return

    bounds = {type(one).__name__ for one in field.metadata}

    assert bounds == {"Ge", "Le"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"port": "65536"}, ["port (RUNLEASE_PORT)", "65535", "'65536'"]),
        ({"port": "http"}, ["port (RUNLEASE_PORT)", "integer", "'http'"]),
        ({"port": "tcp://10.0.0.1:8080"}, ["RUNLEASE_PORT", "enableServiceLinks: false"]),
        ({"workers": 0}, ["workers (RUNLEASE_WORKERS)", "1"]),
        ({"log_format": "xml"}, ["RUNLEASE_LOG_FORMAT", "'console' or 'json'", "'xml'"]),
        ({"allow_unauthenticated": "maybe"}, ["RUNLEASE_ALLOW_UNAUTHENTICATED", "boolean"]),
        ({"lease_ttl_ms_max": 86_400_001}, ["RUNLEASE_LEASE_TTL_MS_MAX", "86400000"]),
        ({"lease_ttl_ms_min": 99}, ["RUNLEASE_LEASE_TTL_MS_MIN", "100"]),
        ({"lease_ttl_ms_min": 60_001}, ["RUNLEASE_LEASE_TTL_MS_MIN", "60001, 60000, 86400000"]),
        ({"lease_ttl_ms_max": 59_999}, ["lease_ttl_ms_max", "100, 60000, 59999"]),
        ({"list_limit_max": 99}, ["RUNLEASE_LIST_LIMIT_DEFAULT", "list_limit_max, 99, not 100"]),
        ({"prot": 1}, ["prot is no setting"]),
        ({"port": -1, "workers": 65}, ["RUNLEASE_PORT", "RUNLEASE_WORKERS"]),
    ],
)
def test_a_wrong_value_is_one_line_that_names_the_setting(
    given: dict[str, Any], words: list[str]
) -> None:
    message = refusal(given)

    assert [word for word in words if word not in message] == []


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("sqlite://", "name a file"),
        ("sqlite:///", "name a file"),
        ("sqlite:///:memory:", "name a file"),
        ("sqlite:///file::memory:", "name a file"),
        ("sqlite://runlease.db", "name a file"),
        ("sqlite:///a.db?mode=memory", "no question mark"),
        ("sqlite:///a\n.db", "no control character"),
        ("runlease.db", "name sqlite:///"),
        ("", "name sqlite:///"),
        ("mysql://root:secret@db/runs", "mysql:// is not supported; name sqlite:///"),
        ("root:secret@db://x", "this is not supported; name sqlite:///"),
    ],
)
def test_a_database_that_cannot_be_used_is_refused_without_its_url(url: str, words: str) -> None:
    message = refusal({"database_url": url})

    assert words in message
    assert "RUNLEASE_DATABASE_URL" in message
    assert "secret" not in message


def test_a_value_comes_from_the_argument_then_the_environment_then_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RUNLEASE_PORT", "1111")
    monkeypatch.setenv("RUNLEASE_WORKERS", "3")
    monkeypatch.setenv("RUNLEASE_LOG_LEVEL", "WARNING")

    settings = load_settings({"port": "2222"})

    assert (settings.port, settings.workers, settings.backlog) == (2222, 3, 2048)
    assert settings.log_level == "warning"


def test_an_empty_variable_counts_as_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNLEASE_PORT", "")
    monkeypatch.setenv("RUNLEASE_DATABASE_URL_FILE", "")

    assert load_settings() == Settings(port=8080)


def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNLEASE_KEEP_ALIVE_S", "0")

    assert refusal().startswith("keep_alive_s (RUNLEASE_KEEP_ALIVE_S): ")


def test_the_database_may_stand_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "url"
    secret.write_text("sqlite:////data/runs.db\n")
    monkeypatch.setenv("RUNLEASE_DATABASE_URL_FILE", str(secret))

    assert load_settings().database_url == "sqlite:////data/runs.db"


def test_an_argument_goes_before_a_file_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNLEASE_DATABASE_URL_FILE", "/nowhere")

    assert load_settings({"database_url": "sqlite:///a.db"}).database_url == "sqlite:///a.db"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file"),
        (b" \n", "is empty"),
        (b"\xff", "not UTF-8"),
        (b"x" * (SECRET_BYTES_MAX + 1), f"more than {SECRET_BYTES_MAX} bytes"),
        (b"mysql://root:secret@db/runs", "mysql:// is not supported"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_by_its_variable(
    content: bytes | None, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "url"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("RUNLEASE_DATABASE_URL_FILE", str(path))

    message = refusal()

    assert words in message
    assert "RUNLEASE_DATABASE_URL" in message
    assert "secret" not in message


def test_a_value_and_a_file_are_one_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNLEASE_DATABASE_URL", "sqlite:///a.db")
    monkeypatch.setenv("RUNLEASE_DATABASE_URL_FILE", str(tmp_path / "url"))

    assert "RUNLEASE_DATABASE_URL and RUNLEASE_DATABASE_URL_FILE" in refusal()


@pytest.mark.parametrize(
    ("url", "label"),
    [
        ("sqlite:////data/a@b:c@d.db", "sqlite:////data/a@b:c@d.db"),
        ("postgresql://app:s3cret@db:5432/runs", "postgresql://app:***@db:5432/runs"),
        ("postgresql://app:p@ss@db/runs", "postgresql://app:***@db/runs"),
        ("postgresql://:s3cret@db/runs", "postgresql://:***@db/runs"),
        ("postgresql://app@db/runs", "postgresql://app@db/runs"),
    ],
)
def test_a_password_is_never_printed(url: str, label: str) -> None:
    assert mask_password(url) == label


def test_the_database_url_is_not_in_the_representation() -> None:
    settings = Settings(database_url="sqlite:///a.db")

    assert "a.db" not in repr(settings)
    assert settings.database_label == "sqlite:///a.db"


def test_a_variable_is_the_name_in_capitals() -> None:
    assert environment_variable("body_bytes_max") == "RUNLEASE_BODY_BYTES_MAX"
