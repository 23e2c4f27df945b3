"""Nearest neighbours in an embedding, restricted to the planes that a straight track can reach next.

From a hit on station ``s`` the candidates lie on the other module of ``s`` when that one is downstream
(the two sides overlap near the beam), and on both modules of ``s + 1`` and ``s + 2``. A hit further away
in the embedding than ``d_max``, which is given apart for these three gaps, is no neighbour. Of the others the
``k`` nearest are kept; of two at the same distance the one with the smaller index comes first.

The search is exact. Each module's keys are sorted along the first embedding axis, so that a query reads a
window of them and the time grows with the window's width, not with the square of the occupancy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from egretta.kernels.batches import Float32, Int32, Int64
from egretta.kernels.geometry import N_MODULES

N_GAPS = 3
# Keys are compared in blocks of this many, the width of a 512-bit register of float32.
_LANES = 16


@dataclass(frozen=True, slots=True)
class Edges:
    """Directed edges from upstream to downstream hits, grouped by source.

    ``offsets`` int64[hits + 1] cuts the edges by their source hit; ``source`` and ``target`` int32[edges]
    count hits in the whole batch. Within a source, targets ascend.
    """

    offsets: Int64
    source: Int32
    target: Int32

    def __len__(self) -> int:
        return len(self.target)


def nearest_neighbours(
    hit_offsets: Int64, module: Int32, query: Float32, key: Float32, d_max: Float32, k: int
) -> Edges:
    """Neighbours of every hit on its next two stations.

    ``hit_offsets`` int64[events + 1]; ``module`` int32[hits], ascending within an event; ``query`` and
    ``key`` float32[hits, dimensions], where a hit looks for its successors and where it is found;
    ``d_max`` float32[3], the largest distance for gaps of 0, 1 and 2 stations (negative: no neighbour);
    ``k`` at least 1.
    """
    if query.shape != key.shape or query.ndim != 2 or len(query) != len(module):
        raise ValueError(f"query {query.shape} and key {key.shape} must both be ({len(module)}, dimensions)")
    if d_max.shape != (N_GAPS,):
        raise ValueError(f"d_max must hold {N_GAPS} distances, one for each gap, not {d_max.shape}")
    if k < 1:
        raise ValueError(f"k must be at least 1, not {k}")
    offsets, source, target = _search(
        hit_offsets,
        np.ascontiguousarray(module, dtype=np.int32),
        np.ascontiguousarray(query, dtype=np.float32),
        np.ascontiguousarray(key.T, dtype=np.float32),
        np.asarray(d_max, dtype=np.float32),
        k,
    )
    return Edges(offsets, source, target)


@njit(cache=True, nogil=True)
def _module_starts(module, begin, end, starts):  # type: ignore[no-untyped-def]
    """Fill ``starts`` int64[53] with the first hit of each module of one event."""
    at = begin
    for m in range(N_MODULES + 1):
        while at < end and module[at] < m:
            at += 1
        starts[m] = at


@njit(cache=True, nogil=True)
def _first_not_below(values, begin, end, bound):  # type: ignore[no-untyped-def]
    while begin < end:
        middle = (begin + end) >> 1
        if values[middle] < bound:
            begin = middle + 1
        else:
            end = middle
    return begin


@njit(cache=True, nogil=True)
def _keep_nearest(candidate, distance2, count, k):  # type: ignore[no-untyped-def]
    """Move the ``k`` nearest of ``count`` candidates to the front, ties by index."""
    for kept in range(k):
        best = kept
        for c in range(kept + 1, count):
            if distance2[c] < distance2[best] or (
                distance2[c] == distance2[best] and candidate[c] < candidate[best]
            ):
                best = c
        candidate[kept], candidate[best] = candidate[best], candidate[kept]
        distance2[kept], distance2[best] = distance2[best], distance2[kept]


@njit(cache=True, nogil=True)
def _sort_small(values, count):  # type: ignore[no-untyped-def]
    for a in range(1, count):
        value = values[a]
        b = a - 1
        while b >= 0 and values[b] > value:
            values[b + 1] = values[b]
            b -= 1
        values[b + 1] = value


@njit(cache=True, nogil=True, fastmath={"contract"})
def _search(hit_offsets, module, query, key, d_max, k):  # type: ignore[no-untyped-def]
    n_hits, n_dim = query.shape
    n_events = len(hit_offsets) - 1
    widest = 0
    for e in range(n_events):
        widest = max(widest, hit_offsets[e + 1] - hit_offsets[e])
    # padded, so that whole blocks of lanes can be read past the last key
    order = np.empty(widest, np.int32)
    sorted_key = np.zeros((n_dim, widest + _LANES), np.float32)
    candidate = np.empty(widest + 1, np.int32)
    distance2 = np.empty(widest + 1, np.float32)
    block = np.empty(_LANES, np.float32)
    starts = np.empty(N_MODULES + 1, np.int64)
    offsets = np.zeros(n_hits + 1, np.int64)
    capacity = max(1024, 16 * n_hits)
    source = np.empty(capacity, np.int32)
    target = np.empty(capacity, np.int32)
    n_edges = 0
    for e in range(n_events):
        begin, end = hit_offsets[e], hit_offsets[e + 1]
        _module_starts(module, begin, end, starts)
        for m in range(N_MODULES):
            a, b = starts[m], starts[m + 1]
            if b > a:
                order[a - begin : b - begin] = np.argsort(key[0, a:b], kind="mergesort")
                for at in range(a - begin, b - begin):
                    order[at] += a
                    for d in range(n_dim):
                        sorted_key[d, at] = key[d, order[at]]
        for i in range(begin, end):
            m = module[i]
            station = m >> 1
            count = 0
            for other in range(m + 1, min(2 * station + 6, N_MODULES)):
                reach = d_max[(other >> 1) - station]
                a, b = starts[other] - begin, starts[other + 1] - begin
                if reach < 0 or a == b:
                    continue
                reach2 = reach * reach
                # one unit in the last place wider than the bound itself, lest rounding lose a neighbour
                margin = np.float32(1e-6) * (abs(query[i, 0]) + reach)
                lowest, highest = query[i, 0] - reach - margin, query[i, 0] + reach + margin
                if b - a > _LANES:
                    a = _first_not_below(sorted_key[0], a, b, lowest)
                while a < b and sorted_key[0, a] <= highest:
                    for lane in range(_LANES):
                        block[lane] = 0.0
                    for d in range(n_dim):
                        q = query[i, d]
                        for lane in range(_LANES):
                            delta = sorted_key[d, a + lane] - q
                            block[lane] += delta * delta
                    for lane in range(min(_LANES, b - a)):
                        if block[lane] <= reach2:
                            candidate[count] = order[a + lane]
                            distance2[count] = block[lane]
                            count += 1
                    a += _LANES
            if count > k:
                _keep_nearest(candidate, distance2, count, k)
                count = k
            if n_edges + count > capacity:
                capacity = max(2 * capacity, n_edges + count)
                source = _grown(source, n_edges, capacity)
                target = _grown(target, n_edges, capacity)
            _sort_small(candidate, count)
            for c in range(count):
                source[n_edges] = i
                target[n_edges] = candidate[c]
                n_edges += 1
            offsets[i + 1] = n_edges
    return offsets, source[:n_edges].copy(), target[:n_edges].copy()


@njit(cache=True, nogil=True)
def _grown(values, used, capacity):  # type: ignore[no-untyped-def]
    grown = np.empty(capacity, values.dtype)
    grown[:used] = values[:used]
    return grown
