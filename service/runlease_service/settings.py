"""Every setting of the service: its default, its bounds and its one-line description.

This is the only list. The flags of `runlease serve`, the environment variables and the help text
are made from these fields. A setting comes from the constructor (which is what a flag becomes),
then from a file, then from the environment, then from its default; an empty variable counts as
absent. A setting that may hold a secret is never printed, and may be read from the file that
`RUNLEASE_<NAME>_FILE` names.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

ENVIRONMENT_PREFIX: Final = "RUNLEASE_"
SECRET_SETTINGS: Final = frozenset({"database_url"})
"""Settings that may hold a secret: readable from a file, and never printed."""
SECRET_BYTES_MAX: Final = 16_384

SQLITE_PREFIX: Final = "sqlite:///"
POSTGRES_SCHEMES: Final = frozenset({"postgres", "postgresql", "postgresql+asyncpg"})
_IN_MEMORY: Final = frozenset({"", ":memory:"})
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f]")
_PASSWORD: Final = re.compile(r"(?<=://)([^/@:]*):[^/]*@")


class SettingsError(ValueError):
    """A setting has a value that cannot be used. The message is one line, names the setting and
    its environment variable, and holds no secret."""


def environment_variable(name: str) -> str:
    """The variable that sets the setting of that name."""
    return f"{ENVIRONMENT_PREFIX}{name.upper()}"


def mask_password(url: str) -> str:
    """The URL with three stars where a password stands, fit to be printed."""
    return _PASSWORD.sub(r"\1:***@", url)


class _SecretFiles(PydanticBaseSettingsSource):
    """What stands in the files that `RUNLEASE_<NAME>_FILE` variables name."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        del field
        return self._read(field_name), field_name, False

    def __call__(self) -> dict[str, Any]:
        # What the constructor was given decides, so its file is not even looked for.
        wanted = SECRET_SETTINGS - self.current_state.keys()
        found = {name: self._read(name) for name in sorted(wanted)}
        return {name: value for name, value in found.items() if value is not None}

    @staticmethod
    def _read(name: str) -> str | None:
        variable = environment_variable(name)
        path = os.environ.get(f"{variable}_FILE")
        if not path:
            return None
        if os.environ.get(variable):
            raise SettingsError(f"{variable} and {variable}_FILE are both set; keep one of them")

        try:
            with Path(path).open("rb") as file:
                content = file.read(SECRET_BYTES_MAX + 1)
            value = content.decode().strip()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise SettingsError(f"{variable}_FILE: {path!r} cannot be read: {reason}") from error
        if not value or len(content) > SECRET_BYTES_MAX:
            problem = f"holds more than {SECRET_BYTES_MAX} bytes" if value else "is empty"
            raise SettingsError(f"{variable}_FILE: {path!r} {problem}")
        return value


