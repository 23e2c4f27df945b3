"""Every error that Egretta raises on purpose, and the class that decides what happens next.

The tree lives in the lowest room, so that each room can raise from it::

    EgrettaError                     failure class
    ├── UsageError                   (none: a person must act)  bad arguments, a locked campaign
    │   └── SpecError                (none)                     a campaign file that cannot be run
    ├── TransientError               transient                  may pass by itself: retry
    ├── DataError                    data                       the input is at fault: never retry
    │   ├── MissingInputError        data                       file, tree or branch that is not there
    │   └── CorruptInputError        data                       truncated, not ROOT, a bad bank
    ├── ResourceError                resource                   memory, disk or time ran out: retry with more
    ├── SiteError                    site                       this machine cannot do it: retry elsewhere
    └── CodeError                    code                       a bug or a broken model: stop and look

A message says what was being done, to which file, unit or job, why it failed, and what to do next.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar


class FailureClass(StrEnum):
    """Why an attempt failed; the class decides whether and how it is tried again."""

    TRANSIENT = "transient"
    DATA = "data"
    RESOURCE = "resource"
    SITE = "site"
    CODE = "code"


class EgrettaError(Exception):
    """Base of all errors. ``hint`` is the sentence that tells the reader what to do next."""

    failure_class: ClassVar[FailureClass | None] = None

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  what to do: {self.hint}" if self.hint else self.message


class UsageError(EgrettaError):
    """The request itself cannot be served."""


class SpecError(UsageError):
    """A campaign or site file that cannot be run as written."""


class TransientError(EgrettaError):
    """Something that may pass by itself: a lost connection, a server that restarts."""

    failure_class = FailureClass.TRANSIENT


class DataError(EgrettaError):
    """The input is at fault. Trying again cannot help."""

    failure_class = FailureClass.DATA


class MissingInputError(DataError):
    """A file, tree or branch that is not there."""


class CorruptInputError(DataError):
    """A file that is empty, truncated or of another format, or a bank that cannot be decoded."""


class ResourceError(EgrettaError):
    """Memory, disk or time ran out."""

    failure_class = FailureClass.RESOURCE


class SiteError(EgrettaError):
    """This machine cannot do the work: an unwritable directory, a missing library."""

    failure_class = FailureClass.SITE


class CodeError(EgrettaError):
    """A bug of ours, or a model that does not fit its pipeline."""

    failure_class = FailureClass.CODE
