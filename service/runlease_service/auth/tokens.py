"""Credentials from a file: bearer tokens, of which it holds the SHA-256 alone, and certificates.

A token has 256 random bits, so its plain hash tells nothing. The file is looked at again at most
once a second, when somebody asks; one that cannot be read or understood leaves the last good one in
place, and the log says so once. Nothing here ever writes a token, or part of one, anywhere.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import structlog
import yaml

from runlease_core.errors import RunValidationError
from runlease_core.fields import check_text
from runlease_core.instant import format_instant, parse_instant
from runlease_service.auth.principal import Principal, Scope, check_prefix

log = structlog.get_logger()

LOOK_S: Final = 1.0
"""How often the file is looked at again at most, in seconds."""
FILE_BYTES_MAX: Final = 4_194_304
NAME_LENGTH_MAX: Final = 128
TOKEN_PREFIX: Final = "rl_"  # noqa: S105 (so that a leaked token is found by those who search)
_SHA256: Final = re.compile("[0-9a-f]{64}")
_FIELDS: Final = frozenset({"name", "sha256", "certificate", "scopes", "prefixes", "expiresAt"})
_REQUIRED: Final = frozenset({"name", "scopes", "prefixes"})


class TokenFileError(ValueError):
    """The file cannot be used; the message says which entry is wrong, and holds no secret."""


@dataclass(frozen=True, slots=True)
class _Entry:
    digest: bytes | str
    """The token's digest, or the common name of a certificate."""
    principal: Principal
    expires_at: datetime | None

    def at(self, now: datetime) -> Principal | None:
        """The principal, unless it has expired."""
        return None if self.expires_at is not None and self.expires_at <= now else self.principal


def new_token() -> str:
    """A fresh token."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def entry_of(
    name: str,
    token: str,
    scopes: list[str],
    prefixes: list[str],
    expires_at: datetime | None = None,
) -> dict[str, Any]:
    """What stands for the token in the file."""
    entry: dict[str, Any] = {
        "name": name,
        "sha256": hashlib.sha256(token.encode()).hexdigest(),
        "scopes": scopes,
        "prefixes": prefixes,
    }
    if expires_at is not None:
        entry["expiresAt"] = format_instant(expires_at)
    read_entries({"tokens": [entry]})
    return entry


def read_entries(data: object) -> dict[bytes | str, _Entry]:
    """The entries of a parsed file, by a token's digest or a certificate's common name.

    Raises:
        TokenFileError: One of them cannot be understood.
    """
    if not isinstance(data, Mapping) or set(data) != {"tokens"}:
        raise TokenFileError("the file must hold `tokens:` and a list")
    items = data["tokens"]
    if not isinstance(items, list) or not items:
        raise TokenFileError("tokens: must be a list of at least one")
    entries: dict[bytes | str, _Entry] = {}
    names: set[str] = set()
    for index, item in enumerate(items):
        try:
            entry = _entry(item)
        except (ValueError, RunValidationError) as error:
            raise TokenFileError(f"tokens[{index}]: {error}") from None
        if entry.digest in entries or entry.principal.subject in names:
            raise TokenFileError(f"tokens[{index}]: its name or credential stands there twice")
        entries[entry.digest] = entry
        names.add(entry.principal.subject)
    return entries


def _entry(item: object) -> _Entry:
    if not isinstance(item, Mapping):
        raise TokenFileError("must be an object")
    if unknown := sorted(map(str, item.keys() - _FIELDS)):
        raise TokenFileError(f"{unknown[0]} is not a known field")
    if missing := sorted(_REQUIRED - item.keys()):
        raise TokenFileError(f"{missing[0]} is missing")
    name = check_text(item["name"], "name", length_max=NAME_LENGTH_MAX)
    scopes, prefixes = item["scopes"], item["prefixes"]
    if not isinstance(scopes, list) or not scopes or not set(scopes) <= set(Scope):
        raise TokenFileError(f"scopes: must be a list of {', '.join(Scope)}")
    if not isinstance(prefixes, list) or not prefixes:
        raise TokenFileError("prefixes: must be a list of at least one")
    expires = item.get("expiresAt")
    if isinstance(expires, datetime):  # YAML reads an instant by itself
        expires = expires.replace(tzinfo=expires.tzinfo or UTC).isoformat()
    return _Entry(
        _key(item),
        Principal(
            name, frozenset(map(Scope, scopes)), tuple(check_prefix(prefix) for prefix in prefixes)
        ),
        None if expires is None else parse_instant(expires, "expiresAt"),
    )


def _key(item: Mapping[str, Any]) -> bytes | str:
    if ("sha256" in item) == ("certificate" in item):
        raise TokenFileError("one of sha256 and certificate must be there")
    if "certificate" in item:
        return check_text(item["certificate"], "certificate", length_max=NAME_LENGTH_MAX)
    digest = item["sha256"]
    if not isinstance(digest, str) or not _SHA256.fullmatch(digest):
        raise TokenFileError("sha256: must be 64 lower-case hexadecimal digits")
    return bytes.fromhex(digest)


class TokenFile:
    """The tokens of a file, as it is now.

    Raises:
        TokenFileError: The file cannot be used at the start.
    """

    def __init__(self, path: Path, seconds: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._seconds = seconds
        self._looked_at = seconds()
        self._seen = self._mark()
        self._entries = self._read()

    def find(self, token: str, now: datetime) -> Principal | None:
        """Whose token this is; None when nobody's, or past its expiry."""
        self._look()
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        entry = self._entries.get(digest)
        # The dictionary compares digests of what was sent, which tells nothing of a token's; the
        # comparison in constant time is the last word all the same.
        if (
            entry is None
            or not isinstance(entry.digest, bytes)
            or not hmac.compare_digest(entry.digest, digest)
        ):
            return None
        return entry.at(now)

    def find_certificate(self, common_name: str, now: datetime) -> Principal | None:
        """Whose certificate this is, by the name that its authority vouches for."""
        self._look()
        entry = self._entries.get(common_name)
        return None if entry is None else entry.at(now)

    def _look(self) -> None:
        now = self._seconds()
        if now - self._looked_at < LOOK_S:
            return
        self._looked_at = now
        mark = self._mark()
        if mark == self._seen:
            return
        self._seen = mark
        try:
            self._entries = self._read()
        except TokenFileError as error:
            log.error("tokens_file_unusable", path=str(self._path), error=str(error))  # noqa: TRY400
        else:
            log.info("tokens_file_read", path=str(self._path), tokens=len(self._entries))

    def _mark(self) -> tuple[int, int, int] | None:
        """What changes when the file does; a link may come to lead elsewhere."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read(self) -> dict[bytes | str, _Entry]:
        try:
            with self._path.open("rb") as file:
                content = file.read(FILE_BYTES_MAX + 1)
            if len(content) > FILE_BYTES_MAX:
                raise TokenFileError(f"the file is larger than {FILE_BYTES_MAX} bytes")
            data = yaml.safe_load(content)
        except (OSError, yaml.YAMLError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no YAML"
            raise TokenFileError(f"{self._path} cannot be read: {reason}") from None
        return read_entries(data)
