"""Triplets: two edges that meet in a hit and go on nearly straight.

There is no field in the VELO, so that a particle's slope changes from one segment to the next only by
multiple scattering and resolution. Nearly all pairs of hits that are no particle's find no continuation
within a few hundredths, which makes this gate the cheapest and strongest filter of the pipeline: edges
without any partner are dropped here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from egretta.kernels.batches import Float32, Int32
from egretta.kernels.knn import Edges

_LANES = 16


@dataclass(frozen=True, slots=True)
class Graph:
    """Edges between hits, and triplets between edges.

    ``source`` and ``target`` int32[edges] count hits in the batch, edges ascend by source, then target.
    ``first`` and ``second`` int32[triplets] are edges with ``target[first] == source[second]``; triplets
    ascend by first, then second. Every edge belongs to at least one triplet.
    """

    source: Int32
    target: Int32
    first: Int32
    second: Int32

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return len(self.source)

    @property
    def n_triplets(self) -> int:
        """Number of triplets."""
        return len(self.first)


def straight_triplets(edges: Edges, x: Float32, y: Float32, z: Float32, kink_max: float) -> Graph:
    """The edges that have a nearly straight continuation, and all such continuations.

    ``x``, ``y``, ``z`` float32[hits] in mm. ``kink_max`` bounds the change of the slope vector
    (dx/dz, dy/dz), for a track along the beam; it widens as (1 + slope²)^(3/4) with the track's angle,
    because a given scattering angle changes a steep slope more. A non-positive ``dz`` makes no triplet.
    """
    if kink_max <= 0:
        raise ValueError(f"kink_max must be positive, not {kink_max}")
    source, target, first, second = _link(
        edges.offsets, edges.source, edges.target, x, y, z, np.float32(kink_max)
    )
    return Graph(source, target, first, second)


@njit(cache=True, nogil=True, fastmath={"contract"})
def _link(offsets, source, target, x, y, z, kink_max):  # type: ignore[no-untyped-def]
    n_edges = len(source)
    tx = np.empty(n_edges + _LANES, np.float32)
    ty = np.empty(n_edges + _LANES, np.float32)
    # the bound in kink², negative where an edge cannot take part
    bound = np.empty(n_edges + _LANES, np.float32)
    for e in range(n_edges):
        i, j = source[e], target[e]
        dz = z[j] - z[i]
        inverse = np.float32(1) / dz if dz > 0 else np.float32(0)
        tx[e] = (x[j] - x[i]) * inverse
        ty[e] = (y[j] - y[i]) * inverse
        widening = np.float32(1) + tx[e] * tx[e] + ty[e] * ty[e]
        bound[e] = kink_max * kink_max * widening * np.sqrt(widening) if dz > 0 else np.float32(-1)
    for e in range(n_edges, n_edges + _LANES):
        tx[e] = ty[e] = bound[e] = np.float32(0)
    capacity = max(1024, n_edges)
    first = np.empty(capacity, np.int32)
    second = np.empty(capacity, np.int32)
    linked = np.zeros(n_edges, np.uint8)
    excess = np.empty(_LANES, np.float32)
    n_triplets = 0
    for e in range(n_edges):
        j = target[e]
        a, b = offsets[j], offsets[j + 1]
        limit, tx_e, ty_e = bound[e], tx[e], ty[e]
        while a < b:
            any_below = np.float32(1)
            for lane in range(_LANES):
                kx = tx[a + lane] - tx_e
                ky = ty[a + lane] - ty_e
                excess[lane] = kx * kx + ky * ky - limit
            for lane in range(_LANES):
                any_below = min(any_below, excess[lane])
            if any_below < 0:
                for lane in range(min(_LANES, b - a)):
                    f = a + lane
                    if excess[lane] < 0 and bound[f] > 0:
                        if n_triplets == capacity:
                            capacity *= 2
                            grown = np.empty(capacity, np.int32)
                            grown[:n_triplets] = first
                            first = grown
                            grown = np.empty(capacity, np.int32)
                            grown[:n_triplets] = second
                            second = grown
                        first[n_triplets] = e
                        second[n_triplets] = f
                        linked[e] = linked[f] = 1
                        n_triplets += 1
            a += _LANES
    renumbered = np.empty(n_edges, np.int32)
    n_kept = 0
    for e in range(n_edges):
        renumbered[e] = n_kept
        n_kept += linked[e]
    kept_source = np.empty(n_kept, np.int32)
    kept_target = np.empty(n_kept, np.int32)
    for e in range(n_edges):
        if linked[e]:
            kept_source[renumbered[e]] = source[e]
            kept_target[renumbered[e]] = target[e]
    for t in range(n_triplets):
        first[t] = renumbered[first[t]]
        second[t] = renumbered[second[t]]
    return kept_source, kept_target, first[:n_triplets].copy(), second[:n_triplets].copy()
