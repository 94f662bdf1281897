"""The schema's history. `runlease migrate` brings a PostgreSQL database to the newest revision;
a SQLite file is brought there when it is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

_FOLDER: Final = Path(__file__).parent


def upgrade(connection: Connection) -> None:
    """Bring the schema to the newest revision, inside the connection's transaction."""
    command.upgrade(_config(connection), "head")


def revisions() -> list[str]:
    """Every revision that this version knows, oldest first."""
    scripts = ScriptDirectory(str(_FOLDER))
    return [script.revision for script in scripts.walk_revisions()][::-1]


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config
