"""`runlease token`: makes a token, and the entry that lets the service know it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import typer
import yaml

from runlease_core.errors import RunValidationError
from runlease_core.instant import whole_ms
from runlease_service.auth.principal import Scope
from runlease_service.auth.tokens import TokenFileError, entry_of, new_token

DAYS_MAX: Final = 36_500

token_commands = typer.Typer(help="Make tokens.", no_args_is_help=True, rich_markup_mode=None)


@token_commands.callback()
def _token() -> None:
    pass


@token_commands.command("new")
def _new(
    name: Annotated[str, typer.Argument(help="Whose it is; leases belong to this name.")],
    scope: Annotated[
        list[Scope],
        typer.Option("--scope", help="What it allows; may be given again.", metavar="SCOPE"),
    ],
    prefix: Annotated[
        list[str],
        typer.Option(
            "--prefix",
            help="Which runs: empty for all, or ending in a slash; may be given again.",
            metavar="PREFIX",
        ),
    ],
    days: Annotated[
        int | None,
        typer.Option("--days", min=1, max=DAYS_MAX, help="After how many days it expires."),
    ] = None,
) -> None:
    """Print a new token once, and the entry for the tokens file, which holds its hash alone."""
    token = new_token()
    expires_at = None if days is None else whole_ms(datetime.now(UTC) + timedelta(days=days))
    try:
        entry = entry_of(name, token, [one.value for one in scope], prefix, expires_at)
    except (TokenFileError, RunValidationError) as error:
        typer.echo(f"runlease token new: {error}", err=True)
        raise typer.Exit(2) from None
    typer.echo(f"# The token, shown this once: {token}", err=True)
    typer.echo("# Add to the list under `tokens:` in the file that --tokens-file names:", err=True)
    typer.echo(yaml.safe_dump([entry], sort_keys=False), nl=False)
