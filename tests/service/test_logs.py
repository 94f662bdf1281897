import json
import logging
import re
import warnings
from collections.abc import Iterator
from typing import Literal

import pytest
import structlog

from runlease_service.logs import announcement, configure_logging
from runlease_service.settings import Settings

FORGERY = 'x\n2026-01-01T00:00:00.000Z info forged\r\x1b[2J\x9b31m\u2028\u202e\x00"\ud800'
CONSOLE_LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (info|warning|error) ")


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def configure(
    log_format: Literal["console", "json"], log_level: Literal["info", "warning"] = "info"
) -> None:
    # What pytest keeps of a log goes to its other processes as UTF-8, which a surrogate is not.
    logging.getLogger().handlers.clear()
    configure_logging(Settings(log_format=log_format, log_level=log_level))


def fail() -> None:
    raise RuntimeError(FORGERY)


def test_a_json_line_has_time_level_event_and_fields(capsys: pytest.CaptureFixture[str]) -> None:
    configure("json")

    structlog.get_logger().info("run taken", run_id="a/b", attempt=2, owner=None)

    line = json.loads(capsys.readouterr().err)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("timestamp"))
    assert line == {
        "level": "info",
        "event": "run taken",
        "run_id": "a/b",
        "attempt": 2,
        "owner": None,
    }


def test_a_console_line_has_time_level_event_and_fields(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure("console")

    structlog.get_logger().warning("run taken", run_id="a/b", attempt=2, owner="worker 7", x="")

    line = capsys.readouterr().err
    assert CONSOLE_LINE.match(line)
    assert line.endswith(' warning run taken run_id=a/b attempt=2 owner="worker 7" x=""\n')


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_no_value_forges_a_line_or_reaches_the_terminal(
    log_format: Literal["console", "json"], capsys: pytest.CaptureFixture[str]
) -> None:
    configure(log_format)

    structlog.get_logger().info(FORGERY, run_id=FORGERY, nested=[FORGERY], **{FORGERY: 1})
    logging.getLogger("uvicorn.error").warning("bad path %s", FORGERY)

    lines = capsys.readouterr().err.removesuffix("\n").split("\n")
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)


def test_a_field_cannot_pass_for_two(capsys: pytest.CaptureFixture[str]) -> None:
    configure("console")

    structlog.get_logger().info("asked", owner='a" status=done', path="a=b")

    assert capsys.readouterr().err.endswith(r'asked owner="a\" status=done" path="a=b"' + "\n")


def test_a_traceback_is_a_field_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    configure("json")

    try:
        fail()
    except RuntimeError:
        structlog.get_logger().exception("it broke", run_id="r")

    (line,) = capsys.readouterr().err.splitlines()
    event = json.loads(line)
    assert (event["level"], event["event"], event["run_id"]) == ("error", "it broke", "r")
    assert event["exception"].startswith("Traceback")


def test_no_line_of_a_traceback_looks_like_a_log_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure("console")

    try:
        fail()
    except RuntimeError:
        logging.getLogger("asyncio").exception("it broke")

    first, *others = capsys.readouterr().err.removesuffix("\n").split("\n")
    assert CONSOLE_LINE.match(first)
    assert len(others) > 3
    assert all(line.startswith("    | ") and line.isprintable() for line in others)


def test_foreign_loggers_use_the_same_renderer(capsys: pytest.CaptureFixture[str]) -> None:
    configure("json")

    logging.getLogger("uvicorn.error").error("one %s", "thing")
    logging.getLogger("sqlalchemy.engine").warning("another")
    logging.getLogger("uvicorn.error").info("Started server process")
    logging.getLogger("sqlalchemy.engine").info("SELECT secret")

    events = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(event["logger"], event["event"]) for event in events] == [
        ("uvicorn.error", "one thing"),
        ("sqlalchemy.engine", "another"),
    ]


def test_a_warning_of_python_is_a_log_line(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        configure("json")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        logging.captureWarnings(capture=False)

    assert "old" in json.loads(capsys.readouterr().err)["event"]


def test_the_level_decides_what_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    configure("console", log_level="warning")

    structlog.get_logger().info("too much")
    logging.getLogger("other").info("too much")
    structlog.get_logger().warning("enough")

    assert capsys.readouterr().err.count("\n") == 1


def test_configuring_again_replaces_what_was(capsys: pytest.CaptureFixture[str]) -> None:
    configure("json")
    configure("console")

    structlog.get_logger().info("once")

    assert capsys.readouterr().err.count("once") == 1


def test_a_field_does_not_replace_the_time_or_the_level(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure("json")

    structlog.get_logger().info("e", level="none", timestamp="never", odd={1, 2}.__class__)

    line = json.loads(capsys.readouterr().err)
    assert line["level"] == "info"
    assert line["timestamp"] != "never"
    assert line["odd"] == "<class 'set'>"


@pytest.mark.parametrize(
    ("no_color", "coloured"), [("", True), ("1", False)], ids=["tty", "NO_COLOR"]
)
def test_only_a_terminal_gets_colours(
    no_color: str,
    coloured: bool,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    configure("console")

    structlog.get_logger().info("hello", owner="\x1b[1m")

    line = capsys.readouterr().err
    assert line.count("\x1b[") == (2 if coloured else 0)
    assert r"owner=\x1b[1m" in line


def test_an_announcement_is_the_text_or_the_event() -> None:
    console = announcement(Settings(), "listening", "we are at /tmp/\x1b", url="u")
    as_json = announcement(Settings(log_format="json"), "listening", "we are", url="u")

    assert console == r"we are at /tmp/\x1b"
    assert json.loads(as_json).items() >= {"event": "listening", "url": "u"}.items()
