"""One runner a campaign.

The lock is the kernel's (flock): it goes when its holder dies, however it dies. The file's text says who
holds it; a file without a holder means nothing.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from egretta.kernels.errors import SiteError, UsageError


@contextmanager
def exclusive(path: Path, command: str) -> Iterator[None]:
    """Hold the campaign for ``command``. Raises UsageError if another process holds it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise SiteError(
            f"cannot write to the output directory {path.parent}: {error.strerror}",
            hint="give [output] a directory that this user can write to",
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"the campaign at {path.parent} is in use by {_holder(path)}",
                hint="wait for it, or stop it with Ctrl-C; `egretta status` shows how far it is",
            ) from None
        about = {"pid": os.getpid(), "host": socket.gethostname(), "command": command, "since": time.time()}
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(about).encode(), 0)
        yield
    finally:
        os.close(descriptor)


def is_held(path: Path) -> bool:
    """True while a process holds the lock."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _holder(path: Path) -> str:
    try:
        about = json.loads(path.read_text())
        return f"`egretta {about['command']}`, process {about['pid']} on {about['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
