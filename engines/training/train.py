"""The whole training: embedding, its reach, graphs, graph network, and both as ONNX files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from egretta.engines.training.config import EmbeddingConfig, GnnConfig, TrainingConfig
from egretta.engines.training.embedding import Embedding, distances_at_recall, train_embedding
from egretta.engines.training.export import export_embedding, export_gnn
from egretta.engines.training.gnn import LabelledGraphs, build_graphs, predict, train_gnn
from egretta.engines.training.progress import Report, print_loss
from egretta.engines.training.truth import TruthHits, load_truth
from egretta.kernels.batches import Float32
from egretta.kernels.errors import SiteError
from egretta.kernels.version import __version__


@dataclass(frozen=True, slots=True)
class Score:
    """Counts: ``kept``, ``true`` in the graph, and ``both``."""

    kept: int
    true: int
    both: int

    @property
    def precision(self) -> float:
        """True and kept / kept; NaN where nothing is kept."""
        return self.both / self.kept if self.kept else float("nan")

    @property
    def recall(self) -> float:
        """True and kept / true ones in the graph; NaN where there is none."""
        return self.both / self.true if self.true else float("nan")


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """The written files, and what was measured on the valid samples: edges that the gate leaves open, and
    triplets above the threshold."""

    embedding: Path
    gnn: Path
    d_max: Float32
    neighbours_per_hit: float
    edges: Score
    triplets: Score


def train(
    data: Path,
    train_samples: list[str],
    valid_samples: list[str],
    output: Path,
    config: TrainingConfig,
    device: str,
    report: Report = print_loss,
) -> TrainingResult:
    """Train both networks on samples of ``data`` and write them into the folder ``output``."""
    training, valid = load_truth(data, train_samples), load_truth(data, valid_samples)
    _make_folder(output)
    provenance = {"trained_on": " ".join(train_samples), "egretta_version": __version__}
    print(
        f"{training.n_events} events to train on, {valid.n_events} to choose d_max and to measure", flush=True
    )

    embedding = train_embedding(training, config.embedding, device, report)
    d_max, neighbours = distances_at_recall(embedding, valid, config.recall)
    embedding.cpu()
    settings = {
        "d_max": " ".join(f"{distance:.6g}" for distance in d_max),
        "k": str(config.k),
        "kink_max": f"{config.kink_max:g}",
    }
    embedding_path = output / "velo-embedding.onnx"
    # written at once, so that it is not lost with what follows
    export_embedding(embedding, embedding_path, settings | provenance | _made_by(config.embedding))
    print(
        f"d_max {settings['d_max']}: {neighbours:.1f} neighbours a hit at recall {config.recall}", flush=True
    )

    graphs = _graphs(embedding, training, d_max, config)
    n_hits = len(training.position)
    print(
        f"graphs: {graphs.graph.n_edges / n_hits:.2f} edges and "
        f"{graphs.graph.n_triplets / n_hits:.2f} triplets a hit",
        flush=True,
    )
    gnn = train_gnn(graphs, config.gnn, device, report)
    valid_graphs = _graphs(embedding, valid, d_max, config)
    gate_logit, triplet_logit = predict(gnn, valid_graphs)
    gnn.cpu()
    gnn_path = output / "velo-gnn.onnx"
    export_gnn(gnn, gnn_path, {"threshold": f"{config.threshold:g}"} | provenance | _made_by(config.gnn))
    return TrainingResult(
        embedding_path,
        gnn_path,
        d_max,
        neighbours,
        _score(gate_logit > 0, valid_graphs.edge_label),
        _score(triplet_logit > config.threshold, valid_graphs.triplet_label),
    )


def _made_by(config: EmbeddingConfig | GnnConfig) -> dict[str, str]:
    return {"seed": str(config.seed), "steps": str(config.steps)}


@torch.no_grad()
def _graphs(embedding: Embedding, truth: TruthHits, d_max: Float32, config: TrainingConfig) -> LabelledGraphs:
    query, key = embedding(torch.from_numpy(truth.position))
    return build_graphs(truth, query.numpy(), key.numpy(), d_max, config.k, config.kink_max)


def _score(kept: NDArray[np.bool_], label: Float32) -> Score:
    true = label > 0
    return Score(*(int(np.count_nonzero(mask)) for mask in (kept, true, kept & true)))


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise SiteError(
            f"cannot write models into {path}: {error.strerror}",
            hint="give a folder that can be made and written: --out DIR",
        ) from error
