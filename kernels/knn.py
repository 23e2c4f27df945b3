"""Nearest neighbours in an embedding, restricted to the planes that a straight track can reach next.

From a hit on station ``s`` the candidates lie on the other module of ``s`` when that one is downstream
(the two sides overlap near the beam), and on both modules of ``s + 1`` and ``s + 2``. A hit further away
in the embedding than ``d_max``, which is given apart for these three gaps, is no neighbour. Of the others the
``k`` nearest are kept; of two at the same distance the one with the smaller index comes first.

The search is exact. In events with crowded modules each module's keys are sorted along the first embedding
axis, so that a query reads a window of them; where modules hold few hits, reading them whole is faster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numba import njit

from egretta.kernels.batches import Float32, Int32, Int64
from egretta.kernels.geometry import N_MODULES
from egretta.kernels.growing import grown

N_GAPS = 3
# Modules with up to this many keys are read whole: to find the window would take longer.
_FEW = 128


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
    offsets, source, target = _search_kernel(query.shape[1])(
        hit_offsets,
        np.ascontiguousarray(module, dtype=np.int32),
        np.ascontiguousarray(query, dtype=np.float32).reshape(-1),
        np.ascontiguousarray(key, dtype=np.float32).reshape(-1),
        np.asarray(d_max, dtype=np.float32),
        k,
    )
    return Edges(offsets, source, target)


@njit(cache=True, nogil=True)
def module_starts(module, begin, end, starts):  # type: ignore[no-untyped-def]
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


@cache
def _search_kernel(n_dim: int) -> Callable[..., tuple[Int64, Int32, Int32]]:
    """The search for a given number of dimensions, a constant so that the loop over them is unrolled."""

    @njit(cache=True, nogil=True, fastmath={"contract"})
    def search(hit_offsets, module, query, key, d_max, k):  # type: ignore[no-untyped-def]
        n_hits = len(module)
        widest = 0
        for e in range(len(hit_offsets) - 1):
            widest = max(widest, hit_offsets[e + 1] - hit_offsets[e])
        order = np.empty(widest, np.int32)
        # one axis after the other, each ``widest`` long: what the inner loop reads is contiguous
        keys = np.empty(n_dim * widest, np.float32)
        away2 = np.empty(widest, np.float32)
        candidate = np.empty(widest + 1, np.int32)
        distance2 = np.empty(widest + 1, np.float32)
        q = np.empty(n_dim, np.float32)
        starts = np.empty(N_MODULES + 1, np.int64)
        offsets = np.zeros(n_hits + 1, np.int64)
        capacity = np.int64(max(1024, 16 * n_hits))
        source = np.empty(capacity, np.int32)
        target = np.empty(capacity, np.int32)
        n_edges = 0
        for e in range(len(hit_offsets) - 1):
            begin, end = hit_offsets[e], hit_offsets[e + 1]
            module_starts(module, begin, end, starts)
            crowded = False
            for m in range(N_MODULES):
                crowded = crowded or starts[m + 1] - starts[m] > _FEW
            for h in range(end - begin):
                order[h] = begin + h
            if crowded:
                first_axis = key[begin * n_dim : end * n_dim : n_dim]
                for m in range(N_MODULES):
                    a, b = starts[m] - begin, starts[m + 1] - begin
                    order[a:b] = starts[m] + np.argsort(first_axis[a:b], kind="mergesort")
            for h in range(end - begin):
                for d in range(n_dim):
                    keys[d * widest + h] = key[np.int64(order[h]) * n_dim + d]
            for i in range(begin, end):
                m = module[i]
                station = m >> 1
                for d in range(n_dim):
                    q[d] = query[i * n_dim + d]
                count = np.int64(0)
                other = m + 1
                last = min(2 * station + 6, N_MODULES)
                while other < last:
                    reach = d_max[(other >> 1) - station]
                    a = starts[other] - begin
                    # both modules of a station at once, unless windows have to be found
                    other = other + 1 if crowded else ((other >> 1) + 1) << 1
                    b = starts[other] - begin
                    if reach < 0 or a == b:
                        continue
                    if b - a > _FEW and crowded:
                        # a little wider than the bound itself, lest rounding lose a neighbour
                        margin = np.float32(1e-6) * (abs(q[0]) + reach)
                        a = _first_not_below(keys, a, b, q[0] - reach - margin)
                        b = _first_not_below(keys, a, b, q[0] + reach + margin)
                    n = np.uintp(b - a)
                    for c in range(n):
                        at = np.uintp(a) + np.uintp(c)
                        total = np.float32(0)
                        for d in range(n_dim):
                            delta = keys[np.uintp(d) * np.uintp(widest) + at] - q[np.uintp(d)]
                            total += delta * delta
                        away2[np.uintp(c)] = total
                    reach2 = reach * reach
                    # no branch: every key is written, and the next one over it unless it is near
                    n_near = np.uintp(count)
                    for c in range(n):
                        distance = away2[np.uintp(c)]
                        candidate[n_near] = order[np.uintp(a) + np.uintp(c)]
                        distance2[n_near] = distance
                        n_near += np.uintp(distance <= reach2)
                    count = np.int64(n_near)
                if count > k:
                    _keep_nearest(candidate, distance2, count, k)
                    count = np.int64(k)
                if n_edges + count > capacity:
                    capacity = 2 * capacity + count
                    source = grown(source, n_edges, capacity)
                    target = grown(target, n_edges, capacity)
                _sort_small(candidate, count)
                for c in range(count):
                    source[n_edges] = i
                    target[n_edges] = candidate[c]
                    n_edges += 1
                offsets[i + 1] = n_edges
        return offsets, source[:n_edges].copy(), target[:n_edges].copy()

    return search
