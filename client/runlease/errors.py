"""What can go wrong between a worker and the service, beside the core's refusals.

    RunleaseError
    ├── UnavailableError     no answer, or one that means "unknown outcome": safe to send again
    ├── AccessError          the service does not let this credential do that
    └── UnexpectedAnswerError  what answered does not speak as the service does

A refusal by the rules is a `RunStoreError` with its code, as everywhere.
"""

from __future__ import annotations


class RunleaseError(Exception):
    """The service could not be asked, or not understood."""


class UnavailableError(RunleaseError):
    """There was no answer in time, or one that says "try again". The outcome is unknown and every
    command is safe to send again, as long as the lease's deadline allows."""


class AccessError(RunleaseError):
    """The credential is missing, expired, or not allowed to do this; `code` is UNAUTHENTICATED or
    FORBIDDEN. Sending it again does not help: mend the credential."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code


class UnexpectedAnswerError(RunleaseError):
    """The answer is none of the service's: the URL leads elsewhere, or the versions do not match.
    The outcome is unknown."""
