"""The graph network: which edges and triplets belong to a particle.

Edges are the nodes of its message passing, triplets the links: a triplet tells each of its two edges what
the other is like and how large the kink is; the strongest message in each direction counts. Edges that
leave or enter the same hit compete through a maximum at the hit. All features are invariant under
rotation about the beam.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from egretta.engines.training.config import GnnConfig
from egretta.engines.training.progress import Report, due, print_loss
from egretta.engines.training.truth import TruthHits, share_particle
from egretta.kernels.batches import Float32, Int64
from egretta.kernels.errors import UsageError
from egretta.kernels.gnn import CLOSED_LOGIT
from egretta.kernels.knn import nearest_neighbours
from egretta.kernels.triplets import Graph, straight_triplets

N_EDGE_FEATURES = 8
N_TRIPLET_FEATURES = 5


def edge_features(position: Tensor, source: Tensor, target: Tensor) -> Tensor:
    """Radii, z, length, slope, impact parameter and z at the beam of each edge, all of order 1."""
    a, b = position[source], position[target]
    dz = b[:, 2] - a[:, 2]
    tx, ty = (b[:, 0] - a[:, 0]) / dz, (b[:, 1] - a[:, 1]) / dz
    slope2 = tx * tx + ty * ty + 1e-6
    slope = torch.sqrt(slope2)
    radius_a = torch.sqrt(a[:, 0] ** 2 + a[:, 1] ** 2)
    radius_b = torch.sqrt(b[:, 0] ** 2 + b[:, 1] ** 2)
    impact = torch.abs(a[:, 0] * ty - a[:, 1] * tx) / slope
    z_beam = a[:, 2] - (a[:, 0] * tx + a[:, 1] * ty) / slope2
    return torch.stack(
        [
            radius_a / 20.0,
            radius_b / 20.0,
            a[:, 2] / 400.0,
            dz / 50.0,
            slope * 4.0,
            torch.log(impact + 0.05),
            torch.clamp(z_beam, -500.0, 500.0) / 200.0,
            (radius_b - radius_a) / dz * 4.0,
        ],
        1,
    )


def triplet_features(
    position: Tensor, source: Tensor, target: Tensor, first: Tensor, second: Tensor
) -> Tensor:
    """The kink of each triplet, along and across the track, absolute and against the resolution."""
    a, b, c = position[source[first]], position[target[first]], position[target[second]]
    dz1, dz2 = b[:, 2] - a[:, 2], c[:, 2] - b[:, 2]
    tx, ty = (b[:, 0] - a[:, 0]) / dz1, (b[:, 1] - a[:, 1]) / dz1
    kx, ky = (c[:, 0] - b[:, 0]) / dz2 - tx, (c[:, 1] - b[:, 1]) / dz2 - ty
    slope = torch.sqrt(tx * tx + ty * ty + 1e-6)
    kink2 = kx * kx + ky * ky
    # the slopes' resolution for a hit resolution of 15 um, the middle hit entering twice
    resolution2 = 0.015**2 * ((1 / dz1 + 1 / dz2) ** 2 + 1 / dz1**2 + 1 / dz2**2)
    return torch.stack(
        [
            torch.log(kink2 / resolution2 + 0.1) * 0.5,
            torch.log(kink2 * 1e5 + 0.1) * 0.5,
            torch.abs(kx * tx + ky * ty) / slope * 100.0,
            torch.abs(kx * ty - ky * tx) / slope * 100.0,
            dz2 / 50.0,
        ],
        1,
    )


class TripletGNN(nn.Module):
    """Logits of the gate of every edge, and of every triplet.

    After the first step an edge whose gate logit is not positive falls silent, with all its triplets: the
    steps that follow see only what is left. Messages and rivals are never negative and the strongest counts
    from zero on, so that to silence one is to take it out of the graph.
    """

    def __init__(self, config: GnnConfig) -> None:
        super().__init__()
        self.encode = nn.Linear(N_EDGE_FEATURES, config.states[0])
        self.gate = nn.Linear(config.states[1], 1)
        self.steps = nn.ModuleList(
            nn.ModuleDict(
                {
                    "first": nn.Linear(state, message),
                    "second": nn.Linear(state, message, bias=False),
                    "kink": nn.Linear(N_TRIPLET_FEATURES, message, bias=False),
                    "rival": nn.Linear(state + 2 * message, rival),
                    "advance": nn.Linear(state + 2 * message + 2 * rival, advanced),
                }
            )
            for state, message, rival, advanced in zip(
                config.states[:-1], config.messages[:-1], config.rivals, config.states[1:], strict=True
            )
        )
        state, message = config.states[-1], config.messages[-1]
        self.first = nn.Linear(state, message)
        self.second = nn.Linear(state, message, bias=False)
        self.kink = nn.Linear(N_TRIPLET_FEATURES, message, bias=False)
        self.triplet = nn.Linear(message, 1)

    def forward(
        self, position: Tensor, source: Tensor, target: Tensor, first: Tensor, second: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Gate logits of edges, float32[edges], and logits of triplets, float32[triplets]; those of triplets
        with a closed edge are ``CLOSED_LOGIT``."""
        # index_select throughout, because the gradient of plain indexing serialises over repeated rows
        n_hits, n_edges = len(position), len(source)
        kink = triplet_features(position, source, target, first, second)
        state = torch.relu(self.encode(edge_features(position, source, target)))
        gate = open_edge = state.new_ones(n_edges)
        open_triplet = state.new_ones(len(first))
        for number, step in enumerate(self.steps):
            message = open_triplet[:, None] * torch.relu(
                step["first"](state).index_select(0, first)
                + step["second"](state).index_select(0, second)
                + step["kink"](kink)
            )
            onward = _strongest(message, first, n_edges)
            back = _strongest(message, second, n_edges)
            seen = torch.cat([state, onward, back], 1)
            rival = open_edge[:, None] * torch.relu(step["rival"](seen))
            leaving = _strongest(rival, source, n_hits).index_select(0, source)
            entering = _strongest(rival, target, n_hits).index_select(0, target)
            state = torch.relu(step["advance"](torch.cat([seen, leaving, entering], 1)))
            if number == 0:
                gate = self.gate(state)[:, 0]
                open_edge = (gate > 0).float()
                open_triplet = open_edge[first] * open_edge[second]
        joined = torch.relu(
            self.first(state).index_select(0, first)
            + self.second(state).index_select(0, second)
            + self.kink(kink)
        )
        logit = self.triplet(joined)[:, 0]
        return gate, torch.where(open_triplet > 0, logit, CLOSED_LOGIT)


