"""Peeling: taking straight tracks out of connected components, the best first.

A component of kept triplets often holds more than one particle. Its triplets form a directed acyclic graph
from upstream to downstream; the heaviest path through it is the best track candidate, found by dynamic
programming over the triplets in reverse order. Its hits are then marked as used, which makes paths
through them expensive but not impossible (electron pairs of conversions share hits), and the next
heaviest path is sought, until none is worth a track. Triplets of three used hits are left out from then on: a
path through them would follow a track that is already found.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from egretta.kernels.batches import Float32, Int32, Int64
from egretta.kernels.growing import grown
from egretta.kernels.triplets import Graph


@dataclass(frozen=True, slots=True)
class PeelingConfig:
    """What makes a path a track; weights are in the units of the triplets' weights.

    ``reuse_penalty`` is what a used hit takes off a path's weight. A track needs three hits that no earlier
    track has, or two where its triplets weigh ``min_shared_weight`` in the mean.
    """

    reuse_penalty: float = 4.0
    min_shared_weight: float = 0.7


@dataclass(frozen=True, slots=True)
class Paths:
    """Paths through the triplets of a graph.

    ``offsets`` int64[paths + 1] cuts ``hit`` int32, ascending in z, into paths. A path of n hits goes through
    n - 2 triplets: those of path p are ``triplet`` int32[offsets[p] - 2 p : offsets[p + 1] - 2 (p + 1)].
    """

    offsets: Int64
    hit: Int32
    triplet: Int32

    def __len__(self) -> int:
        return len(self.offsets) - 1


def peel(graph: Graph, weight: Float32, component: Int32, config: PeelingConfig) -> Paths:
    """The tracks of all components.

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
    offsets, hit, triplet = _peel(
        graph.source,
        graph.target,
        graph.first[chosen],
        graph.second[chosen],
        weight[chosen].astype(np.float32),
        bounds,
        len(component),
        np.float32(config.reuse_penalty),
        np.float32(config.min_shared_weight),
    )
    return Paths(offsets, hit, chosen[triplet])


@njit(cache=True, nogil=True)
def _peel(  # type: ignore[no-untyped-def]
    source, target, first, second, weight, bounds, n_hits, penalty, min_shared_weight
):
    n_edges = len(source)
    used = np.zeros(n_hits, np.float32)
    best = np.zeros(n_edges, np.float32)
    onward = np.full(n_edges, -1, np.int32)
    alive = np.ones(len(first), np.bool_)
    path = np.empty(1024, np.int32)
    link = np.empty(1024, np.int32)
    capacity = max(64, n_hits)
    hits = np.empty(capacity, np.int32)
    links = np.empty(capacity, np.int32)
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
                    path = grown(path, n_path, 2 * n_path)
                    link = grown(link, n_path, 2 * n_path)
                path[n_path] = target[f]
                link[n_path - 2] = t
                n_path += 1
                # a path stops where going on costs more than it brings
                t = onward[f] if best[f] > 0 else -1
            n_new = 0
            for p in range(n_path):
                n_new += used[path[p]] == 0
            total = np.float32(0)
            for p in range(n_path - 2):
                total += weight[link[p]]
            if n_new >= 3 or (n_new == 2 and total >= min_shared_weight * (n_path - 2)):
                if n_out + n_path > capacity:
                    capacity = 2 * capacity + n_path
                    hits = grown(hits, n_out, capacity)
                    links = grown(links, n_out, capacity)
                n_links = n_out - 2 * (len(offsets) - 1)
                for p in range(n_path - 2):
                    links[n_links + p] = link[p]
                for p in range(n_path):
                    used[path[p]] = 1
                    hits[n_out] = path[p]
                    n_out += 1
                offsets.append(np.int64(n_out))
                # three used hits in a row lead to no new track
                for t in range(a, b):
                    e, f = first[t], second[t]
                    if used[source[e]] + used[target[e]] + used[target[f]] == 3:
                        alive[t] = False
    out = np.empty(len(offsets), np.int64)
    for o in range(len(offsets)):
        out[o] = offsets[o]
    return out, hits[:n_out].copy(), links[: n_out - 2 * (len(offsets) - 1)].copy()