class Settings(BaseSettings):
    """The settings of one service; they never change once made.

    Raises:
        ValidationError: A value is out of its bounds. `load_settings` says it in one line.
        SettingsError: A file that should hold a setting cannot be used.
    """

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX,
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        # An attribute's docstring would be a second description.
        use_attribute_docstrings=False,
    )

    host: str = Field(
        "127.0.0.1",
        min_length=1,
        max_length=255,
        description="Address to listen on; beyond loopback with tokens or --allow-unauthenticated.",
    )
    port: int = Field(
        8080, ge=0, le=65_535, description="Port to listen on; 0 takes a free one and prints it."
    )
    database_url: str = Field(
        "sqlite:///runlease.db",
        max_length=4096,
        repr=False,
        description="Where the runs are kept: sqlite:///relative.db, sqlite:////absolute.db or "
        "postgresql://user:password@host/database.",
    )
    workers: int = Field(
        1, ge=1, le=64, description="Processes that share the port and the database file."
    )
    tokens_file: str = Field(
        "",
        max_length=4096,
        description="File (YAML, JSON) of the bearer tokens that may be used; see runlease token.",
    )
    tls_certificate: str = Field(
        "", max_length=4096, description="File with the certificate chain to serve HTTPS with, PEM."
    )
    tls_key: str = Field(
        "", max_length=4096, description="File with the certificate's key, PEM, unencrypted."
    )
    tls_client_ca: str = Field(
        "",
        max_length=4096,
        description="File with the authorities whose client certificates are asked for, PEM.",
    )
    allow_unauthenticated: bool = Field(
        default=False,
        description="Serve an address that others can reach although nobody has to log in.",
    )
    log_format: Literal["console", "json"] = Field(
        "console", description="How a log line looks: console (for people) or json."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The least severe log lines to write: debug, info, warning or error."
    )

    lease_ttl_ms_default: int = Field(
        60_000,
        ge=100,
        le=86_400_000,
        description="Length of a lease whose request names none, in milliseconds.",
    )
    lease_ttl_ms_min: int = Field(
        100,
        ge=100,
        le=86_400_000,
        description="Shortest lease that may be asked for, in milliseconds.",
    )
    lease_ttl_ms_max: int = Field(
        86_400_000,
        ge=100,
        le=86_400_000,
        description="Longest lease that may be asked for, in milliseconds.",
    )

    body_bytes_max: int = Field(
        4_194_304, ge=1024, le=67_108_864, description="Largest request body, in bytes."
    )
    url_bytes_max: int = Field(
        8192, ge=1024, le=65_536, description="Longest request path with its query, in bytes."
    )
    body_wait_ms_max: int = Field(
        10_000,
        ge=100,
        le=600_000,
        description="How long a request's head, then its body may take to arrive, in milliseconds.",
    )
    request_wait_ms_max: int = Field(
        10_000,
        ge=100,
        le=600_000,
        description="How long a command may wait inside the service, in milliseconds.",
    )
    queue_depth_max: int = Field(
        10_000,
        ge=1,
        le=1_000_000,
        description="How many commands may wait; the next one is answered 503 at once.",
    )
    batch_commands_max: int = Field(
        512, ge=1, le=1000, description="How many commands share one transaction at most."
    )
    batch_leases_max: int = Field(
        1000, ge=1, le=1000, description="How many leases one request may renew."
    )
    list_limit_default: int = Field(
        100, ge=1, le=1000, description="Runs on a page whose request names no limit."
    )
    list_limit_max: int = Field(1000, ge=1, le=1000, description="Most runs on one page.")

    connections_max: int = Field(
        4096,
        ge=1,
        le=1_000_000,
        description="How many connections a process serves; further ones are answered 503.",
    )
    keep_alive_s: int = Field(
        75, ge=1, le=3600, description="How long an idle connection is kept open, in seconds."
    )
    backlog: int = Field(
        2048, ge=1, le=65_535, description="How many connections may wait to be accepted."
    )
    shutdown_wait_s: int = Field(
        10, ge=1, le=3600, description="How long open requests may take to end, in seconds."
    )
    database_wait_ms_max: int = Field(
        5000,
        ge=1,
        le=60_000,
        description="How long a statement waits for another process's lock, in milliseconds.",
    )
    read_connections_max: int = Field(
        4, ge=1, le=64, description="How many connections read the database at a time."
    )
    database_lanes: int = Field(
        2,
        ge=1,
        le=32,
        description="How many batches PostgreSQL takes at a time, each on its own connection.",
    )
    database_pooled: bool = Field(
        default=False,
        description="The URL leads to a pooler in transaction mode, such as pgbouncer.",
    )
    require_durable: bool = Field(
        default=False,
        description="Refuse a PostgreSQL server where an acknowledged write could vanish.",
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, files, environment; no .env is read, since nobody would look for it."""
        del dotenv_settings, file_secret_settings
        return init_settings, _SecretFiles(settings_cls), env_settings

    @field_validator("port", mode="before")
    @classmethod
    def _explain_service_links(cls, value: object) -> object:
        if isinstance(value, str) and value.startswith("tcp://"):
            raise ValueError(
                "this is what Kubernetes sets for a Service called runlease; "
                "put enableServiceLinks: false into its pod"
            )
        return value

    @field_validator("log_level", mode="before")
    @classmethod
    def _any_case(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value

    @field_validator("database_url")
    @classmethod
    def _supported_database(cls, value: str) -> str:
        scheme, separator, _ = value.partition("://")
        if separator and scheme in POSTGRES_SCHEMES:
            return value
        if not separator or scheme != "sqlite":
            # Only what can be nothing but a scheme is repeated: the rest may hold a password.
            known = separator and re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]{0,31}", scheme)
            found = f"{scheme}://" if known else "this"
            raise ValueError(
                f"{found} is not supported; name sqlite:///relative.db, sqlite:////absolute.db "
                "or postgresql://user:password@host/database"
            )
        path = value.removeprefix(SQLITE_PREFIX)
        if path in _IN_MEMORY or path.startswith("file:") or path == value:
            raise ValueError(
                "names no file, and leases kept in memory would be lost with the process; "
                "name a file: sqlite:///runlease.db"
            )
        if "?" in path or _CONTROL.search(path):
            raise ValueError("the path must hold no question mark and no control character")
        return value

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.lease_ttl_ms_min <= self.lease_ttl_ms_default <= self.lease_ttl_ms_max:
            raise ValueError(
                "lease_ttl_ms_min, lease_ttl_ms_default and lease_ttl_ms_max "
                f"({environment_variable('lease_ttl_ms_min')}, …) must rise in this order, not "
                f"{self.lease_ttl_ms_min}, {self.lease_ttl_ms_default}, {self.lease_ttl_ms_max}"
            )
        if self.queue_depth_max < self.batch_leases_max:
            raise ValueError(
                f"queue_depth_max ({environment_variable('queue_depth_max')}) must hold a whole "
                f"batch: at least batch_leases_max, {self.batch_leases_max}"
            )
        if bool(self.tls_certificate) != bool(self.tls_key):
            raise ValueError("tls_certificate and tls_key go together: name both or neither")
        if self.tls_client_ca and not self.tls_certificate:
            raise ValueError("tls_client_ca needs tls_certificate and tls_key")
        if self.list_limit_default > self.list_limit_max:
            raise ValueError(
                f"list_limit_default ({environment_variable('list_limit_default')}) must not "
                f"exceed list_limit_max, {self.list_limit_max}, not {self.list_limit_default}"
            )
        return self

    @property
    def scheme(self) -> str:
        """What it is served by, `http` or `https`."""
        return "https" if self.tls_certificate else "http"

    @property
    def database_label(self) -> str:
        """The database as it may be printed."""
        return mask_password(self.database_url)

    @property
    def database_path(self) -> Path:
        """The SQLite file."""
        return Path(self.database_url.removeprefix(SQLITE_PREFIX))


def load_settings(given: dict[str, Any] | None = None) -> Settings:
    """The settings from these values, then files, environment and defaults.

    Raises:
        SettingsError: A value cannot be used; the message is one line for the operator.
    """
    try:
        return Settings(**(given or {}))
    except ValidationError as error:
        lines = [_explain(details) for details in error.errors(include_url=False)]
        raise SettingsError("; ".join(lines)) from None


def _explain(error: ErrorDetails) -> str:
    if error["type"] == "extra_forbidden":
        return f"{error['loc'][0]} is no setting"
    problem = error["msg"].removeprefix("Value error, ").removeprefix("Input ")
    if not error["loc"]:
        return problem
    name = str(error["loc"][0])
    found = "" if name in SECRET_SETTINGS else f" (found {str(error['input'])[:100]!r})"
    return f"{name} ({environment_variable(name)}): {problem}{found}"
