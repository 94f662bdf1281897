"""The command `runlease`: its flags, the socket, the processes, and how they end.

The options of `serve` are made from the fields of `Settings`; there is no second list. A flag goes
before the environment, and is handed down through the environment, so that every worker process
reads the same settings. Exit codes: 0 after SIGTERM or SIGINT, 1 when the service cannot start
here (a busy port, an unusable database), 2 when it was asked for something that it does not do.
What an operator can mend is one line on standard error; only a fault of ours is a traceback.
"""

from __future__ import annotations

import inspect
import os
import signal
import socket
import ssl
from collections.abc import Mapping
from importlib.metadata import version
from ipaddress import ip_address
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Final, Literal, NoReturn, cast, get_args, get_origin

import structlog
import typer
from pydantic.fields import FieldInfo

from runlease_service.auth.cli import token_commands
from runlease_service.auth.tokens import TokenFile, TokenFileError
from runlease_service.database.base import DatabaseSetupError
from runlease_service.logs import announcement, configure_logging
from runlease_service.processes import ENDING_SIGNALS, serve_on
from runlease_service.settings import (
    SECRET_SETTINGS,
    SQLITE_PREFIX,
    Settings,
    SettingsError,
    environment_variable,
    load_settings,
)

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2

_FLAGS: Final = {"database_url": "database"}
"""Flags that are not called like their setting."""

log = structlog.get_logger()

commands = typer.Typer(
    name="runlease",
    help="Leases for long-running runs: one owner at a time, fenced by tokens.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command that the arguments name, and exit."""
    commands(prog_name="runlease")


def _show_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it with the flag
    if wanted:
        typer.echo(f"runlease {version('runlease')}")
        raise typer.Exit


@commands.callback()
def _common(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_show_version, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    pass


# The flags of serve.


def _serve(**given: str | bool | None) -> None:
    """Serve leases over HTTP until SIGTERM or SIGINT."""
    # A container's first process ignores a signal that it has no handler for.
    for one in ENDING_SIGNALS:
        signal.signal(one, _end_early)
    flags = {name: value for name, value in given.items() if value is not None}
    try:
        settings = load_settings(flags)
    except SettingsError as error:
        _stop(str(error), EXIT_USAGE)

    _hand_down(flags)
    configure_logging(settings)
    if settings.tokens_file:
        try:
            TokenFile(Path(settings.tokens_file))
        except TokenFileError as error:
            _stop(f"tokens_file (RUNLEASE_TOKENS_FILE): {error}", EXIT_USAGE)
    _check_tls(settings)
    listening = _bind(settings)

    def announce() -> None:
        typer.echo(_startup_line(settings, listening))

    raise typer.Exit(0 if serve_on(listening, settings, announce) else EXIT_FAILED)


def _signature() -> inspect.Signature:
    return inspect.Signature([_option(*item) for item in Settings.model_fields.items()])


def _option(name: str, field: FieldInfo) -> inspect.Parameter:
    # Values stay text until Settings reads them, so a flag and a variable follow the same rules
    # and are refused in the same words.
    is_switch = field.annotation is bool
    default = "off" if is_switch else field.default if field.default != "" else "none"
    option = typer.Option(
        None,
        f"--{_FLAGS.get(name, name).replace('_', '-')}",
        help=f"{field.description} [env: {environment_variable(name)}; default: {default}]",
        metavar=None if is_switch else _metavar(field),
    )
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=option,
        annotation=bool | None if is_switch else str | None,
    )


def _metavar(field: FieldInfo) -> str:
    if get_origin(field.annotation) is Literal:
        return "|".join(get_args(field.annotation))
    return "NUMBER" if field.annotation is int else "TEXT"


# typer reads a command's options from its signature; this one is made from the settings.
cast("Any", _serve).__signature__ = _signature()
commands.command("serve")(_serve)


@commands.command("migrate")
def _migrate(
    database: Annotated[
        str | None,
        typer.Option(help="The PostgreSQL database. [env: RUNLEASE_DATABASE_URL]", metavar="URL"),
    ] = None,
) -> None:
    """Bring a PostgreSQL database to the schema of this version; a SQLite file needs none."""
    try:
        settings = load_settings({"database_url": database} if database else {})
        if settings.database_url.startswith(SQLITE_PREFIX):
            typer.echo("a SQLite file is brought to this version's schema when it is served")
            return
        from runlease_service.database.migrate import migrate  # noqa: PLC0415 - the extra [postgres]

        typer.echo(migrate(settings.database_url, pooled=settings.database_pooled))
    except SettingsError as error:
        _stop(str(error), EXIT_USAGE, command="migrate")
    except DatabaseSetupError as error:
        _stop(str(error), EXIT_FAILED, command="migrate")
    except ModuleNotFoundError as error:
        _stop(
            f"needs {error.name}: pip install 'runlease[postgres]'", EXIT_USAGE, command="migrate"
        )


commands.add_typer(token_commands, name="token")


@commands.command("openapi")
def _openapi() -> None:
    """Print the OpenAPI document of this version as YAML."""
    from runlease_service.api.openapi import to_yaml  # noqa: PLC0415 - FastAPI is slow to import
    from runlease_service.app import create_app  # noqa: PLC0415 - likewise

    typer.echo(to_yaml(create_app().openapi()), nl=False)


def _check_tls(settings: Settings) -> None:
    """End with a line where uvicorn would with a traceback."""
    if not settings.tls_certificate:
        return
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # Never ask on a terminal for the password of a key.
        context.load_cert_chain(settings.tls_certificate, settings.tls_key, lambda: "")
        if settings.tls_client_ca:
            context.load_verify_locations(settings.tls_client_ca)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, FileNotFoundError) else str(error)
        _stop(f"tls_certificate, tls_key or tls_client_ca cannot be used: {reason}", EXIT_USAGE)


