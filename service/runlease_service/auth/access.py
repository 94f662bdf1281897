"""What a request needs, and whether whoever sends it has that.

Every path of the API has a rule here, or nobody may use it once there are credentials. The scope is
checked before anything is read or parsed, the prefix before any look at the database, so that an id
outside of a caller's prefixes is refused whether it exists or not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextvars import ContextVar
from datetime import datetime
from typing import Final

from runlease_service.auth.principal import Principal, Scope
from runlease_service.auth.tokens import TokenFile

PRINCIPAL: Final[ContextVar[Principal | None]] = ContextVar("principal", default=None)
"""Who asks; None where there are no credentials."""

OPEN: Final = frozenset({"/healthz", "/readyz", "/openapi.json", "/docs", "/v1/lifecycle"})
"""What says nothing of any run."""
VERBS: Final = {
    "acquire": Scope.WORK,
    "renew": Scope.WORK,
    "fence-checkpoint": Scope.WORK,
    "transition": Scope.WORK,
    "cancel": Scope.OPERATE,
    "resume": Scope.OPERATE,
    "revoke": Scope.OPERATE,
}
METHODS: Final = {"GET": Scope.READ, "PUT": Scope.STORE, "DELETE": Scope.STORE}
TOKEN_LENGTH_MAX: Final = 16_384
_BEARER: Final = re.compile(rb"(?i:bearer) +([A-Za-z0-9._~+/=-]+) *")


class Refusal(Exception):  # noqa: N818 (its status is what it is about)
    """The request is not allowed."""


class UnauthenticatedError(Refusal):
    """There is no credential, or it is not known."""


class ForbiddenError(Refusal):
    """The credential does not allow it."""


def needed_scope(method: str, path: str) -> Scope | None:
    """The scope that a request needs; None when it is open to everybody.

    Raises:
        ForbiddenError: The path has no rule.
    """
    if path in OPEN or path.startswith("/docs/"):
        return None
    if path == "/v1/leases/renew":
        return Scope.WORK
    if path == "/v1/runs":
        return Scope.WORK if method == "POST" else Scope.READ
    if path.startswith("/v1/runs/"):
        if method == "POST":
            scope = VERBS.get(path.rpartition("/")[2])
        else:
            scope = METHODS.get("GET" if method == "HEAD" else method)
        if scope is not None:
            return scope
    raise ForbiddenError("nobody may do this here")


class Access:
    """Recognises credentials and judges requests by them."""

    def __init__(self, tokens: TokenFile, now: Callable[[], datetime]) -> None:
        self._tokens = tokens
        self._now = now

    def judge(
        self,
        method: str,
        path: str,
        authorization: bytes | None,
        certificate: str | None = None,
    ) -> Principal | None:
        """Who asks, allowed to; None where anybody may. A token goes before a certificate.

        Raises:
            UnauthenticatedError: 401.
            ForbiddenError: 403.
        """
        try:
            scope = needed_scope(method, path)
        except ForbiddenError:
            self._recognise(authorization, certificate)  # who is nobody is told no more
            raise
        if scope is None:
            return None
        principal = self._recognise(authorization, certificate)
        if scope not in principal.scopes:
            raise ForbiddenError(f"the credential lacks the scope {scope}")
        return principal

    def _recognise(self, authorization: bytes | None, certificate: str | None) -> Principal:
        if authorization is None and certificate is not None:
            if known := self._tokens.find_certificate(certificate, self._now()):
                return known
            raise UnauthenticatedError("the certificate is not known, or its entry has expired")
        if authorization is None:
            raise UnauthenticatedError("send a credential: Authorization: Bearer TOKEN")
        found = _BEARER.fullmatch(authorization)
        if found is None or len(authorization) > TOKEN_LENGTH_MAX:
            raise UnauthenticatedError("the credential is no bearer token")
        principal = self._tokens.find(found[1].decode("ascii"), self._now())
        if principal is None:
            raise UnauthenticatedError("the credential is not known, or has expired")
        return principal


def check_covers(run_id: str) -> None:
    """Return when whoever asks may know of this run.

    Raises:
        ForbiddenError: 403.
    """
    principal = PRINCIPAL.get()
    if principal is not None and not principal.covers(run_id):
        raise ForbiddenError("the credential's prefixes do not cover this run")
