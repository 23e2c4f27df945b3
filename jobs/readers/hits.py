"""Decoded hits out of a ``Velo`` tree: a TTree, or an RNTuple flat or with a collection of hits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from egretta.jobs.readers.columns import Columns, read_jagged
from egretta.jobs.readers.tree import TreeSource
from egretta.kernels.batches import Float32, HitBatch, Int32, UInt32
from egretta.kernels.errors import CorruptInputError

_DTYPES: dict[str, type[np.generic]] = {
    "x": np.float32,
    "y": np.float32,
    "z": np.float32,
    "module": np.int32,
    "lhcb_id": np.uint32,
}
REQUIRED = ("x", "y", "z", "module")


def hit_columns(names: frozenset[str]) -> dict[str, str]:
    """The columns that hold hits, by what they mean: ``hit_x`` in a flat tree, ``hit.x`` in a collection."""
    found = {}
    for key in _DTYPES:
        for name in (f"hit_{key}", f"hit.{key}"):
            if name in names:
                found[key] = name
                break
    return found


class HitSource(TreeSource):
    """Hits of a tree. Only the columns of a HitBatch are read: no truth."""

    kind = "hits"

    def __init__(self, columns: Columns, file: Any, by_key: Mapping[str, str]) -> None:
        super().__init__(columns, file, list(by_key.values()))
        self._by_key = by_key

    def _read(self, start: int, stop: int) -> HitBatch:
        entry, event = self._numbers(start, stop)
        # one column after the other: of the file's wide numbers, only one column's are in memory at a time
        arrays: dict[str, NDArray[np.generic]] = {}
        offsets = np.zeros(0, dtype=np.int64)
        for key, name in self._by_key.items():
            others, values = read_jagged(self.columns, name, start, stop, _DTYPES[key])
            if arrays and not np.array_equal(offsets, others):
                raise CorruptInputError(
                    f"{self.path}: {self.names[0]} and {name} of {self.tree} differ in length "
                    f"in entries [{start}, {stop})",
                    hint="the file was written wrongly; make it again",
                )
            offsets, arrays[key] = others, values
        if "lhcb_id" not in arrays:
            arrays["lhcb_id"] = np.zeros(len(arrays["x"]), dtype=np.uint32)
        return HitBatch(
            entry,
            event,
            offsets,
            cast(Float32, arrays["x"]),
            cast(Float32, arrays["y"]),
            cast(Float32, arrays["z"]),
            cast(Int32, arrays["module"]),
            cast(UInt32, arrays["lhcb_id"]),
        )
