"""Simulated events to a ROOT file: tree ``Velo`` (hits and truth) and tree ``RawEvent`` (raw banks)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from egretta.jobs.atomic import AtomicFile
from egretta.jobs.simulation.velo import (
    BLOCK_EVENTS,
    SimulatedBatch,
    check_request,
    find_preset,
    generate_blocks,
)
from egretta.kernels.batches import BankBatch
from egretta.kernels.encoding import encode_retina, encode_superpixel
from egretta.kernels.errors import UsageError
from egretta.kernels.lhcb_id import split_lhcb_id

if TYPE_CHECKING:
    import awkward as ak

Offsets = NDArray[np.int64]
Format = Literal["hits", "banks"]

HITS_TREE = "Velo"
BANKS_TREE = "RawEvent"
FORMATS: tuple[Format, ...] = ("banks", "hits")

# Blocks that are written together: a basket of each branch.
_BLOCKS_A_WRITE = 5

_VELO_BRANCHES = {
    "event": "int64",
    "hit": "var * {x: float64, y: float64, z: float64, module: int64, lhcb_id: uint32}",
    "mc": "var * {key: int64, pid: int64, p: float64, pt: float64, eta: float64, phi: float64, "
    "charge: int64, flags: int64, nhits: int64}",
    "mchit": "var * {index: int64}",
}
_RAW_BRANCHES = {
    "event": "int64",
    "bank": "var * {type: int64, version: int64, source: int64, nwords: int64}",
    "data": "var * {word: uint32}",
}


@dataclass(frozen=True, slots=True)
class SimulationSummary:
    """What was written. ``seconds`` is the wall time from the first event to the file's name."""

    path: str
    preset: str
    seed: int
    events: int
    hits: int
    particles: int
    file_bytes: int
    seconds: float

    @property
    def events_per_second(self) -> float:
        """Rate of the whole, writing included."""
        return self.events / self.seconds if self.seconds else 0.0


def _jagged(offsets: Offsets, **columns: tuple[NDArray[Any], str]) -> ak.Array:
    """Records of flat columns, each given with the type to write, cut into events."""
    import awkward as ak

    flat = [ak.contents.NumpyArray(values.astype(kind)) for values, kind in columns.values()]
    records = ak.contents.RecordArray(flat, list(columns))
    return ak.Array(ak.contents.ListOffsetArray(ak.index.Index64(offsets), records))


def hits_columns(batch: SimulatedBatch) -> dict[str, Any]:
    """The branches of tree ``Velo`` for a batch, named and typed as in LHCb's dumps."""
    hits, truth = batch.hits, batch.truth

    def single(values: NDArray[Any]) -> tuple[NDArray[Any], str]:
        # LHCb's dumps hold doubles of single precision; half of each compresses away
        return values.astype(np.float32), "f8"

    return {
        "event": hits.event,
        "hit": _jagged(
            hits.offsets,
            x=(hits.x, "f8"),
            y=(hits.y, "f8"),
            z=(hits.z, "f8"),
            module=(hits.module, "i8"),
            lhcb_id=(hits.lhcb_id, "u4"),
        ),
        "mc": _jagged(
            truth.offsets,
            key=(truth.key, "i8"),
            pid=(truth.pid, "i8"),
            p=single(truth.p),
            pt=single(truth.pt),
            eta=single(truth.eta),
            phi=single(truth.phi),
            charge=(truth.charge, "i8"),
            flags=(truth.flags, "i8"),
            nhits=(np.diff(truth.hit_offsets), "i8"),
        ),
        "mchit": _jagged(truth.hit_offsets[truth.offsets], index=(truth.hit_index, "i8")),
    }


def simulated_banks(batch: SimulatedBatch) -> tuple[BankBatch, BankBatch]:
    """The VP super-pixel (version 2) and VPRetinaCluster (version 3) banks of a batch."""
    hits, pixels = batch.hits, batch.pixels
    sensor, column, row = split_lhcb_id(hits.lhcb_id)
    fx, fy = (batch.column_quarters & 3) / 4, (batch.row_quarters & 3) / 4
    entry, event = hits.entry, hits.event
    places = pixels.sensor, pixels.column, pixels.row
    return (
        encode_superpixel(batch.pixel_offsets, *places, entry=entry, event=event),
        encode_retina(hits.offsets, sensor, column, row, fx, fy, entry=entry, event=event),
    )


def _merge_offsets(parts: Sequence[Offsets]) -> tuple[Offsets, list[NDArray[np.int64]]]:
    """Offsets of events that hold one part after another, and where each part's elements go."""
    counts = np.array([np.diff(part) for part in parts])
    offsets = np.concatenate(([0], np.cumsum(counts.sum(axis=0))))
    ahead = np.cumsum(counts, axis=0) - counts
    places = [
        np.arange(part[-1]) + np.repeat(offsets[:-1] + before - part[:-1], count)
        for part, before, count in zip(parts, ahead, counts, strict=True)
    ]
    return offsets, places


