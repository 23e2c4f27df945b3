"""Weakly connected components of a batch's hits."""

from __future__ import annotations

import numpy as np
from numba import njit

from egretta.kernels.batches import Int32


def connected_components(n_nodes: int, source: Int32, target: Int32) -> Int32:
    """Label every node by the smallest node of its component, int32[n_nodes].

    ``source`` and ``target`` int32[edges] are node numbers; direction, repetition and self-loops do not
    matter. Exact on any graph: union-find, linking the larger root to the smaller and halving paths on the
    way (Tarjan and van Leeuwen, J. ACM 31, 245).
    """
    if len(source) != len(target):
        raise ValueError(f"{len(source)} sources but {len(target)} targets")
    if len(source) and not (
        min(source.min(), target.min()) >= 0 and max(source.max(), target.max()) < n_nodes
    ):
        raise ValueError(f"edges name nodes outside 0 to {n_nodes - 1}")
    return _label(n_nodes, source, target)  # type: ignore[no-any-return]


@njit(cache=True, nogil=True)
def _root(parent, node):  # type: ignore[no-untyped-def]
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@njit(cache=True, nogil=True)
def _label(n_nodes, source, target):  # type: ignore[no-untyped-def]
    parent = np.arange(n_nodes, dtype=np.int32)
    for e in range(len(source)):
        a, b = _root(parent, source[e]), _root(parent, target[e])
        if a < b:
            parent[b] = a
        elif b < a:
            parent[a] = b
    # a parent is never larger than its child, so that one ascending pass resolves all
    for node in range(n_nodes):
        parent[node] = parent[parent[node]]
    return parent
