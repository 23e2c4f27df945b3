"""The arrays that each kernel of the VELO pipeline is given, made by the kernels before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egretta.engines.models import shipped
from egretta.engines.opening import open_engine
from egretta.engines.protocol import Engine
from egretta.jobs.readers.slicing import slice_hits
from egretta.kernels.batches import Float32, HitBatch, Int32
from egretta.kernels.knn import Edges, nearest_neighbours
from egretta.kernels.tracking import TrackingConfig, components_of
from egretta.kernels.triplets import Graph, straight_triplets

# The pipeline's own: events go through the steps in groups of about so many hits.
_GROUP_HITS = 8192


@dataclass(frozen=True, slots=True)
class Models:
    """Both shipped models in one engine, and the settings that they carry."""

    embedding: Engine
    gnn: Engine

    @staticmethod
    def open(engine: str) -> Models:
        """Load them, one thread each."""
        return Models(
            open_engine(engine, shipped("velo-embedding"), threads=1),
            open_engine(engine, shipped("velo-gnn"), threads=1),
        )

    @property
    def k(self) -> int:
        """Neighbours of a hit at most."""
        return int(self.embedding.spec.settings["k"])

    @property
    def d_max(self) -> Float32:
        """Largest distances, float32[3]."""
        return np.array([float(word) for word in self.embedding.spec.settings["d_max"].split()], np.float32)

    @property
    def kink_max(self) -> float:
        """Largest change of slope."""
        return float(self.embedding.spec.settings["kink_max"])

    @property
    def threshold(self) -> float:
        """Triplet logit above which a triplet is kept."""
        return float(self.gnn.spec.settings["threshold"])


@dataclass(frozen=True, slots=True)
class Stages:
    """One group of events with what every step makes of it."""

    hits: HitBatch
    position: Float32
    query: Float32
    key: Float32
    edges: Edges
    graph: Graph
    gate_logit: Float32
    logit: Float32
    kept: NDArray[np.bool_]
    component: Int32
    config: TrackingConfig

    @property
    def gnn_inputs(self) -> dict[str, NDArray[Any]]:
        """The graph network's inputs by name."""
        graph = self.graph
        return {
            "position": self.position,
            "source": graph.source,
            "target": graph.target,
            "first": graph.first,
            "second": graph.second,
        }


def groups(hits: HitBatch) -> Iterator[HitBatch]:
    """Runs of whole events with about as many hits as the pipeline takes at once."""
    begin = 0
    while begin < hits.n_events:
        limit = hits.offsets[begin] + _GROUP_HITS
        end = max(begin + 1, int(np.searchsorted(hits.offsets, limit, side="right")) - 1)
        yield slice_hits(hits, begin, end)
        begin = end


def through_all_steps(hits: HitBatch, models: Models) -> Stages:
    """Run the pipeline's steps and keep what lies between them."""
    position = np.stack((hits.x, hits.y, hits.z), axis=1)
    embedded = models.embedding.run({"position": position})
    query, key = embedded["query"], embedded["key"]
    edges = nearest_neighbours(hits.offsets, hits.module, query, key, models.d_max, models.k)
    graph = straight_triplets(edges, hits.x, hits.y, hits.z, models.kink_max)
    inputs = {"position": position, "source": graph.source, "target": graph.target}
    logits = models.gnn.run({**inputs, "first": graph.first, "second": graph.second})
    gate_logit, logit = logits["gate_logit"], logits["triplet_logit"]
    kept = logit > models.threshold
    component = components_of(graph, kept, hits.n_hits)
    config = TrackingConfig(threshold=models.threshold)
    return Stages(hits, position, query, key, edges, graph, gate_logit, logit, kept, component, config)
