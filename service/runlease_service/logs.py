"""Log lines: where they go, how they look, and that nobody can forge one.

Everything that logs, be it through structlog or through the standard library as uvicorn and
SQLAlchemy do, ends in one handler on standard error and in one of two renderers. The promise of
both: one event is one line, whatever its values hold. JSON escapes by itself; the console renderer
escapes each character that is not printable, so neither a line break nor a terminal's escape
sequence comes through. A traceback is a field in JSON; on the console its lines are indented behind
a bar, and no log line begins with one.

No clock is read here: a line carries the instant at which the standard library made its record.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import structlog
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict, WrappedLogger

from runlease_core.instant import format_instant
from runlease_service.settings import Settings

_LEVEL_COLOURS: Final = {"debug": 2, "info": 32, "warning": 33, "error": 31, "critical": 31}
_LEVEL_WIDTH: Final = len("warning")
_TRACEBACK_MARGIN: Final = "    | "
_SAID_BEFORE: Final = frozenset({"Application startup failed. Exiting."})
"""What uvicorn adds after the service has said why it does not start."""


def configure_logging(settings: Settings) -> None:
    """Send all log lines of this process to standard error, as the settings ask.

    May be called again; the last call counts.
    """
    level = getattr(logging, settings.log_level.upper())
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter(settings))
    root = logging.getLogger()
    for former in [one for one in root.handlers if isinstance(one.formatter, ProcessorFormatter)]:
        root.removeHandler(former)
    root.addHandler(handler)
    root.setLevel(level)
    logging.captureWarnings(capture=True)

    # What uvicorn tells of its start and end is said by the startup line and the exit code.
    # SQLAlchemy would log statements with their values, at no level the operator asked for.
    own = logging.DEBUG if level == logging.DEBUG else max(level, logging.WARNING)
    for name, its_level in {
        "uvicorn": own,
        "uvicorn.error": own,
        "alembic": logging.WARNING,
        "sqlalchemy": logging.WARNING,
    }.items():
        foreign = logging.getLogger(name)
        foreign.handlers.clear()
        foreign.propagate = True
        foreign.setLevel(max(its_level, level))
    logging.getLogger("uvicorn.error").addFilter(_is_news)

    structlog.configure(
        processors=[ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        # Loggers are made at import, before the settings are known, and tests configure anew.
        cache_logger_on_first_use=False,
    )


def announcement(settings: Settings, event: str, text: str, **fields: object) -> str:
    """A line for standard output, which no level silences: the text, or in JSON the event."""
    if settings.log_format == "console":
        return console_line(text)
    first = {"timestamp": _instant(logging.makeLogRecord({})), "level": "info", "event": event}
    return json_line(first | fields)


def json_line(fields: Mapping[str, object]) -> str:
    """One line of JSON. What JSON has no form for is written as Python would show it."""
    return json.dumps(fields, default=repr, separators=(",", ":"))


def console_line(text: str) -> str:
    """The text with each character escaped that a terminal would not simply show."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def _formatter(settings: Settings) -> ProcessorFormatter:
    if settings.log_format == "json":
        render = _render_json
    else:
        coloured = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        render = _render_console_in_colour if coloured else _render_console
    return ProcessorFormatter(
        processors=[structlog.processors.format_exc_info, _complete, render],
    )


def _instant(record: logging.LogRecord) -> str:
    return format_instant(datetime.fromtimestamp(record.created, UTC))


def _is_news(record: logging.LogRecord) -> bool:
    return record.msg not in _SAID_BEFORE


def _complete(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Put the fields in order: when, how severe, what, by whom unless by us, and the rest."""
    record: logging.LogRecord = event.pop("_record")
    ours = event.pop("_from_structlog")
    first: EventDict = {
        "timestamp": _instant(record),
        "level": record.levelname.lower(),
        "event": event.pop("event"),
    }
    if not ours:
        first["logger"] = record.name
    # A caller's field never replaces one of these.
    first.update({name: value for name, value in event.items() if name not in first})
    return first


def _render_json(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    return json_line(event)


def _render_console(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    return _console(event, colour=None)


def _render_console_in_colour(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    return _console(event, colour=_LEVEL_COLOURS.get(event["level"]))


def _console(event: EventDict, *, colour: int | None) -> str:
    level = f"{event.pop('level'):{_LEVEL_WIDTH}}"
    if colour is not None:
        level = f"\x1b[{colour}m{level}\x1b[0m"
    parts = [event.pop("timestamp"), level, console_line(str(event.pop("event")).rstrip())]
    traceback = event.pop("exception", None)
    parts += [f"{console_line(name)}={_console_value(value)}" for name, value in event.items()]
    lines = [" ".join(parts)]
    if traceback is not None:
        lines += [_TRACEBACK_MARGIN + console_line(one) for one in str(traceback).split("\n")]
    return "\n".join(lines)


def _console_value(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    # Quotes show where a value ends, so that it cannot pass for the next field.
    if isinstance(value, str) and (not text or any(one in text for one in " =\"'")):
        text = json.dumps(text, ensure_ascii=False)
    return console_line(text)
