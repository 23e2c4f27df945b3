"""Decoded hits out of a ``Velo`` tree: a TTree, or an RNTuple flat or with a collection of hits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np

from egretta.jobs.readers.base import Source
from egretta.jobs.readers.columns import Columns, plan_chunks, read_flat, read_jagged
from egretta.kernels.batches import Float32, HitBatch, Int32, Int64, UInt32
from egretta.kernels.errors import CorruptInputError

REQUIRED = ("x", "y", "z", "module")


def hit_columns(names: frozenset[str]) -> dict[str, str]:
    """The columns that hold hits, by what they mean: ``hit_x`` in a flat tree, ``hit.x`` in a collection."""
    found = {}
    for key in (*REQUIRED, "lhcb_id"):
        for name in (f"hit_{key}", f"hit.{key}"):
            if name in names:
                found[key] = name
                break
    return found


@dataclass(slots=True)
class HitSource(Source):
    """Hits of a tree. Only the branches of a HitBatch are read: no truth."""

    path: str
    tree: str
    n_entries: int
    uuid: str
    format: Literal["TTree", "RNTuple"]
    columns: Columns
    by_key: Mapping[str, str]
    file: Any
    kind: Literal["hits"] = "hits"

    @property
    def bytes_read(self) -> int:
        """Bytes requested from the file so far, the headers included."""
        return int(self.file.file.source.num_requested_bytes)

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def _chunks(self, start: int, stop: int, batch_events: int) -> Iterator[tuple[int, int]]:
        boundaries = self.columns.boundaries(list(self.by_key.values()))
        return plan_chunks(boundaries, start, stop, batch_events)

    def _read(self, start: int, stop: int) -> HitBatch:
        columns, by_key = self.columns, self.by_key
        entry = np.arange(start, stop, dtype=np.int64)
        event = entry
        if "event" in columns.names:
            event = cast(Int64, read_flat(columns, "event", start, stop, np.int64))
        # one column after the other: of the file's wide numbers, only one column's are in memory at a time
        offsets, x = read_jagged(columns, by_key["x"], start, stop, np.float32)
        arrays = {"x": x}
        for key in ("y", "z", "module", "lhcb_id"):
            if key not in by_key:
                arrays[key] = np.zeros(len(x), dtype=np.uint32)
                continue
            dtype = {"module": np.int32, "lhcb_id": np.uint32}.get(key, np.float32)
            others, arrays[key] = read_jagged(columns, by_key[key], start, stop, dtype)
            if not np.array_equal(offsets, others):
                raise CorruptInputError(
                    f"{self.path}: {by_key['x']} and {by_key[key]} of {self.tree} differ in length "
                    f"in entries [{start}, {stop})",
                    hint="the file was written wrongly; make it again",
                )
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
