"""From a path to a source: the format is told by the file's first bytes, not by its name."""

from __future__ import annotations

from pathlib import Path

from egretta.jobs.readers.base import Source
from egretta.jobs.readers.transport import is_remote, reading, retried
from egretta.kernels.errors import CorruptInputError, UsageError

ROOT_MAGIC = b"root"
HEAD_BYTES = 32


def open_source(path: str, tree: str | None = None) -> Source:
    """Open a detector file for reading; close it, or use it as a context manager.

    ``path`` is a local path or a URL that fsspec knows (``root://``, ``https://``); the file is ROOT (TTree
    or RNTuple) or LHCb MDF. ``tree`` names the tree of a ROOT file; None takes ``RawEvent`` if the file
    holds one, else ``Velo``. A tree of 0 entries is fine.

    Raises MissingInputError, CorruptInputError, TransientError (after a few retries) or SiteError (no
    library for the protocol, permission denied).
    """
    head = retried(lambda: _first_bytes(path))
    if not head:
        raise CorruptInputError(
            f"{path} is empty (0 bytes)", hint="its writer or its copy failed; fetch or make it again"
        )
    if head[:4] == ROOT_MAGIC:
        from egretta.jobs.readers.root import open_root

        return open_root(path, tree)
    from egretta.jobs.readers.mdf import looks_like_mdf, open_mdf

    if not looks_like_mdf(head):
        raise CorruptInputError(
            f"{path} is neither a ROOT file nor LHCb MDF: it begins with {head[:8]!r}",
            hint="the file may be damaged, or of another kind; leave it out of the campaign",
        )
    if tree is not None:
        raise UsageError(f"{path} is an MDF: it has no tree {tree}", hint="leave out `tree`")
    return open_mdf(path)


def _first_bytes(path: str) -> bytes:
    with reading(path, "open"):
        if not is_remote(path):
            with Path(path.removeprefix("file://")).open("rb") as file:
                return file.read(HEAD_BYTES)
        import fsspec

        with fsspec.open(path, "rb", cache_type="none") as file:
            # a read from the middle comes first: it fails at once on a server that cannot serve ranges
            half = HEAD_BYTES // 2
            tail = b""
            if file.size is None or file.size > half:
                file.seek(half)
                tail = file.read(half)
            file.seek(0)
            return bytes(file.read(half) + tail)
