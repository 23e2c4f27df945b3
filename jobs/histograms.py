"""The histograms that every job fills: bins fixed once, so that the counts of any units add up.

======================  =======================================================  ==================
name                    what is counted                                          bins
======================  =======================================================  ==================
``hits_per_event``      processed events by their number of hits                 200 of 150
``tracks_per_event``    processed events by their number of tracks               150 of 10
``time.STAGE``          processed events by the milliseconds that the stage      12 a decade, from
                        took, averaged over each batch                           1 us to 10 s
======================  =======================================================  ==================

The first and last bin also take what lies below and above, so that the counts add up to the events.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

HITS = "hits_per_event"
TRACKS = "tracks_per_event"
TIME_PREFIX = "time."

_HIT_EDGES = np.linspace(0.0, 30_000.0, 201)
_TRACK_EDGES = np.linspace(0.0, 1_500.0, 151)
_TIME_EDGES_MS = np.logspace(-3.0, 4.0, 85)


def edges(name: str) -> NDArray[np.float64]:
    """Bin edges of a histogram: one more than it has counts. Raises KeyError for an unknown name."""
    if name == HITS:
        return _HIT_EDGES
    if name == TRACKS:
        return _TRACK_EDGES
    if name.startswith(TIME_PREFIX):
        return _TIME_EDGES_MS
    raise KeyError(name)


class Histograms:
    """Counts by name, filled batch by batch."""

    def __init__(self) -> None:
        self._counts: dict[str, NDArray[np.float64]] = {}

    def fill(self, name: str, values: ArrayLike, weights: ArrayLike | None = None) -> None:
        """Count ``values`` (any length), each with its weight (1 when left out)."""
        bins = edges(name)
        clipped = np.clip(np.asarray(values, dtype=np.float64), bins[0], np.nextafter(bins[-1], bins[0]))
        counts, _ = np.histogram(clipped, bins=bins, weights=weights)
        self._counts[name] = self._counts.get(name, np.zeros(len(bins) - 1)) + counts

    def as_lists(self) -> dict[str, list[float]]:
        """The counts as the manifest holds them."""
        return {name: counts.tolist() for name, counts in self._counts.items()}


def add(total: dict[str, list[float]], part: dict[str, list[float]]) -> dict[str, list[float]]:
    """The sum of two sets of histograms; one that only one of them has is taken as it is."""
    summed: dict[str, Any] = {name: list(counts) for name, counts in total.items()}
    for name, counts in part.items():
        summed[name] = np.add(summed[name], counts).tolist() if name in summed else list(counts)
    return summed
