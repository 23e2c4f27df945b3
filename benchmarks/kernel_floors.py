"""The floor of each kernel of the VELO pipeline: operations or bytes that no form of it can do without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.floors import Floor, Machine
from egretta.engines.models import shipped
from egretta.engines.onnx_file import load
from egretta.kernels.geometry import N_MODULES

if TYPE_CHECKING:
    from benchmarks.kernel_inputs import Stages


_UP_TO_GATE = ("encode", "step0_", "gate")


def _matrices(model: str) -> dict[str, int]:
    """Sizes of a model's weight matrices by name."""
    weights: dict[str, NDArray[Any]] = load(shipped(model))[1]
    return {name: array.size for name, array in weights.items() if array.ndim == 2}


def embed(stages: list[Stages], machine: Machine) -> Floor:
    """Multiply-adds of the dense layers."""
    n_hits = sum(s.hits.n_hits for s in stages)
    per_hit = sum(_matrices("velo-embedding").values())
    return Floor(machine.flops_ms(2.0 * per_hit * n_hits), f"{per_hit} multiply-adds a hit, at matrix speed")


def pairs_in_reach(stages: list[Stages]) -> int:
    """Pairs of a hit and one on the planes searched for it: its station's other module, the next two."""
    total = 0
    for s in stages:
        event = np.repeat(np.arange(s.hits.n_events), np.diff(s.hits.offsets))
        flat = np.bincount(event * N_MODULES + s.hits.module, minlength=s.hits.n_events * N_MODULES)
        counts = flat.reshape(-1, N_MODULES).astype(np.int64)
        for m in range(N_MODULES):
            last = min(2 * (m >> 1) + 6, N_MODULES)
            total += int((counts[:, m] * counts[:, m + 1 : last].sum(axis=1)).sum())
    return total


def knn(stages: list[Stages], machine: Machine) -> Floor:
    """Distances of all pairs in reach."""
    pairs, dimensions = pairs_in_reach(stages), stages[0].query.shape[1]
    n_events = sum(s.hits.n_events for s in stages)
    flops = 3.0 * dimensions * pairs
    return Floor(
        machine.flops_ms(flops),
        f"{pairs / n_events:,.0f} pairs an event on the planes in reach, {3 * dimensions} operations each: "
        "what an exhaustive search computes; windows may beat it",
    )


def link(stages: list[Stages], machine: Machine) -> Floor:
    """Comparisons of all pairs of edges that meet."""
    meeting = sum(int(np.diff(s.edges.offsets)[s.edges.target].sum()) for s in stages)
    n_events = sum(s.hits.n_events for s in stages)
    how = f"{meeting / n_events:,.0f} pairs of edges an event that meet in a hit, 5 operations each"
    return Floor(machine.flops_ms(5.0 * meeting), how)


def gnn(stages: list[Stages], machine: Machine) -> Floor:
    """Multiply-adds of all matrices, those of a triplet's features and read-out once a triplet; behind the
    gate only for what it leaves open."""
    sizes = _matrices("velo-gnn")
    shut = [(s.gate_logit <= 0) for s in stages]
    all_edges = sum(s.graph.n_edges for s in stages)
    all_triplets = sum(s.graph.n_triplets for s in stages)
    open_edges = all_edges - sum(int(np.count_nonzero(mask)) for mask in shut)
    open_triplets = all_triplets - sum(
        int(np.count_nonzero(mask[s.graph.first] | mask[s.graph.second]))
        for s, mask in zip(stages, shut, strict=True)
    )
    n_events = sum(s.hits.n_events for s in stages)
    operations, words = 0.0, []
    for where, names, n_edges, n_triplets in (
        ("up to the gate", [n for n in sizes if n.startswith(_UP_TO_GATE)], all_edges, all_triplets),
        ("behind it", [n for n in sizes if not n.startswith(_UP_TO_GATE)], open_edges, open_triplets),
    ):
        of_triplet = sum(sizes[name] for name in names if "kink" in name or "triplet" in name)
        of_edge = sum(sizes[name] for name in names) - of_triplet
        operations += 2.0 * (of_edge * n_edges + of_triplet * n_triplets)
        words.append(
            f"{where} {of_edge:,} multiply-adds an edge ({n_edges / n_events:,.0f} an event), {of_triplet} a "
            f"triplet ({n_triplets / n_events:,.0f} an event)"
        )
    return Floor(machine.flops_ms(operations), f"{'; '.join(words)}; at matrix speed")


def wcc(stages: list[Stages], machine: Machine) -> Floor:
    """Edges read, labels written."""
    n_kept = sum(int(s.kept.sum()) for s in stages)
    n_hits = sum(s.hits.n_hits for s in stages)
    how = "16 B a kept triplet read (two edges), 4 B a hit written"
    return Floor(machine.bytes_ms(16.0 * n_kept + 4.0 * n_hits), how)


def peel(stages: list[Stages], machine: Machine) -> Floor:
    """Triplets and hits read."""
    n_kept = sum(int(s.kept.sum()) for s in stages)
    n_hits = sum(s.hits.n_hits for s in stages)
    how = "28 B a kept triplet (its edges, their hits, its weight) and 16 B a hit read once; far below any "
    how += "real peeling, which goes over a component again for each of its tracks"
    return Floor(machine.bytes_ms(28.0 * n_kept + 16.0 * n_hits), how)
