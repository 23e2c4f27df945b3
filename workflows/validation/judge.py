"""A file of tracks judged by the truth of the files that it was made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egretta.workflows.validation import curves as curve_sets
from egretta.workflows.validation.curves import Curves
from egretta.workflows.validation.matching import match
from egretta.workflows.validation.metrics import Metrics, count
from egretta.workflows.validation.pairing import paired


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
    from egretta.jobs.writers import read_tracks

    metrics, curves = Metrics.zero(), Curves()
    for truth, tracks, hits_offsets in paired(
        [read_tracks(tracks_path)], truth_paths, allow_missing=allow_missing
    ):
        matches = match(truth, tracks, hits_offsets)
        metrics += count(truth, tracks, matches)
        curves = curve_sets.add(curves, curve_sets.curves(truth, tracks, hits_offsets, matches))
    return Judgement(metrics, curves)
