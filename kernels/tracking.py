"""From a classified graph to fitted tracks: threshold, components, peeling, absorption, fit."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from egretta.kernels.absorption import AbsorptionConfig, absorb
from egretta.kernels.batches import Float32, Int32, Int64
from egretta.kernels.fit import Lines, fit_lines
from egretta.kernels.peeling import Paths, PeelingConfig, peel
from egretta.kernels.triplets import Graph
from egretta.kernels.wcc import connected_components


@dataclass(frozen=True, slots=True)
class TrackingConfig:
    """``threshold`` is the triplet logit above which a triplet is kept."""

    threshold: float = 0.0
    peeling: PeelingConfig = field(default_factory=PeelingConfig)
    absorption: AbsorptionConfig = field(default_factory=AbsorptionConfig)


@dataclass(frozen=True, slots=True)
class Candidates:
    """Track candidates of a batch, ordered by event.

    ``offsets`` int64[candidates + 1] cuts ``hit`` int32 (counted in the batch, ascending in z); ``paths`` are
    the same candidates before absorption; ``lines`` their fits.
    """

    offsets: Int64
    hit: Int32
    paths: Paths
    lines: Lines


def components_of(graph: Graph, kept: NDArray[np.bool_], n_hits: int) -> Int32:
    """Weakly connected components of the hits over the edges of the ``kept`` triplets, int32[hits]."""
    rows = np.flatnonzero(kept)
    first, second = graph.first[rows], graph.second[rows]
    return connected_components(
        n_hits,
        np.concatenate((graph.source[first], graph.source[second])),
        np.concatenate((graph.target[first], graph.target[second])),
    )


def find_candidates(
    graph: Graph,
    triplet_logit: Float32,
    component: Int32,
    hit_offsets: Int64,
    module: Int32,
    x: Float32,
    y: Float32,
    z: Float32,
    config: TrackingConfig,
) -> Candidates:
    """Peel, absorb and fit. ``component`` is that of the triplets above the threshold; see the kernels' own
    descriptions for shapes and units."""
    paths = peel(graph, triplet_logit - np.float32(config.threshold), component, config.peeling)
    offsets, hit = absorb(hit_offsets, module, x, y, z, paths.offsets, paths.hit, config.absorption)
    return Candidates(offsets, hit, paths, fit_lines(offsets, hit, x, y, z))
