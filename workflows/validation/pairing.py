"""Which truth belongs to which event of tracks, over several truth files.

An event of tracks carries the event's number and its entry in its input file; the two together are its
key. In a truth file, the key of an event is its number and its own entry. A key may occur in several truth
files, as simulations number their events alike: then the tracks must hold it as often, and its n-th
occurrence in the tracks belongs to the n-th truth file that has it. So give the truth files in the order
of the campaign's input files. Events of tracks without truth, more events with a key than truth has, and
keys that leave open which file is meant are errors; so are events of truth that the tracks lack, unless
they are allowed (a campaign that read a part, or quarantined some).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import numpy as np

from egretta.kernels.batches import Int64, TrackBatch
from egretta.kernels.errors import CorruptInputError, UsageError
from egretta.workflows.validation.matching import Truth
from egretta.workflows.validation.truth import TruthFile

_NAMED = 5
# Bounds the memory that matching takes, whatever the number of events in a batch of tracks.
_RUN_EVENTS = 500
_ORDER_HINT = (
    "give --truth once for each input file of the campaign, in the order of its input files, and no other"
)


def _named(event: Int64, entry: Int64) -> str:
    """The first few events by number and entry, and how many there are beyond."""
    some = ", ".join(f"{n} (entry {e})" for n, e in zip(event[:_NAMED], entry[:_NAMED], strict=True))
    return some + (f" and {len(event) - _NAMED} more" if len(event) > _NAMED else "")


class Pairing:
    """Finds the truth of events of tracks by their keys, and keeps account of what was found.

    ``event_numbers`` holds one int64 array a truth file, one element an entry.
    """

    def __init__(self, event_numbers: Sequence[Int64]) -> None:
        lengths = [len(numbers) for numbers in event_numbers]
        none = np.zeros(0, dtype=np.int64)
        event = np.concatenate([none, *event_numbers])
        entry = np.concatenate([none, *(np.arange(n, dtype=np.int64) for n in lengths)])
        file = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
        order = np.lexsort((file, entry, event))
        self._event, self._entry, self._file = event[order], entry[order], file[order]
        first = np.ones(len(order), dtype=np.bool_)
        first[1:] = (np.diff(self._event) != 0) | (np.diff(self._entry) != 0)
        # keys in ascending order; key k owns the rows starts[k] to starts[k + 1] of the sorted arrays
        self._starts: Int64 = np.append(np.flatnonzero(first), len(order)).astype(np.int64)
        self._numbers = np.unique(self._event)
        self._stride = max(lengths, default=0) + 1
        self._codes = self._code(self._event[first], self._entry[first])
        self._taken = np.zeros(len(self._codes), dtype=np.int64)

    def _code(self, event: Int64, entry: Int64) -> Int64:
        code: Int64 = np.searchsorted(self._numbers, event) * self._stride + entry
        return code

    def locate(self, event: Int64, entry: Int64) -> tuple[Int64, Int64]:
        """The truth file (its position) and entry of each event of tracks, int64 arrays.

        Raises CorruptInputError for events that truth lacks or has fewer times than they are asked for.
        """
        key = np.searchsorted(self._codes, self._code(event, entry))
        at = self._starts[np.minimum(key, max(len(self._codes) - 1, 0))]
        if len(self._event) == 0:
            unknown = np.ones(len(event), dtype=np.bool_)
        else:
            at = np.minimum(at, len(self._event) - 1)
            unknown = (self._event[at] != event) | (self._entry[at] != entry)
        if unknown.any():
            raise CorruptInputError(
                f"pairing tracks with truth: no truth for {np.count_nonzero(unknown)} events of the tracks, "
                f"of number {_named(event[unknown], entry[unknown])}",
                hint=_ORDER_HINT,
            )
        # the n-th time that a key is asked for, counted over all calls
        order = np.argsort(key, kind="stable")
        keys, first, counts = np.unique(key[order], return_index=True, return_counts=True)
        rank = np.empty(len(key), dtype=np.int64)
        rank[order] = np.arange(len(key)) - np.repeat(first, counts)
        nth = self._taken[key] + rank
        twice = nth >= np.diff(self._starts)[key]
        if twice.any():
            raise CorruptInputError(
                f"pairing tracks with truth: the tracks hold {np.count_nonzero(twice)} events more often "
                f"than truth does, of number {_named(event[twice], entry[twice])}",
                hint=_ORDER_HINT + "; if it is so, the tracks hold events twice: merge the campaign again",
            )
        self._taken[keys] += counts
        row = self._starts[key] + nth
        return self._file[row], self._entry[row]

    def finish(self, *, allow_missing: bool = False) -> int:
        """Check what was not asked for, and return the number of events of truth without tracks.

        Raises CorruptInputError for a key in several truth files that the tracks hold less often, and
        for any other event of truth that the tracks lack, unless ``allow_missing``.
        """
        expected = np.diff(self._starts)
        row = self._starts[:-1]
        unclear = (self._taken > 0) & (self._taken < expected)
        if unclear.any():
            raise CorruptInputError(
                f"pairing tracks with truth: {np.count_nonzero(unclear)} events are in several truth files, "
                f"but less often in the tracks, of number "
                f"{_named(self._event[row][unclear], self._entry[row][unclear])}",
                hint=_ORDER_HINT,
            )
        missing = self._taken == 0
        if missing.any() and not allow_missing:
            raise CorruptInputError(
                f"pairing tracks with truth: the tracks lack {int(expected[missing].sum())} events of the "
                f"truth, of number {_named(self._event[row][missing], self._entry[row][missing])}",
                hint="finish the campaign and merge it; or judge only the events that are there "
                "with --allow-missing",
            )
        return int(expected[missing].sum())


def slice_tracks(tracks: TrackBatch, start: int, stop: int) -> TrackBatch:
    """Events ``[start, stop)`` of a batch, as views of its arrays."""
    t0, t1 = int(tracks.offsets[start]), int(tracks.offsets[stop])
    h0, h1 = int(tracks.hit_offsets[t0]), int(tracks.hit_offsets[t1])
    return TrackBatch(
        entry=tracks.entry[start:stop],
        event=tracks.event[start:stop],
        offsets=tracks.offsets[start : stop + 1] - t0,
        x=tracks.x[t0:t1],
        y=tracks.y[t0:t1],
        z=tracks.z[t0:t1],
        tx=tracks.tx[t0:t1],
        ty=tracks.ty[t0:t1],
        chi2=tracks.chi2[t0:t1],
        hit_offsets=tracks.hit_offsets[t0 : t1 + 1] - h0,
        hit_index=tracks.hit_index[h0:h1],
        lhcb_id=tracks.lhcb_id[h0:h1],
    )


def paired(
    batches: Iterable[TrackBatch], truth_paths: Sequence[str | Path], *, allow_missing: bool = False
) -> Iterator[tuple[Truth, TrackBatch, Int64]]:
    """Yield tracks with their truth and ``hits_offsets``, at most 500 consecutive entries at a time.

    Errors are those of :class:`Pairing`; the check for missing events comes after the last batch.
    """
    if not truth_paths:
        raise UsageError("validating tracks needs truth", hint="give --truth HITS.root")
    with ExitStack() as stack:
        files = [stack.enter_context(TruthFile(path)) for path in truth_paths]
        pairing = Pairing([file.event_numbers for file in files])
        for tracks in batches:
            if tracks.n_events == 0:
                continue
            file, entry = pairing.locate(tracks.event, tracks.entry)
            breaks = np.flatnonzero((np.diff(file) != 0) | (np.diff(entry) != 1)) + 1
            bounds = [0, *breaks.tolist(), tracks.n_events]
            for begin, end in pairwise(bounds):
                for start in range(begin, end, _RUN_EVENTS):
                    stop = min(start + _RUN_EVENTS, end)
                    first = int(entry[start])
                    truth, hits_offsets = files[int(file[start])].read(first, first + stop - start)
                    yield truth, slice_tracks(tracks, start, stop), hits_offsets
        pairing.finish(allow_missing=allow_missing)