def _strongest(values: Tensor, index: Tensor, n: int) -> Tensor:
    """Maximum of non-negative rows by index; 0 where there is none."""
    out = torch.zeros((n, values.shape[1]), dtype=values.dtype, device=values.device)
    return out.scatter_reduce(0, index[:, None].expand_as(values), values, "amax")


@dataclass(frozen=True, slots=True)
class LabelledGraphs:
    """Graphs of many events with labels and weights, cut into events by the offsets."""

    truth: TruthHits
    graph: Graph
    edge_offsets: Int64
    triplet_offsets: Int64
    edge_label: Float32
    edge_weight: Float32
    triplet_label: Float32
    triplet_weight: Float32


def build_graphs(
    truth: TruthHits, query: Float32, key: Float32, d_max: Float32, k: int, kink_max: float
) -> LabelledGraphs:
    """Graphs as the pipeline makes them, labelled: true if all hits belong to one particle.

    A true edge or triplet weighs more the fewer stations its particle has hits on, since losing one loses
    the particle.
    """
    edges = nearest_neighbours(truth.offsets, truth.module, query, key, d_max, k)
    x, y, z = (np.ascontiguousarray(column) for column in truth.position.T)
    graph = straight_triplets(edges, x, y, z, kink_max)
    edge_label, particle = share_particle(truth.particles, graph.source, graph.target)
    edge_weight = _weights(edge_label, particle, truth.n_stations)
    triplet_label, particle = share_particle(
        truth.particles, graph.source[graph.first], graph.target[graph.first], graph.target[graph.second]
    )
    triplet_weight = _weights(triplet_label, particle, truth.n_stations)
    edge_offsets = np.searchsorted(graph.source, truth.offsets)
    return LabelledGraphs(
        truth,
        graph,
        edge_offsets,
        np.searchsorted(graph.first, edge_offsets),
        edge_label.astype(np.float32),
        edge_weight,
        triplet_label.astype(np.float32),
        triplet_weight,
    )


def _weights(label: np.ndarray, particle: np.ndarray, n_stations: np.ndarray) -> Float32:
    short = np.clip(8.0 / np.maximum(n_stations[particle], 2), 0.5, 3.0)
    return np.where(label, short, 1.0).astype(np.float32)


