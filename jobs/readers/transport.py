"""What can go wrong between a job and a file's bytes: named, classed, and tried again where that helps."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from egretta.kernels.errors import (
    CorruptInputError,
    EgrettaError,
    MissingInputError,
    ResourceError,
    SiteError,
    TransientError,
)

T = TypeVar("T")
ATTEMPTS = 4
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 8.0

# A local file system may lose its server too.
_PASSING_ERRNOS = {
    errno.EIO,
    errno.ESTALE,
    errno.ETIMEDOUT,
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.ENETUNREACH,
    errno.EHOSTUNREACH,
    errno.EPIPE,
}
# fsspec says in words only that a server ignores ranges, and XRootD why it did not open a file.
_NO_RANGES = re.compile(r"range requests|streaming HTTP file", re.IGNORECASE)
_XROOTD_MISSING = re.compile(r"\[3011\]|no such file", re.IGNORECASE)
_XROOTD_PASSING = re.compile(r"connection|expired|timed? ?out|socket|\[FATAL\]", re.IGNORECASE)
# aiohttp's and fsspec's own classes, without importing either.
_PASSING_CLASSES = {"ClientConnectionError", "ClientPayloadError", "FSTimeoutError"}
_PASSING_STATUS = {408, 425, 429, 500, 502, 503, 504}


def is_remote(path: str) -> bool:
    """Whether the path is a URL rather than a file of this machine."""
    return "://" in path and not path.startswith("file://")


def _is_xrootd(path: str) -> bool:
    return path.startswith(("root://", "roots://", "xroot://"))


def _http_status(error: BaseException) -> int | None:
    status = getattr(error, "status", None)
    return status if isinstance(status, int) else None


def is_passing(error: BaseException, path: str) -> bool:
    """Whether an error that a library below us raised over ``path`` may pass by itself.

    Causes are looked at too: fsspec says "file not found" when it could not connect.
    """
    status = _http_status(error)
    if status is not None:
        return status in _PASSING_STATUS
    if isinstance(error, (ConnectionError, TimeoutError)):
        return True
    if isinstance(error, OSError) and error.errno in _PASSING_ERRNOS:
        return True
    if _is_xrootd(path) and isinstance(error, OSError) and _XROOTD_PASSING.search(str(error)):
        return True
    if any(kind.__name__ in _PASSING_CLASSES for kind in type(error).__mro__):
        return True
    return error.__cause__ is not None and is_passing(error.__cause__, path)


@contextmanager
def reading(path: str, action: str) -> Iterator[None]:
    """Turn what a library raises while it reads ``path`` into an error of our tree.

    Only calls of the library belong inside: whatever is not known is taken for a corrupt file.
    """
    try:
        yield
    except EgrettaError:
        raise
    except MemoryError as error:
        raise ResourceError(
            f"out of memory while trying to {action} {path}",
            hint="give the job more memory, or smaller batches",
        ) from error
    except ImportError as error:
        package = "'egretta[xrootd]'  (fsspec-xrootd)" if _is_xrootd(path) else "the package that it names"
        raise SiteError(
            f"cannot {action} {path}: {_first_line(error)}",
            hint=f"pip install {package} on this machine",
        ) from error
    except Exception as error:
        if is_passing(error, path):
            raise TransientError(
                f"could not {action} {path}: {type(error).__name__}: {_first_line(error)}",
                hint="try again later; check that the server answers",
            ) from error
        if isinstance(error, FileNotFoundError):
            raise MissingInputError(
                f"cannot {action} {path}: no such file",
                hint="check the path, and whether it is mounted here",
            ) from error
        if isinstance(error, (IsADirectoryError, NotADirectoryError)):
            raise MissingInputError(
                f"cannot {action} {path}: {_first_line(error)}", hint="give the path of a file"
            ) from error
        if isinstance(error, PermissionError):
            raise SiteError(
                f"cannot {action} {path}: permission denied",
                hint="check the file's mode, or the token or proxy of this job",
            ) from error
        status = _http_status(error)
        if status in {401, 403}:
            raise SiteError(
                f"cannot {action} {path}: the server refuses (HTTP {status})", hint="check the job's token"
            ) from error
        if status in {404, 410} or (_is_xrootd(path) and _XROOTD_MISSING.search(str(error))):
            raise MissingInputError(
                f"cannot {action} {path}: {_first_line(error)}", hint="check the URL"
            ) from error
        if is_remote(path) and _NO_RANGES.search(str(error)):
            raise SiteError(
                f"cannot {action} {path}: the server does not serve ranges of a file",
                hint="copy the file to a local disk, or serve it by XRootD or a server with range requests",
            ) from error
        raise CorruptInputError(
            f"cannot {action} {path}: {type(error).__name__}: {_first_line(error)}",
            hint="the file may be truncated or damaged; fetch it again, or leave it out of the campaign",
        ) from error


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:2]) if lines else type(error).__name__


def retried(call: Callable[[], T]) -> T:
    """Call, and call again after growing pauses as long as it raises TransientError."""
    from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

    retrying = Retrying(
        retry=retry_if_exception_type(TransientError),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random_exponential(multiplier=FIRST_WAIT_S, max=LONGEST_WAIT_S),
        reraise=True,
    )
    return retrying(call)
