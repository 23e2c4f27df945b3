"""Raw banks out of a ``RawEvent`` tree, TTree or RNTuple."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from egretta.jobs.readers.base import Source
from egretta.jobs.readers.columns import Columns, plan_chunks, read_flat, read_jagged
from egretta.kernels.batches import BankBatch, Int32, Int64, UInt32
from egretta.kernels.errors import CorruptInputError

REQUIRED = ("bank_type", "bank_version", "bank_source", "bank_nwords", "data_word")


@dataclass(slots=True)
class BankSource(Source):
    """Banks of a tree, in the order of the file."""

    path: str
    tree: str
    n_entries: int
    uuid: str
    format: Literal["TTree", "RNTuple"]
    columns: Columns
    file: Any
    kind: Literal["banks"] = "banks"

    @property
    def bytes_read(self) -> int:
        """Bytes requested from the file so far, the headers included."""
        return int(self.file.file.source.num_requested_bytes)

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def _chunks(self, start: int, stop: int, batch_events: int) -> Iterator[tuple[int, int]]:
        return plan_chunks(self.columns.boundaries(REQUIRED), start, stop, batch_events)

    def _read(self, start: int, stop: int) -> BankBatch:
        columns = self.columns
        entry = np.arange(start, stop, dtype=np.int64)
        event = entry
        if "event" in columns.names:
            event = cast(Int64, read_flat(columns, "event", start, stop, np.int64))
        bank_offsets, bank_type = read_jagged(columns, "bank_type", start, stop, np.int32)
        headers = [cast(Int32, bank_type)]
        for name in ("bank_version", "bank_source", "bank_nwords"):
            others, values = read_jagged(columns, name, start, stop, np.int32)
            if not np.array_equal(bank_offsets, others):
                self._refuse(f"bank_type and {name} differ in length", start, stop)
            headers.append(cast(Int32, values))
        n_words = headers.pop()
        event_words, words = read_jagged(columns, "data_word", start, stop, np.uint32)
        word_offsets = np.zeros(len(n_words) + 1, dtype=np.int64)
        np.cumsum(n_words, out=word_offsets[1:])
        if (len(n_words) and n_words.min() < 0) or not np.array_equal(
            word_offsets[bank_offsets], event_words
        ):
            self._refuse("bank_nwords and data_word disagree", start, stop)
        return BankBatch(entry, event, bank_offsets, *headers, word_offsets, cast(UInt32, words))

    def _refuse(self, what: str, start: int, stop: int) -> None:
        raise CorruptInputError(
            f"{self.path}: {what} in entries [{start}, {stop}) of {self.tree}",
            hint="the file was written wrongly; make it again",
        )
