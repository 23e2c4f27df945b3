"""From an exception to its failure class and the job's exit code."""

from __future__ import annotations

import errno

from egretta.kernels.errors import (
    CodeError,
    EgrettaError,
    FailureClass,
    ResourceError,
    SiteError,
    TransientError,
)

EXIT_USAGE = 2
"""The unit file itself could not be read: nothing was attempted, no manifest was written."""

EXIT_CODES: dict[FailureClass, int] = {
    FailureClass.TRANSIENT: 10,
    FailureClass.DATA: 11,
    FailureClass.RESOURCE: 12,
    FailureClass.SITE: 13,
    FailureClass.CODE: 14,
}

_RESOURCE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM, errno.EMFILE, errno.ENFILE}
_SITE = {
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.ENODEV,
    errno.ENXIO,
}
_TRANSIENT = {
    errno.EIO,
    errno.ESTALE,
    errno.EAGAIN,
    errno.EBUSY,
    errno.ETIMEDOUT,
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.ECONNABORTED,
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.EHOSTUNREACH,
    errno.EPIPE,
}
_HINTS = {
    FailureClass.RESOURCE: "free some space (or raise the quota), then `egretta run` again",
    FailureClass.SITE: "give an output directory that this user can write to, then `egretta run` again",
    FailureClass.TRANSIENT: "nothing: it is tried again; look at the file server if it persists",
}


def explain_os_error(error: OSError, doing: str) -> EgrettaError:
    """The error of ours for a file that could not be written; ``doing`` opens the message.

    What is neither a lack of something nor likely to pass is put down to the site.
    """
    kind = _kind_of(error) or SiteError
    return kind(f"{doing}: {error.strerror or error}", hint=_hint_for(kind))


def classify(error: BaseException) -> EgrettaError:
    """Any exception as one of ours; what nobody foresaw is a CodeError named ``unexpected``."""
    if isinstance(error, EgrettaError):
        return error
    if isinstance(error, MemoryError):
        return ResourceError(
            f"out of memory: {str(error) or 'an allocation failed'}",
            hint="raise memory_mb, or lower batch_events",
        )
    if isinstance(error, OSError) and (kind := _kind_of(error)) is not None:
        where = f" ({error.filename})" if error.filename else ""
        message = f"the operating system refused{where}: {error.strerror or error}"
        return kind(message, hint=_hint_for(kind))
    return CodeError(
        f"unexpected {type(error).__name__}: {error}",
        hint="this is a bug in Egretta or in the pipeline: report it with the traceback and the unit file",
    )


def class_of(error: EgrettaError) -> FailureClass:
    """The failure class; an error without one (a wrong option) stops the campaign as a code error does."""
    return error.failure_class or FailureClass.CODE


def exit_code(error: EgrettaError) -> int:
    """The job's exit code for an error: 10 transient, 11 data, 12 resource, 13 site, 14 code."""
    return EXIT_CODES[class_of(error)]


def _hint_for(kind: type[EgrettaError]) -> str:
    return _HINTS.get(kind.failure_class, "") if kind.failure_class else ""


def _kind_of(error: OSError) -> type[EgrettaError] | None:
    if error.errno in _RESOURCE:
        return ResourceError
    if error.errno in _SITE:
        return SiteError
    if error.errno in _TRANSIENT or isinstance(error, (ConnectionError, TimeoutError)):
        return TransientError
    return None
