"""What can go wrong between a worker and the service, beside the core's refusals.

    RunleaseError
    ├── UnavailableError       no answer, or one that means "unknown outcome": safe to send again
    ├── RefusedError           the service refuses, for a reason that is none of the rules'
    │   └── AccessError        the credential does not allow it
    └── UnexpectedAnswerError  what answered does not speak as the service does

A refusal by the rules is a `RunStoreError` with its code, as everywhere.
"""

from __future__ import annotations


class RunleaseError(Exception):
    """The service could not be asked, or not understood."""


class UnavailableError(RunleaseError):
    """There was no answer in time, or one that says "try again". The outcome is unknown and every
    command is safe to send again, as long as the lease's deadline allows."""


class RefusedError(RunleaseError):
    """The service refused, as with PAYLOAD_TOO_LARGE, or for a reason that only a newer one knows.
    `code` names it; nothing was changed."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


class AccessError(RefusedError):
    """The credential is missing, expired, or not allowed to do this; `code` is UNAUTHENTICATED or
    FORBIDDEN. Sending it again does not help: mend the credential."""


class UnexpectedAnswerError(RunleaseError):
    """The answer is none of the service's: the URL leads elsewhere, or the versions do not match.
    The outcome is unknown."""
