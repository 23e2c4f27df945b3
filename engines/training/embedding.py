"""The embedding network: where a hit's successors are to be looked for, and where the hit itself is found.

The VELO is nearly symmetric about the beam, so that the network sees only a hit's radius and z; the azimuth
enters as a rotation of the first two coordinates. Trained by logistic regression on squared distances over
all pairs of hits that a track could join.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from egretta.engines.training.config import EmbeddingConfig
from egretta.engines.training.progress import Report, due, print_loss
from egretta.engines.training.truth import TruthHits, share_particle, successors
from egretta.kernels.batches import Float32, Int64
from egretta.kernels.errors import UsageError
from egretta.kernels.geometry import N_MODULES
from egretta.kernels.knn import N_GAPS

RADIUS_SCALE_MM = 20.0
Z_SCALE_MM = 400.0


class Embedding(nn.Module):
    """From hits (x, y, z in mm) to queries and keys of ``dimensions`` coordinates each."""

    def __init__(self, hidden: int, dimensions: int) -> None:
        super().__init__()
        self.dimensions = dimensions
        # a radius and dimensions - 2 further coordinates for the query, and the same for the key
        self.layers = nn.Sequential(
            nn.Linear(3, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, 2 * (dimensions - 1)),
        )
        # logit of a pair = offset[gap] - distance²
        self.offset = nn.Parameter(torch.full((N_GAPS,), 1.0))

    def forward(self, position: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys, float32[hits, dimensions]."""
        radius = torch.sqrt(position[:, 0] ** 2 + position[:, 1] ** 2 + 1e-6)
        features = torch.stack(
            [radius / RADIUS_SCALE_MM, position[:, 2] / Z_SCALE_MM, 5.0 / (radius + 5.0)], 1
        )
        out = self.layers(features)
        direction = position[:, :2] / radius[:, None]
        half = self.dimensions - 1
        query = torch.cat([direction * out[:, :1], out[:, 1:half]], 1)
        key = torch.cat([direction * out[:, half : half + 1], out[:, half + 1 :]], 1)
        return query, key


def _shortness(truth: TruthHits, source: Int64, target: Int64) -> Float32:
    """Weights of true pairs: a particle on three stations is lost with one pair, a long one is not."""
    _, particle = share_particle(truth.particles, source, target)
    return np.clip(5.0 / np.maximum(truth.n_stations[particle], 2), 0.3, 2.0).astype(np.float32)


def _reachable_pairs(offsets: Tensor, module: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """All pairs of hits that may be neighbours: source, target and gap in stations."""
    device = module.device
    n_hits = len(module)
    event = torch.bucketize(torch.arange(n_hits, device=device), offsets[1:], right=True)
    place = event * N_MODULES + module
    station = module // 2
    begin = torch.searchsorted(place, event * N_MODULES + module + 1)
    end = torch.searchsorted(place, event * N_MODULES + torch.clamp(2 * station + 6, max=N_MODULES))
    count = end - begin
    source = torch.repeat_interleave(torch.arange(n_hits, device=device), count)
    first = torch.cumsum(count, 0) - count
    target = torch.arange(len(source), device=device) - first[source] + begin[source]
    return source, target, station[target] - station[source]


def train_embedding(
    truth: TruthHits, config: EmbeddingConfig, device: str = "cpu", report: Report = print_loss
) -> Embedding:
    """Train on all events of ``truth``; on a CPU the same seed gives the same weights.

    On a GPU the order of sums is not fixed, so that weights differ in their last digits at first and visibly
    in the end. ``report`` gets the loss now and then. Raises UsageError where no particle has two hits that
    the network could join.
    """
    torch.manual_seed(config.seed)
    rng = np.random.default_rng(config.seed)
    model = Embedding(config.hidden, config.dimensions)
    model.to(device)
    position = torch.from_numpy(truth.position).to(device)
    module = torch.from_numpy(truth.module.astype(np.int64)).to(device)
    true_source, true_target = successors(truth)
    if len(true_source) == 0:
        raise UsageError(
            "cannot train the embedding: no particle of these events has hits on neighbouring stations",
            hint="train on events with truth, such as egretta simulate velo makes",
        )
    true_keys = torch.from_numpy((true_source << 32) | true_target).to(device)
    true_weight = torch.from_numpy(config.positive_weight * _shortness(truth, true_source, true_target)).to(
        device
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=config.learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, config.learning_rate, config.steps)
    for step in range(config.steps):
        chosen = np.sort(
            rng.choice(truth.n_events, min(config.events_per_step, truth.n_events), replace=False)
        )
        rows = np.concatenate([np.arange(truth.offsets[e], truth.offsets[e + 1]) for e in chosen])
        bounds = np.concatenate([[0], np.cumsum(np.diff(truth.offsets)[chosen])])
        index = torch.from_numpy(rows).to(device)
        source, target, gap = _reachable_pairs(torch.from_numpy(bounds).to(device), module[index])
        keys = (index[source] << 32) | index[target]
        at = torch.clamp(torch.searchsorted(true_keys, keys), max=len(true_keys) - 1)
        label = (true_keys[at] == keys).float()
        pair_weight = torch.where(label > 0, true_weight[at], 1.0)
        query, key = model(position[index])
        # index_select, because the gradient of plain indexing serialises over repeated rows
        distance2 = ((query.index_select(0, source) - key.index_select(0, target)) ** 2).sum(1)
        loss = nn.functional.binary_cross_entropy_with_logits(
            model.offset.index_select(0, gap) - distance2, label, pair_weight, reduction="sum"
        ) / label.sum().clamp(min=1)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        schedule.step()
        if due(step, config.steps):
            report("embedding", step, loss.item())
    model.eval()
    return model


@torch.no_grad()
def distances_at_recall(
    model: Embedding, truth: TruthHits, recall: float, n_events: int = 200
) -> tuple[Float32, float]:
    """``d_max`` float32[3], one a gap, that keeps ``recall`` of the true edges, and how many edges a hit that
    gives.

    Edges of short tracks count more. At most the first ``n_events`` events are used.
    """
    device = next(model.parameters()).device
    part = truth.events(0, min(n_events, truth.n_events))
    module = torch.from_numpy(part.module.astype(np.int64)).to(device)
    query, key = model(torch.from_numpy(part.position).to(device))
    true_source, true_target = (torch.from_numpy(a).to(device) for a in successors(part))
    true_d2 = ((query[true_source] - key[true_target]) ** 2).sum(1)
    # one threshold on the logit for all gaps: the cheapest way to a given recall
    gap = module[true_target] // 2 - module[true_source] // 2
    logit, order = torch.sort(model.offset[gap] - true_d2)
    weight = torch.from_numpy(_shortness(part, *successors(part))).to(device)[order]
    threshold = logit[int(torch.searchsorted(torch.cumsum(weight, 0), (1 - recall) * weight.sum()))]
    reach2 = torch.clamp(model.offset - threshold, min=0)
    n_edges = 0
    for first in range(0, part.n_events, 8):
        chunk = part.events(first, min(first + 8, part.n_events))
        begin = int(part.offsets[first])
        source, target, gap = _reachable_pairs(
            torch.from_numpy(chunk.offsets).to(device), module[begin : begin + int(chunk.offsets[-1])]
        )
        d2 = ((query[begin + source] - key[begin + target]) ** 2).sum(1)
        n_edges += int((d2 <= reach2[gap]).sum())
    return torch.sqrt(reach2).cpu().numpy(), n_edges / int(part.offsets[-1])
