"""What a source of events is to a job, and the reading by chunks that every format shares."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from types import TracebackType
from typing import Literal, Self

from egretta.jobs.readers.slicing import slice_batch
from egretta.kernels.batches import BankBatch, HitBatch
from egretta.kernels.errors import UsageError


class Source(ABC):
    """An open input file, read in batches of events. A context manager.

    ``kind`` says what its batches hold; ``tree`` is the name of the tree read (None for an MDF);
    ``uuid`` identifies the file's content, not its place; ``format`` is for people.
    """

    path: str
    kind: Literal["hits", "banks"]
    tree: str | None
    n_entries: int
    uuid: str
    format: Literal["TTree", "RNTuple", "MDF"]

    @property
    @abstractmethod
    def bytes_read(self) -> int:
        """Bytes requested from the file so far."""

    @abstractmethod
    def close(self) -> None:
        """Release the file. Reading afterwards is an error."""

    @abstractmethod
    def _chunks(self, start: int, stop: int, batch_events: int) -> Iterator[tuple[int, int]]:
        """Cut [start, stop) where the file stores it in pieces that are cheap to read as a whole."""

    @abstractmethod
    def _read(self, start: int, stop: int) -> HitBatch | BankBatch:
        """Read one chunk."""

    def batches(self, start: int, stop: int, batch_events: int) -> Iterator[HitBatch | BankBatch]:
        """Yield the entries [start, stop) in order, at most ``batch_events`` a batch.

        One chunk is in memory at a time: what the file compresses together (the baskets of a range, a
        cluster), so that nothing is decompressed twice; a batch is a view of its chunk. An empty range
        yields nothing.

        Raises UsageError for a range outside the file, CorruptInputError for data that cannot be read,
        TransientError once the retries of a lost connection are used up.
        """
        if not 0 <= start <= stop <= self.n_entries:
            raise UsageError(
                f"cannot read entries [{start}, {stop}) of {self.path}: it has {self.n_entries}",
                hint="the file may have changed since it was planned; plan again",
            )
        if batch_events < 1:
            raise UsageError(f"batch_events must be at least 1, not {batch_events}")
        for first, last in self._chunks(start, stop, batch_events):
            chunk = self._read(first, last)
            # equal shares rather than full batches and a small rest
            parts = -(-(last - first) // batch_events)
            for part in range(parts):
                low = (last - first) * part // parts
                yield slice_batch(chunk, low, (last - first) * (part + 1) // parts)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