def _hand_down(flags: Mapping[str, str | bool]) -> None:
    for name, value in flags.items():
        variable = environment_variable(name)
        os.environ[variable] = str(value)
        if name in SECRET_SETTINGS:
            os.environ.pop(f"{variable}_FILE", None)


def _end_early(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)


def _stop(message: str, code: int, *, command: str = "serve") -> NoReturn:
    typer.echo(f"runlease {command}: {message}", err=True)
    raise typer.Exit(code)


# The socket. It is bound here, so that port 0 is known before the first worker starts, and it
# listens at once, since two sockets may be bound to one port until one of them does.


def _bind(settings: Settings) -> socket.socket:
    host, port = settings.host, settings.port
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no host name"
        _stop(f"host {host!r} is no address of this machine: {reason}", EXIT_FAILED)
    # `localhost` is often both; what most clients try is 127.0.0.1.
    family, kind, protocol, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
    is_open = not settings.tokens_file and not settings.allow_unauthenticated
    if not _is_loopback(address) and is_open:
        _stop(
            f"{host} can be reached by others, and nobody would have to log in: "
            "name a file of tokens (--tokens-file; `runlease token new` makes one), or put an "
            "authenticating proxy in front and pass --allow-unauthenticated, or bind loopback "
            "(--host 127.0.0.1)",
            EXIT_USAGE,
        )

    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(settings.backlog)
    except OSError as error:
        listening.close()
        _stop(
            f"cannot listen on {host} port {port}: {error.strerror}; "
            "choose another with --host and --port",
            EXIT_FAILED,
        )
    listening.set_inheritable(True)
    return listening


def _is_loopback(address: tuple[Any, ...]) -> bool:
    # The address that is bound is judged, not the name that led to it.
    return ip_address(str(address[0]).partition("%")[0]).is_loopback


def _startup_line(settings: Settings, listening: socket.socket) -> str:
    address = listening.getsockname()
    host = f"[{address[0]}]" if listening.family == socket.AF_INET6 else address[0]
    url = f"{settings.scheme}://{host}:{address[1]}"
    trust = "loopback only" if _is_loopback(address) else "allowed by --allow-unauthenticated"
    authentication = f"none ({trust})"
    if settings.tokens_file:
        authentication = f"tokens from {settings.tokens_file}"
    return announcement(
        settings,
        "listening",
        f"runlease {version('runlease')} listening on {url}, "
        f"database {settings.database_label}, authentication {authentication}",
        version=version("runlease"),
        url=url,
        database=settings.database_label,
        authentication=authentication,
    )


if __name__ == "__main__":
    main()
