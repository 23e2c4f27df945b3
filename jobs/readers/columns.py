"""Columns of a TTree or an RNTuple behind one face: names, where to cut, and flat arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from egretta.jobs.readers.transport import reading, retried
from egretta.kernels.batches import Int64
from egretta.kernels.errors import CorruptInputError


class Columns(Protocol):
    """A tree's columns."""

    @property
    def path(self) -> str: ...  # noqa: D102
    @property
    def tree(self) -> str: ...  # noqa: D102
    @property
    def n_entries(self) -> int: ...  # noqa: D102
    @property
    def names(self) -> frozenset[str]: ...  # noqa: D102
    @property
    def format(self) -> Literal["TTree", "RNTuple"]: ...  # noqa: D102

    def boundaries(self, names: Sequence[str]) -> Int64:
        """Entries at which the storage of the columns is cut, from 0 to n_entries."""
        ...

    def array(self, name: str, start: int, stop: int) -> Any:
        """One column's entries [start, stop) as an awkward array."""
        ...


@dataclass(frozen=True, slots=True)
class TTreeColumns:
    """Branches of a TTree."""

    path: str
    tree: str
    n_entries: int
    names: frozenset[str]
    handle: Any
    format: Literal["TTree"] = "TTree"

    def boundaries(self, names: Sequence[str]) -> Int64:
        """Basket boundaries of the heaviest branch.

        Branches flushed together (the default of ROOT and uproot) are cut at the same entries; of others,
        the baskets at a boundary are decompressed twice, and never more often.
        """
        heaviest = max(names, key=lambda name: int(self.handle[name].uncompressed_bytes))
        return np.unique(np.array([0, *self.handle[heaviest].entry_offsets, self.n_entries], dtype=np.int64))

    def array(self, name: str, start: int, stop: int) -> Any:
        """One branch's entries [start, stop)."""
        return self.handle[name].array(entry_start=start, entry_stop=stop, library="ak", array_cache=None)


@dataclass(frozen=True, slots=True)
class RNTupleColumns:
    """Fields of an RNTuple."""

    path: str
    tree: str
    n_entries: int
    names: frozenset[str]
    handle: Any
    format: Literal["RNTuple"] = "RNTuple"

    def boundaries(self, names: Sequence[str]) -> Int64:
        """Cluster boundaries."""
        firsts = [cluster.num_first_entry for cluster in self.handle.cluster_summaries]
        return np.unique(np.array([0, *firsts, self.n_entries], dtype=np.int64))

    def array(self, name: str, start: int, stop: int) -> Any:
        """One field's entries [start, stop)."""
        return self.handle[name].array(entry_start=start, entry_stop=stop)


def plan_chunks(boundaries: Int64, start: int, stop: int, least: int) -> Iterator[tuple[int, int]]:
    """Join the pieces between boundaries into chunks of at least ``least`` entries, cut to [start, stop)."""
    first = start
    for boundary in boundaries[(boundaries > start) & (boundaries < stop)].tolist():
        if boundary - first >= least:
            yield first, boundary
            first = boundary
    if first < stop:
        yield first, stop


def read_flat(columns: Columns, name: str, start: int, stop: int, dtype: DTypeLike) -> NDArray[np.generic]:
    """One number an entry, as ``dtype``."""
    array = _read(columns, name, start, stop)
    layout = array.layout
    if not layout.is_numpy or layout.purelist_depth != 1:
        raise CorruptInputError(
            f"{columns.path}: {name} of {columns.tree} should hold one number an entry, not {array.type}"
        )
    return np.ascontiguousarray(layout.data, dtype=dtype)


def read_jagged(
    columns: Columns, name: str, start: int, stop: int, dtype: DTypeLike
) -> tuple[Int64, NDArray[np.generic]]:
    """A list of numbers an entry: offsets (int64, n + 1, from 0) and the numbers as ``dtype``.

    Numbers that an integer ``dtype`` cannot hold make the file corrupt: they are not wrapped around.
    """
    array = _read(columns, name, start, stop)
    layout = array.layout
    if layout.is_record and len(layout.fields) == 1:
        layout = layout[layout.fields[0]]
    if not layout.is_list or layout.purelist_depth != 2:
        raise CorruptInputError(
            f"{columns.path}: {name} of {columns.tree} should hold a list of numbers an entry, "
            f"not {array.type}"
        )
    layout = layout.to_ListOffsetArray64(True)
    offsets = np.asarray(layout.offsets.data, dtype=np.int64)
    content = layout.content
    values = np.asarray(content.data if content.is_numpy else content.to_backend_array())[: offsets[-1]]
    if np.issubdtype(dtype, np.integer) and values.dtype != np.dtype(dtype) and values.size:
        limits = np.iinfo(np.dtype(dtype))
        low, high = values.min(), values.max()
        # the other way about, a NaN among floating-point numbers would pass
        if not (low >= limits.min and high <= limits.max):
            raise CorruptInputError(
                f"{columns.path}: {name} of {columns.tree}, entries [{start}, {stop}), "
                f"holds {low} to {high}, outside of {np.dtype(dtype).name}"
            )
    # a double beyond float32 becomes infinite, which the check of hits finds
    with np.errstate(over="ignore"):
        return offsets, np.ascontiguousarray(values, dtype=dtype)


def _read(columns: Columns, name: str, start: int, stop: int) -> Any:
    def read() -> Any:
        with reading(columns.path, f"read {name} of {columns.tree}, entries [{start}, {stop}), of"):
            return columns.array(name, start, stop)

    return retried(read)
