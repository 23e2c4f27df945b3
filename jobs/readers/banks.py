"""Raw banks out of a ``RawEvent`` tree, TTree or RNTuple."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from egretta.jobs.readers.columns import Columns, read_jagged
from egretta.jobs.readers.tree import TreeSource
from egretta.kernels.batches import BankBatch, Int32, UInt32
from egretta.kernels.errors import CorruptInputError

REQUIRED = ("bank_type", "bank_version", "bank_source", "bank_nwords", "data_word")


class BankSource(TreeSource):
    """Banks of a tree, in the order of the file."""

    kind = "banks"

    def __init__(self, columns: Columns, file: Any) -> None:
        super().__init__(columns, file, list(REQUIRED))

    def _read(self, start: int, stop: int) -> BankBatch:
        entry, event = self._numbers(start, stop)
        headers: dict[str, Int32] = {}
        bank_offsets = np.zeros(0, dtype=np.int64)
        for name in REQUIRED[:-1]:
            offsets, values = read_jagged(self.columns, name, start, stop, np.int32)
            if headers and not np.array_equal(bank_offsets, offsets):
                raise self._disagreement(f"bank_type and {name} differ in length", start, stop)
            bank_offsets, headers[name] = offsets, cast(Int32, values)
        event_words, words = read_jagged(self.columns, "data_word", start, stop, np.uint32)
        n_words = headers["bank_nwords"]
        word_offsets = np.zeros(len(n_words) + 1, dtype=np.int64)
        np.cumsum(n_words, out=word_offsets[1:])
        if np.any(n_words < 0) or not np.array_equal(word_offsets[bank_offsets], event_words):
            raise self._disagreement("bank_nwords and data_word disagree", start, stop)
        return BankBatch(
            entry,
            event,
            bank_offsets,
            headers["bank_type"],
            headers["bank_version"],
            headers["bank_source"],
            word_offsets,
            cast(UInt32, words),
        )

    def _disagreement(self, what: str, start: int, stop: int) -> CorruptInputError:
        return CorruptInputError(
            f"{self.path}: {what} in entries [{start}, {stop}) of {self.tree}",
            hint="the file was written wrongly; make it again",
        )
