"""Files that appear whole or not at all: written under a temporary name, synced, then renamed into place.

The temporary name is ``.NAME.XXXXXXXX.tmp`` in the directory of the file itself, so that the rename stays
within one file system. Only a kill -9 or a power cut leaves one behind; nobody reads it.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from egretta.jobs.failures import explain_os_error


class AtomicFile:
    """A binary file to write, that takes its name by ``commit`` and vanishes without it.

    ``stream`` is the open file (readable too). ``what`` says in messages what the file is. Errors of the
    operating system become SiteError, ResourceError or TransientError.
    """

    def __init__(self, path: str | Path, *, what: str) -> None:
        self.path = Path(path)
        self.what = what
        self.temporary = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}.tmp")
        self.committed = False
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.stream: BinaryIO = self.temporary.open("w+b")
        except OSError as error:
            raise self.explained(error) from error

    def explained(self, error: OSError) -> Exception:
        """The error of ours that says which file could not be written, and why."""
        return explain_os_error(error, f"cannot write {self.what} {self.path}")

    def write(self, data: bytes) -> None:
        """Append bytes."""
        try:
            self.stream.write(data)
        except OSError as error:
            raise self.explained(error) from error

    def commit(self) -> None:
        """Bring the file to the disk and give it its name, over any file that had it.

        Where the disk is full, this says so at the latest. The stream is closed, if it is not yet.
        """
        try:
            self.stream.close()
            _sync(self.temporary)
            self.temporary.replace(self.path)
            self.committed = True
            # the name is safe from a power cut only once its directory is on the disk too
            _sync(self.path.parent)
        except OSError as error:
            raise self.explained(error) from error

    def discard(self) -> None:
        """Remove the temporary file; a committed file stays. Never raises."""
        with suppress(OSError):
            self.stream.close()
        if not self.committed:
            with suppress(OSError):
                self.temporary.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.discard()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