def banks_columns(batch: SimulatedBatch) -> dict[str, Any]:
    """The branches of tree ``RawEvent`` for a batch: an event's super-pixel banks, then its retina banks."""
    parts = simulated_banks(batch)
    bank_offsets, bank_places = _merge_offsets([part.bank_offsets for part in parts])
    word_offsets, word_places = _merge_offsets([part.word_offsets[part.bank_offsets] for part in parts])

    def merged(arrays: Sequence[NDArray[Any]], places: Sequence[NDArray[np.int64]]) -> NDArray[Any]:
        out = np.empty(sum(len(a) for a in arrays), dtype=arrays[0].dtype)
        for array, place in zip(arrays, places, strict=True):
            out[place] = array
        return out

    return {
        "event": batch.hits.event,
        "bank": _jagged(
            bank_offsets,
            type=(merged([part.bank_type for part in parts], bank_places), "i8"),
            version=(merged([part.bank_version for part in parts], bank_places), "i8"),
            source=(merged([part.bank_source for part in parts], bank_places), "i8"),
            nwords=(merged([np.diff(part.word_offsets) for part in parts], bank_places), "i8"),
        ),
        "data": _jagged(word_offsets, word=(merged([part.words for part in parts], word_places), "u4")),
    }


def _stacked(columns: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The branches of several batches, one after another."""
    import awkward as ak

    if len(columns) == 1:
        return columns[0]
    return {
        name: np.concatenate([each[name] for each in columns])
        if isinstance(columns[0][name], np.ndarray)
        else ak.concatenate([each[name] for each in columns])
        for name in columns[0]
    }


@dataclass(frozen=True, slots=True)
class _Tree:
    name: str
    branches: dict[str, str]
    columns: Callable[[SimulatedBatch], dict[str, Any]]


_TREES: dict[str, _Tree] = {
    "banks": _Tree(BANKS_TREE, _RAW_BRANCHES, banks_columns),
    "hits": _Tree(HITS_TREE, _VELO_BRANCHES, hits_columns),
}


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Events made and laid out for their trees, ready to write."""

    events: int
    hits: int
    particles: int
    columns: list[dict[str, Any]]


def _in_order(n: int, workers: int, make: Callable[[int], _Chunk]) -> Iterator[_Chunk]:
    """``make(0)`` to ``make(n - 1)``, made by threads at most ``workers`` ahead of their use."""
    with ThreadPoolExecutor(workers, thread_name_prefix="simulate") as pool:
        coming: deque[Future[_Chunk]] = deque()
        try:
            for chunk in range(n):
                coming.append(pool.submit(make, chunk))
                if len(coming) > workers:
                    yield coming.popleft().result()
            while coming:
                yield coming.popleft().result()
        finally:
            for future in coming:
                future.cancel()


def simulate_velo(
    path: str | Path,
    n_events: int,
    *,
    seed: int = 1,
    preset: str = "bsphiphi",
    pile_up: float | None = None,
    formats: Sequence[Format] = FORMATS,
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
) -> SimulationSummary:
    """Write simulated events to a ROOT file, which takes its name once it is whole.

    ``formats`` says which trees: ``"banks"`` (``RawEvent``), ``"hits"`` (``Velo``). The events depend on
    seed, preset and pile-up alone, not on ``workers`` (threads that make events while others are written).
    ``progress`` is called with the number of events written so far. Memory does not grow with ``n_events``.

    Raises UsageError for a request that makes no sense, SiteError or ResourceError for a path that cannot
    be written.
    """
    import uproot

    check_request(n_events, seed)
    find_preset(preset, pile_up)
    if not formats or workers < 1 or not set(formats) <= set(_TREES):
        raise UsageError(
            f"cannot simulate to {path}: formats {list(formats)}, {workers} workers",
            hint="give at least one of the formats banks and hits, and one worker or more",
        )
    trees = [_TREES[form] for form in dict.fromkeys(formats)]
    started = perf_counter()
    events = hits = particles = 0

    def make(chunk: int) -> _Chunk:
        first = chunk * _BLOCKS_A_WRITE
        wanted = min(n_events - first * BLOCK_EVENTS, _BLOCKS_A_WRITE * BLOCK_EVENTS)
        blocks = generate_blocks(wanted, seed=seed, preset=preset, pile_up=pile_up, first_block=first)
        # each block is laid out while the CPU's cache still holds it
        laid_out = [(block, [tree.columns(block) for tree in trees]) for block in blocks]
        return _Chunk(
            sum(block.n_events for block, _ in laid_out),
            sum(block.hits.n_hits for block, _ in laid_out),
            sum(block.truth.n_particles for block, _ in laid_out),
            [_stacked([columns[k] for _, columns in laid_out]) for k in range(len(trees))],
        )

    with AtomicFile(path, what="the simulated events") as target:
        try:
            with uproot.recreate(target.stream, compression=uproot.ZSTD(1)) as file:
                written = [
                    file.mktree(tree.name, tree.branches, counter_name=_counter_name, field_name=_field_name)
                    for tree in trees
                ]
                for chunk in _in_order(-(-n_events // (_BLOCKS_A_WRITE * BLOCK_EVENTS)), workers, make):
                    for tree, columns in zip(written, chunk.columns, strict=True):
                        tree.extend(columns)
                    events += chunk.events
                    hits += chunk.hits
                    particles += chunk.particles
                    if progress is not None:
                        progress(events)
        except OSError as error:
            raise target.explained(error) from error
        target.commit()
    seconds = perf_counter() - started
    size = Path(path).stat().st_size
    return SimulationSummary(str(path), preset, seed, events, hits, particles, size, seconds)


def _counter_name(counted: str) -> str:
    return f"n{counted}"


def _field_name(outer: str, inner: str) -> str:
    return f"{outer}_{inner}" if inner else outer
