"""SciPy on the arrays that our kernels are given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from egretta.kernels.batches import Float32
from egretta.kernels.geometry import N_MODULES

if TYPE_CHECKING:
    from benchmarks.kernel_inputs import Stages


def whole_event(s: Stages, k: int) -> None:
    """The k nearest keys of every query, event by event."""
    offsets = s.hits.offsets
    for e in range(s.hits.n_events):
        rows = slice(int(offsets[e]), int(offsets[e + 1]))
        if rows.stop > rows.start:
            cKDTree(s.key[rows]).query(s.query[rows], k=k, workers=1)


def same_planes(s: Stages, k: int, d_max: Float32) -> int:
    """Up to k keys within ``d_max`` on the planes that ours searches; how many were found."""
    found = 0
    for e in range(s.hits.n_events):
        begin, end = int(s.hits.offsets[e]), int(s.hits.offsets[e + 1])
        starts = begin + np.searchsorted(s.hits.module[begin:end], np.arange(N_MODULES + 1))
        stations = [slice(starts[m], starts[m + 2]) for m in range(0, N_MODULES, 2)]
        trees = [cKDTree(s.key[rows]) if rows.stop > rows.start else None for rows in stations]
        for station, rows in enumerate(stations):
            upstream = slice(rows.start, starts[2 * station + 1])
            downstream = slice(upstream.stop, rows.stop)
            if downstream.stop > downstream.start:
                found += _near(cKDTree(s.key[downstream]), s.query[upstream], k, d_max[0])
            for gap in (1, 2):
                if station + gap < len(trees) and (tree := trees[station + gap]) is not None:
                    found += _near(tree, s.query[rows], k, d_max[gap])
    return found


def _near(tree: Any, query: Float32, k: int, distance: float) -> int:
    if len(query) == 0:
        return 0
    away, _ = tree.query(query, k=k, distance_upper_bound=distance, workers=1)
    return int(np.isfinite(away).sum())


def adjacency(s: Stages) -> Any:
    """The kept triplets' edges as a CSR matrix."""
    first, second = s.graph.first[s.kept], s.graph.second[s.kept]
    source = np.concatenate((s.graph.source[first], s.graph.source[second]))
    target = np.concatenate((s.graph.target[first], s.graph.target[second]))
    ones = np.ones(len(source), np.int8)
    return coo_array((ones, (source, target)), shape=(s.hits.n_hits, s.hits.n_hits)).tocsr()


def label(matrix: Any) -> None:
    """Weakly connected components."""
    connected_components(matrix, directed=False)


def components(s: Stages) -> None:
    """Both, from the edges on."""
    label(adjacency(s))
