"""Peeling: taking straight tracks out of connected components, the best first.

A component of kept triplets often holds more than one particle. Its triplets form a directed acyclic graph
from upstream to downstream; the heaviest path through it is the best track candidate, found by dynamic
programming over the triplets in reverse order. Its hits are then marked as used, which makes paths
through them expensive but not impossible (electron pairs of conversions share hits), and the next
heaviest path is sought, until none is worth a track.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from egretta.kernels.batches import Float32, Int32, Int64
from egretta.kernels.triplets import Graph


@dataclass(frozen=True, slots=True)
class PeelingConfig:
    """What makes a path a track.

    ``reuse_penalty`` is what a used hit takes off a path's weight, in units of the triplets' weights;
    ``min_hits`` the hits a track needs, ``min_new_hits`` those of them that no earlier track has.
    """

    reuse_penalty: float = 4.0
    min_hits: int = 3
    min_new_hits: int = 2


def peel(
    graph: Graph, weight: Float32, component: Int32, config: PeelingConfig
) -> tuple[Int64, Int32]:
    """Tracks as hits, ascending in z, cut by offsets: int64[tracks + 1], int32.

    ``weight`` float32[triplets] is positive for the triplets to be used; the others are left out.
    ``component`` int32[hits] labels hits so that all hits of a triplet in use have one label; tracks come
    in ascending order of it, which keeps events together when hits of an event do.
    """
    used = np.flatnonzero(weight > 0)
    label = component[graph.source[graph.first[used]]]
    # stable, so that within a component triplets still ascend by first edge
    order = np.argsort(label, kind="stable")
    chosen = used[order].astype(np.int32)
    starts = np.flatnonzero(np.diff(label[order], prepend=-1)).astype(np.int64)
    bounds = np.append(starts, len(chosen))
    return _peel(  # type: ignore[no-any-return]
        graph.source,
        graph.target,
        graph.first[chosen],
        graph.second[chosen],
        weight[chosen].astype(np.float32),
        bounds,
        len(component),
        np.float32(config.reuse_penalty),
        config.min_hits,
        config.min_new_hits,
    )


@njit(cache=True, nogil=True)
def _peel(  # type: ignore[no-untyped-def]
    source, target, first, second, weight, bounds, n_hits, penalty, min_hits, min_new_hits
):
    n_edges = len(source)
    used = np.zeros(n_hits, np.float32)
    best = np.zeros(n_edges, np.float32)
    onward = np.full(n_edges, -1, np.int32)
    alive = np.ones(len(first), np.bool_)
    path = np.empty(1024, np.int32)
    capacity = max(64, n_hits)
    hits = np.empty(capacity, np.int32)
    offsets = [np.int64(0)]
    n_out = 0
    for c in range(len(bounds) - 1):
        a, b = bounds[c], bounds[c + 1]
        while True:
            # heaviest continuation of each edge
            for t in range(a, b):
                best[first[t]] = best[second[t]] = 0
                onward[first[t]] = onward[second[t]] = -1
            start, start_value = -1, np.float32(-1e30)
            for t in range(b - 1, a - 1, -1):
                if not alive[t]:
                    continue
                e, f = first[t], second[t]
                value = weight[t] - penalty * used[target[f]] + max(np.float32(0), best[f])
                if onward[e] < 0 or value > best[e]:
                    best[e] = value
                    onward[e] = t
                whole = best[e] - penalty * (used[source[e]] + used[target[e]])
                if whole > start_value:
                    start_value = whole
                    start = e
            if start < 0:
                break
            n_path = 0
            path[0], path[1] = source[start], target[start]
            n_path = 2
            t = onward[start]
            while t >= 0:
                alive[t] = False
                f = second[t]
                if n_path == len(path):
                    longer = np.empty(2 * n_path, np.int32)
                    longer[:n_path] = path
                    path = longer
                path[n_path] = target[f]
                n_path += 1
                # a path stops where going on costs more than it brings
                t = onward[f] if best[f] > 0 else -1
            n_new = 0
            for p in range(n_path):
                n_new += used[path[p]] == 0
            if n_path >= min_hits and n_new >= min_new_hits:
                if n_out + n_path > capacity:
                    capacity = 2 * capacity + n_path
                    grown = np.empty(capacity, np.int32)
                    grown[:n_out] = hits[:n_out]
                    hits = grown
                for p in range(n_path):
                    used[path[p]] = 1
                    hits[n_out] = path[p]
                    n_out += 1
                offsets.append(np.int64(n_out))
    out = np.empty(len(offsets), np.int64)
    for o in range(len(offsets)):
        out[o] = offsets[o]
    return out, hits[:n_out].copy()
