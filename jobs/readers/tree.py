"""What the sources of hits and of banks share when they read a tree of a ROOT file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from egretta.jobs.readers.base import Source
from egretta.jobs.readers.columns import Columns, plan_chunks, read_flat
from egretta.kernels.batches import Int64


class TreeSource(Source):
    """A tree; ``names`` are the columns that are read, which decide where it is cut into chunks."""

    def __init__(self, columns: Columns, file: Any, names: list[str]) -> None:
        self.path = columns.path
        self.tree = columns.tree
        self.n_entries = columns.n_entries
        self.format = columns.format
        self.uuid = str(file.file.uuid)
        self.columns = columns
        self.names = names
        self._file = file

    @property
    def bytes_read(self) -> int:
        """Bytes requested from the file so far, the headers included."""
        return int(self._file.file.source.num_requested_bytes)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _chunks(self, start: int, stop: int, batch_events: int) -> Iterator[tuple[int, int]]:
        if start < stop:
            yield from plan_chunks(self.columns.boundaries(self.names), start, stop, batch_events)

    def _numbers(self, start: int, stop: int) -> tuple[Int64, Int64]:
        """Entry and event numbers; a tree without ``event`` numbers its events by entry."""
        entry = np.arange(start, stop, dtype=np.int64)
        if "event" not in self.columns.names:
            return entry, entry
        return entry, cast(Int64, read_flat(self.columns, "event", start, stop, np.int64))
