"""A file of tracks judged by the truth of the files that it was made from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egretta.kernels.batches import TrackBatch
from egretta.workflows.validation import curves as curve_sets
from egretta.workflows.validation.curves import Curves
from egretta.workflows.validation.matching import match
from egretta.workflows.validation.metrics import Metrics, count
from egretta.workflows.validation.pairing import paired

# Some 100 MB of tracks at a time, however long the file.
_BATCH_EVENTS = 5000


@dataclass(frozen=True, slots=True)
class Judgement:
    """The figures of a file of tracks, and the curves that are drawn from them."""

    metrics: Metrics
    curves: Curves

    def to_dict(self) -> dict[str, Any]:
        """What the campaign's report reads: the metrics, the events and the curves."""
        drawn = {name: curve.to_dict() for name, curve in self.curves.items()}
        return {**self.metrics.to_dict(), "events": self.metrics.events, "curves": drawn}


def judge(
    tracks_path: str | Path, truth_paths: Sequence[str | Path], *, allow_missing: bool = False
) -> Judgement:
    """Read, pair, match and count. The rule of pairing, and its errors, are in :mod:`.pairing`."""
    metrics, curves = Metrics.zero(), Curves()
    batches = _in_batches(tracks_path)
    for truth, tracks, hits_offsets in paired(batches, truth_paths, allow_missing=allow_missing):
        matches = match(truth, tracks, hits_offsets)
        metrics += count(truth, tracks, matches)
        curves = curve_sets.add(curves, curve_sets.curves(truth, tracks, hits_offsets, matches))
    return Judgement(metrics, curves)


def _in_batches(path: str | Path) -> Iterator[TrackBatch]:
    from egretta.jobs.writers import read_tracks

    start = 0
    while (tracks := read_tracks(path, start, start + _BATCH_EVENTS)).n_events:
        yield tracks
        start += tracks.n_events
