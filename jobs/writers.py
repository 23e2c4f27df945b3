"""Tracks to files: a ROOT TTree, and Parquet beside it on request, streamed batch by batch.

The tree ``Tracks`` has one entry an event. ``event`` and ``entry`` (int64) name it; ``x y z tx ty chi2``
(float32) and ``nhits`` (int32) run over its ``ntrack`` tracks; ``hit_index`` (int32) and ``lhcb_id``
(uint32) over the ``nhit`` hits of all its tracks, one track after another, ``nhits`` each. TTrees that every
ROOT reads hold lists but no lists of lists; the Parquet file does hold the hits as a list in each track.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from egretta.jobs.atomic import AtomicFile
from egretta.jobs.tracks import STATE, concatenate, offsets_of
from egretta.kernels.batches import TrackBatch
from egretta.kernels.errors import CorruptInputError, MissingInputError, SiteError

if TYPE_CHECKING:
    from egretta.kernels.batches import Int64

TREE = "Tracks"

# Measured on tracks of 4000 events: level 1 takes 0.1 ms an event for 0.75 of the bytes, level 5 0.15 ms for
# 0.73, LZ4 0.06 ms for 0.88. Bytes count more: they are kept for years, and may have to leave the site.
_ZSTD_LEVEL = 1
# A basket a branch and flush: large enough that headers cost nothing, small enough to bound memory.
_FLUSH_EVENTS = 1000
_FLUSH_HITS = 2_000_000


@dataclass(frozen=True, slots=True)
class Output:
    """What a writer left behind."""

    path: Path
    bytes: int
    checksum: str


class TrackWriter:
    """Writes batches of tracks to ``path``, which appears only by ``commit``.

    Used as a context manager; left without ``commit``, it removes what it wrote. Raises SiteError for a
    directory that cannot be written to or for Parquet without pyarrow, ResourceError for a full disk.
    """

    def __init__(self, path: str | Path, *, parquet: bool = False) -> None:
        self.path = Path(path)
        self.events = 0
        self._pending: list[TrackBatch] = []
        with ExitStack() as stack:
            self._parquet = stack.enter_context(_ParquetTracks(self.path)) if parquet else None
            self._root = stack.enter_context(_RootTracks(self.path))
            self._stack = stack.pop_all()

    def append(self, tracks: TrackBatch) -> None:
        """Add the events of a batch; written once enough have come together."""
        self._pending.append(tracks)
        self.events += tracks.n_events
        events = sum(batch.n_events for batch in self._pending)
        hits = sum(len(batch.hit_index) for batch in self._pending)
        if events >= _FLUSH_EVENTS or hits >= _FLUSH_HITS:
            self._flush()

    def commit(self) -> Output:
        """Write the rest, bring all to the disk, and give the files their names, the ROOT file last."""
        self._flush()
        self._root.finish()
        checksum = file_checksum(self._root.file.temporary)
        size = self._root.file.temporary.stat().st_size
        if self._parquet is not None:
            self._parquet.finish()
            self._parquet.file.commit()
        self._root.file.commit()
        return Output(self.path, size, checksum)

    def _flush(self) -> None:
        if not self._pending:
            return
        tracks = concatenate(self._pending)
        self._pending.clear()
        if tracks.n_events == 0:
            return
        self._root.write(tracks)
        if self._parquet is not None:
            self._parquet.write(tracks)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()


class _RootTracks:
    def __init__(self, path: Path) -> None:
        import uproot

        self.file = AtomicFile(path, what="the tracks")
        try:
            self._root = uproot.recreate(self.file.stream, compression=uproot.ZSTD(_ZSTD_LEVEL))
            self._tree = self._root.mktree(
                TREE,
                {
                    "event": "int64",
                    "entry": "int64",
                    "track": f"var * {{{', '.join(f'{name}: float32' for name in STATE)}, nhits: int32}}",
                    "hit": "var * {hit_index: int32, lhcb_id: uint32}",
                },
                field_name=lambda outer, inner: inner or outer,
            )
        except OSError as error:
            self.file.discard()
            raise self.file.explained(error) from error

    def write(self, tracks: TrackBatch) -> None:
        branches = {name: getattr(tracks, name) for name in STATE}
        branches["nhits"] = np.diff(tracks.hit_offsets).astype(np.int32)
        hits = {"hit_index": tracks.hit_index, "lhcb_id": tracks.lhcb_id}
        try:
            self._tree.extend(
                {
                    "event": tracks.event,
                    "entry": tracks.entry,
                    "track": _jagged(tracks.offsets, branches),
                    "hit": _jagged(tracks.hit_offsets[tracks.offsets], hits),
                }
            )
        except OSError as error:
            raise self.file.explained(error) from error

    def finish(self) -> None:
        try:
            self._root.close()
        except OSError as error:
            raise self.file.explained(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # an unfinished file is thrown away: that it cannot be closed in order does not matter
        with suppress(Exception):
            self._root.close()
        self.file.discard()


class _ParquetTracks:
    def __init__(self, path: Path) -> None:
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError as error:
            raise SiteError(
                f"cannot write {path.with_suffix('.parquet')}: pyarrow is not installed here",
                hint="pip install 'egretta[parquet]' where the jobs run, or leave out `parquet`",
            ) from error
        self._pa = pa
        track = [pa.field(name, pa.float32()) for name in STATE]
        hits = [pa.field("hit_index", pa.list_(pa.int32())), pa.field("lhcb_id", pa.list_(pa.uint32()))]
        self._track_type = pa.struct(track + hits)
        self._schema = pa.schema(
            [("event", pa.int64()), ("entry", pa.int64()), ("tracks", pa.list_(self._track_type))]
        )
        self.file = AtomicFile(path.with_suffix(".parquet"), what="the tracks")
        try:
            self._writer = pq.ParquetWriter(self.file.stream, self._schema, compression="zstd")
        except OSError as error:
            self.file.discard()
            raise self.file.explained(error) from error

    def write(self, tracks: TrackBatch) -> None:
        pa = self._pa
        hit_offsets = pa.array(tracks.hit_offsets.astype(np.int32))
        columns = [pa.array(getattr(tracks, name)) for name in STATE]
        columns += [
            pa.ListArray.from_arrays(hit_offsets, pa.array(values))
            for values in (tracks.hit_index, tracks.lhcb_id)
        ]
        track = pa.StructArray.from_arrays(columns, fields=list(self._track_type))
        lists = pa.ListArray.from_arrays(pa.array(tracks.offsets.astype(np.int32)), track)
        table = pa.Table.from_arrays(
            [pa.array(tracks.event), pa.array(tracks.entry), lists], schema=self._schema
        )
        try:
            self._writer.write_table(table)
        except OSError as error:
            raise self.file.explained(error) from error

    def finish(self) -> None:
        try:
            self._writer.close()
        except OSError as error:
            raise self.file.explained(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(Exception):
            self._writer.close()
        self.file.discard()


def file_checksum(path: str | Path) -> str:
    """The ``xxh64:`` checksum of a file. uproot goes back to amend its headers, so it is taken at the end."""
    import xxhash

    digest = xxhash.xxh64()
    with Path(path).open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return f"xxh64:{digest.hexdigest()}"


def read_tracks(path: str | Path, start: int | None = None, stop: int | None = None) -> TrackBatch:
    """The events of a file that TrackWriter or a merge wrote: all, or its tree's entries [start, stop).

    Raises MissingInputError for a file or tree that is not there, CorruptInputError for one that is not
    whole or whose branches disagree with each other.
    """
    import uproot

    names = ["event", "entry", *STATE, "nhits", "hit_index", "lhcb_id"]
    if not Path(path).is_file():
        raise MissingInputError(f"cannot read tracks from {path}: no such file")
    try:
        with uproot.open(path, object_cache=None, array_cache=None) as file:
            arrays = file[TREE].arrays(names, library="ak", entry_start=start, entry_stop=stop)
    except uproot.KeyInFileError as error:
        raise MissingInputError(
            f"cannot read tracks from {path}: no {error.key!r} in it",
            hint=f"give a file with the tree {TREE!r} that a job or `egretta merge` wrote",
        ) from error
    except Exception as error:
        raise CorruptInputError(
            f"cannot read tracks from {path}: {type(error).__name__}: {error}",
            hint="run the unit that wrote it again",
        ) from error
    return _track_batch(arrays, path)


def _track_batch(arrays: Any, path: str | Path) -> TrackBatch:
    import awkward as ak

    def flat(name: str) -> Any:
        return np.ascontiguousarray(ak.to_numpy(ak.flatten(arrays[name])))

    hits_of_event = ak.to_numpy(ak.num(arrays["hit_index"])).astype(np.int64)
    offsets = offsets_of(ak.to_numpy(ak.num(arrays["nhits"])))
    hit_offsets = offsets_of(flat("nhits"))
    if not np.array_equal(np.diff(hit_offsets[offsets]), hits_of_event):
        raise CorruptInputError(
            f"cannot use the tracks of {path}: nhits and the number of hits disagree",
            hint="run the unit that wrote it again",
        )
    tracks: dict[str, Any] = {name: flat(name) for name in STATE}
    return TrackBatch(
        entry=ak.to_numpy(arrays["entry"]),
        event=ak.to_numpy(arrays["event"]),
        offsets=offsets,
        hit_offsets=hit_offsets,
        hit_index=flat("hit_index"),
        lhcb_id=flat("lhcb_id"),
        **tracks,
    )


def _jagged(offsets: Int64, columns: dict[str, Any]) -> Any:
    import awkward as ak
    from awkward.contents import ListOffsetArray, NumpyArray, RecordArray
    from awkward.index import Index64

    record = RecordArray([NumpyArray(values) for values in columns.values()], list(columns))
    return ak.Array(ListOffsetArray(Index64(offsets), record))
