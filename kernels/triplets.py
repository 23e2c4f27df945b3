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

# Slopes are compared in blocks of this many, a 256-bit register of float32.
_LANES = 8
# Shape of the limit on kinks, from the scattering of simulated particles: at 98.9 % of the true triplets it
# lets through a fifth fewer edges than a constant limit.
_STRAY_PART = 0.2
_SLOPE_PART = 3.0
_IMPACT_SCALE_MM = 4.0


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

    ``x``, ``y``, ``z`` float32[hits] in mm. A triplet's kink is the change of the slope vector (dx/dz, dy/dz)
    from its first edge to its second; :func:`kink_limit` of the first edge bounds it. An edge with a
    non-positive dz makes no triplet.
    """
    if kink_max <= 0:
        raise ValueError(f"kink_max must be positive, not {kink_max}")
    source, target, first, second = _link(
        edges.offsets, edges.source, edges.target, x, y, z, np.float32(kink_max)
    )
    return Graph(source, target, first, second)


@njit(cache=True, nogil=True, fastmath={"contract"})
def kink_limit(slope, impact_mm, kink_max):  # type: ignore[no-untyped-def]
    """The largest kink of a track with this slope and impact parameter, float32.

    ``kink_max`` is the limit for a track along the beam and through it. The limit grows with the slope,
    because particles at large angles are slower and scatter more, and because a given angle changes a steep
    slope more. It falls with the distance to the beam, where real tracks are rare and chance triplets many.
    """
    f = np.float32
    near_beam = f(1) / (f(1) + impact_mm * f(1 / _IMPACT_SCALE_MM))
    widening = f(1) + slope * slope
    return (
        kink_max
        * (f(_STRAY_PART) + (f(1 - _STRAY_PART) + f(_SLOPE_PART) * slope) * near_beam)
        * np.sqrt(widening * np.sqrt(widening))
    )


@njit(cache=True, nogil=True, fastmath={"contract"})
def _slopes(source, target, x, y, z, kink_max):  # type: ignore[no-untyped-def]
    """Slopes of all edges, and the square of the kink that each allows; padded by a block."""
    n_edges = len(source)
    tx = np.zeros(n_edges + _LANES, np.float32)
    ty = np.zeros(n_edges + _LANES, np.float32)
    limit = np.zeros(n_edges + _LANES, np.float32)
    for e in range(n_edges):
        i, j = np.uintp(source[e]), np.uintp(target[e])
        dz = z[j] - z[i]
        if dz > 0:
            tx[e], ty[e] = (x[j] - x[i]) / dz, (y[j] - y[i]) / dz
            slope = np.sqrt(tx[e] * tx[e] + ty[e] * ty[e] + np.float32(1e-6))
            impact_mm = abs(x[i] * ty[e] - y[i] * tx[e]) / slope
            kink = kink_limit(slope, impact_mm, kink_max)
            limit[e] = kink * kink
        else:
            # further from every slope than any limit
            tx[e] = np.float32(1e15)
    return tx, ty, limit


@njit(cache=True, nogil=True, fastmath=True)
def _may_go_on(offsets, target, tx, ty, limit):  # type: ignore[no-untyped-def]
    """For each edge how many blocks of slopes hold one within its limit, int32[edges]."""
    blocks = np.empty(len(target), np.int32)
    for e in range(len(target)):
        # unsigned, because Numba checks every signed index for Python's negative ones
        j = np.uintp(target[e])
        a, b = np.uintp(offsets[j]), np.uintp(offsets[j + np.uintp(1)])
        tx_e, ty_e, limit_e = tx[e], ty[e], limit[e]
        count = np.int32(0)
        while a < b:
            smallest = np.float32(1e30)
            for lane in range(_LANES):
                f = a + np.uintp(lane)
                kx, ky = tx[f] - tx_e, ty[f] - ty_e
                smallest = min(smallest, kx * kx + ky * ky)
            count += smallest < limit_e
            a += np.uintp(_LANES)
        blocks[e] = count
    return blocks


@njit(cache=True, nogil=True, fastmath={"contract"})
def _link(offsets, source, target, x, y, z, kink_max):  # type: ignore[no-untyped-def]
    n_edges = len(source)
    tx, ty, limit = _slopes(source, target, x, y, z, kink_max)
    # a branch-free look in blocks first: most edges go on nowhere
    blocks = _may_go_on(offsets, target, tx, ty, limit)
    capacity = blocks.sum() * _LANES + 1
    first = np.empty(capacity, np.int32)
    second = np.empty(capacity, np.int32)
    at = np.uintp(0)
    for e in range(n_edges):
        if blocks[e] == 0:
            continue
        j = np.uintp(target[e])
        # no branch: every pair is written, and the next one over it unless it is straight
        f, end = np.uintp(offsets[j]), np.uintp(offsets[j + np.uintp(1)])
        tx_e, ty_e, limit_e = tx[e], ty[e], limit[e]
        while f < end:
            kx, ky = tx[f] - tx_e, ty[f] - ty_e
            first[at] = e
            second[at] = f
            at += np.uintp(kx * kx + ky * ky < limit_e)
            f += np.uintp(1)
    n_triplets = np.int64(at)
    linked = np.zeros(n_edges, np.uint8)
    for t in range(n_triplets):
        linked[first[t]] = linked[second[t]] = 1
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
