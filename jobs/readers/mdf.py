"""LHCb MDF files: events one after another, found by walking their headers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from egretta.jobs.readers.base import Source
from egretta.jobs.readers.transport import is_remote, reading, retried
from egretta.kernels.batches import BankBatch, Int64
from egretta.kernels.errors import CorruptInputError
from egretta.kernels.mdf import HEADER_BYTES, parse_events, read_header, words_of

# A chunk is one read; larger ones would only take memory.
CHUNK_BYTES = 32 * 2**20
# Three equal words may be text or noise; an event of this size is neither read out nor stored.
LARGEST_EVENT_BYTES = 2**28


def looks_like_mdf(head: bytes) -> bool:
    """Whether a file's first bytes are an MDF event's: the same credible size three times."""
    if len(head) < HEADER_BYTES or not head[:4] == head[4:8] == head[8:12]:
        return False
    return HEADER_BYTES <= int.from_bytes(head[:4], "little") < LARGEST_EVENT_BYTES


def open_mdf(path: str) -> Source:
    """Open an MDF file and find its events; only their headers are read.

    Raises CorruptInputError if the headers do not chain to the end of the file (a truncated file), or if
    events are compressed.
    """
    file, size = retried(lambda: _open(path))
    try:
        return MdfSource(path, file, size)
    except BaseException:
        file.close()
        raise


def _open(path: str) -> tuple[Any, int]:
    with reading(path, "open"):
        file: Any
        if is_remote(path):
            import fsspec

            # chunks are read whole and headers far apart: reading ahead would only fetch what is not used
            file = fsspec.open(path, "rb", cache_type="none").open()
        else:
            file = Path(path.removeprefix("file://")).open("rb", buffering=0)  # noqa: SIM115 - the source owns it
        return file, file.seek(0, 2)


class MdfSource(Source):
    """All banks of an MDF's events. ``uuid`` is a hash of the file's size and of all event headers.

    The format has no index: opening reads 20 bytes an event, over a network one request each.
    """

    kind = "banks"
    format = "MDF"
    tree = None

    def __init__(self, path: str, file: Any, size: int) -> None:
        self.path = path
        self._file = file
        self._bytes_read = 0
        self._event_at, digest = self._index(size)
        self.n_entries = len(self._event_at) - 1
        self.uuid = digest

    @property
    def bytes_read(self) -> int:
        """Bytes read from the file so far, the event headers included."""
        return self._bytes_read

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _bytes(self, at: int, length: int) -> bytes:
        def read() -> bytes:
            with reading(self.path, f"read bytes {at} to {at + length} of"):
                self._file.seek(at)
                parts, missing = [], length
                # an unbuffered read may return less than it was asked for
                while missing and (part := self._file.read(missing)):
                    parts.append(part)
                    missing -= len(part)
                return b"".join(parts)

        data = retried(read)
        self._bytes_read += len(data)
        if len(data) != length:
            raise CorruptInputError(
                f"{self.path} is truncated: it ends {length - len(data)} bytes before byte {at + length}",
                hint="copy the file again",
            )
        return data

    def _index(self, size: int) -> tuple[Int64, str]:
        """Where events begin (int64, n + 1, in bytes), and the hash of what was read to find out."""
        event_at = [0]
        digest = hashlib.sha256(str(size).encode())
        while (at := event_at[-1]) < size:
            where = f"event {len(event_at) - 1} of {self.path}, at byte {at}"
            if size - at < HEADER_BYTES:
                raise CorruptInputError(
                    f"{where}, is truncated: {size - at} bytes are left of its header",
                    hint="copy the file again",
                )
            head = self._bytes(at, HEADER_BYTES)
            try:
                header = read_header(head)
            except CorruptInputError as error:
                raise CorruptInputError(
                    f"cannot read {where}: {error.message}",
                    hint=error.hint or "the file is damaged from there on; fetch it again, or leave it out",
                ) from error
            if at + header.size > size:
                raise CorruptInputError(
                    f"{where}, is truncated: {size - at} bytes are left of {header.size}",
                    hint="copy the file again; its writer may not have finished",
                )
            digest.update(head)
            event_at.append(at + header.size)
        return np.array(event_at, dtype=np.int64), digest.hexdigest()[:32]

    def _chunks(self, start: int, stop: int, batch_events: int) -> Iterator[tuple[int, int]]:
        at = self._event_at
        first = start
        while first < stop:
            fits = int(np.searchsorted(at, at[first] + CHUNK_BYTES, side="right")) - 1
            last = min(max(fits, first + 1), first + batch_events, stop)
            yield first, last
            first = last

    def _read(self, start: int, stop: int) -> BankBatch:
        at = self._event_at[start : stop + 1]
        words = words_of(self._bytes(int(at[0]), int(at[-1] - at[0])))
        return parse_events(words, (at - at[0]) // 4, start)