def train_gnn(
    data: LabelledGraphs, config: GnnConfig, device: str = "cpu", report: Report = print_loss
) -> TripletGNN:
    """Train on all graphs of ``data``; on a CPU the same seed gives the same weights.

    ``report`` gets the loss now and then. Raises UsageError where the graphs hold no triplet.
    """
    if data.graph.n_triplets == 0:
        raise UsageError(
            "cannot train the graph network: the graphs hold no triplet",
            hint="train the embedding for longer, or widen --kink-max",
        )
    torch.manual_seed(config.seed)
    rng = np.random.default_rng(config.seed)
    model = TripletGNN(config)
    model.to(device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=config.learning_rate, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, config.learning_rate, config.steps)
    loader = _Batches(data, device)
    for step in range(config.steps):
        count = min(config.events_per_step, data.truth.n_events)
        batch = loader.batch(rng.choice(data.truth.n_events, count, replace=False))
        gate, triplet = model(*batch.inputs)
        gate_weight = torch.where(batch.edge_label > 0, config.gate_positive_weight, 1.0) * batch.edge_weight
        gate_loss = _loss(gate, batch.edge_label, gate_weight)
        # a closed triplet has a constant logit, so that it teaches only the gate
        loss = gate_loss / math.sqrt(config.gate_positive_weight) + _loss(
            triplet, batch.triplet_label, batch.triplet_weight
        )
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if due(step, config.steps):
            report("gnn", step, loss.item())
    model.eval()
    return model


def _loss(logit: Tensor, label: Tensor, weight: Tensor) -> Tensor:
    return nn.functional.binary_cross_entropy_with_logits(logit, label, weight, reduction="sum") / max(
        len(label), 1
    )


@dataclass(frozen=True, slots=True)
class _Batch:
    inputs: tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
    edge_label: Tensor
    edge_weight: Tensor
    triplet_label: Tensor
    triplet_weight: Tensor


class _Batches:
    """Graphs on the device, from which batches of events are cut."""

    def __init__(self, data: LabelledGraphs, device: str) -> None:
        self.data = data
        self.device = device
        graph = (data.graph.source, data.graph.target, data.graph.first, data.graph.second)
        labels = (data.edge_label, data.edge_weight, data.triplet_label, data.triplet_weight)
        self.position = torch.from_numpy(data.truth.position).to(device)
        self.graph = [torch.from_numpy(a.astype(np.int64)).to(device) for a in graph]
        self.labels = [torch.from_numpy(a).to(device) for a in labels]

    def batch(self, events: np.ndarray) -> _Batch:
        """The chosen events, renumbered to be one graph."""
        hits, hit_shift, _ = self._rows(self.data.truth.offsets, events)
        edges, edge_shift, per_event = self._rows(self.data.edge_offsets, events)
        per_edge = torch.repeat_interleave(hit_shift, per_event, output_size=len(edges))
        triplets, _, per_event = self._rows(self.data.triplet_offsets, events)
        per_triplet = torch.repeat_interleave(edge_shift, per_event, output_size=len(triplets))
        source, target, first, second = self.graph
        return _Batch(
            (
                self.position[hits],
                source[edges] - per_edge,
                target[edges] - per_edge,
                first[triplets] - per_triplet,
                second[triplets] - per_triplet,
            ),
            self.labels[0][edges],
            self.labels[1][edges],
            self.labels[2][triplets],
            self.labels[3][triplets],
        )

    def _rows(self, offsets: Int64, events: Int64) -> tuple[Tensor, Tensor, Tensor]:
        """Row numbers of the events' elements; by how much each event's numbers shift; elements an event.

        Only a number an event travels to the device: whole rows would take longer than the step.
        """
        count = offsets[events + 1] - offsets[events]
        shift = offsets[events] - (np.cumsum(count) - count)
        total = int(count.sum())
        counts, shifts = torch.from_numpy(np.stack((count, shift))).to(self.device)
        spread = torch.repeat_interleave(shifts, counts, output_size=total)
        return torch.arange(total, device=self.device) + spread, shifts, counts


@torch.no_grad()
def predict(model: TripletGNN, data: LabelledGraphs, n_events: int = 16) -> tuple[Float32, Float32]:
    """Gate logits of all edges, and logits of all triplets, of ``data``."""
    device = str(next(model.parameters()).device)
    loader = _Batches(data, device)
    parts = []
    for first in range(0, data.truth.n_events, n_events):
        events = np.arange(first, min(first + n_events, data.truth.n_events))
        parts.append([logits.cpu().numpy() for logits in model(*loader.batch(events).inputs)])
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
