"""Each kernel of the VELO pipeline on one core, its peers and its floor: ``python -m benchmarks.kernels``.

Compiled and warm; the shortest of some passes over all events. Peers compute from the same arrays in the same
process: SciPy's cKDTree and connected_components, ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.events import Sample, with_truth
from benchmarks.processes import entries, one_core
from benchmarks.tables import Setting, Table, number, standalone, times

if TYPE_CHECKING:
    from benchmarks.floors import Floor, Machine
    from benchmarks.kernel_inputs import Models, Stages


@dataclass(frozen=True, slots=True)
class Timed:
    """A kernel or a peer (``of`` names the kernel that it is held against)."""

    name: str
    seconds: float
    floor: Floor | None = None
    of: str | None = None


def measure(setting: Setting) -> list[Table]:
    one_core()
    from benchmarks.floors import probe
    from benchmarks.kernel_inputs import Models, groups, through_all_steps
    from egretta.jobs.readers import open_source
    from egretta.kernels.batches import HitBatch

    machine = probe()
    sample = with_truth(setting, "bsphiphi")
    n_events = setting.size(entries(sample.path, "Velo"), 20)
    models = Models.open("fused")
    stages = []
    with open_source(str(sample.path), "Velo") as source:
        for batch in source.batches(0, n_events, n_events):
            assert isinstance(batch, HitBatch)
            stages += [through_all_steps(group, models) for group in groups(batch)]
    repeats = setting.size(5, 2)
    timed = _time_kernels(stages, models, machine, repeats)
    timed += _time_peers(stages, models, setting)
    return [
        _decoding_table(setting, machine, repeats),
        _table(sample, n_events, timed, machine),
    ]


def _time_kernels(stages: list[Stages], models: Models, machine: Machine, repeats: int) -> list[Timed]:
    from benchmarks import kernel_floors as floors
    from benchmarks.floors import best_s
    from egretta.kernels.knn import nearest_neighbours
    from egretta.kernels.tracking import components_of, find_candidates
    from egretta.kernels.triplets import straight_triplets

    def embed(s: Stages) -> object:
        return models.embedding.run({"position": s.position})

    def knn(s: Stages) -> object:
        return nearest_neighbours(s.hits.offsets, s.hits.module, s.query, s.key, models.d_max, models.k)

    def link(s: Stages) -> object:
        return straight_triplets(s.edges, s.hits.x, s.hits.y, s.hits.z, models.kink_max)

    def gnn(s: Stages) -> object:
        return models.gnn.run(s.gnn_inputs)

    def wcc(s: Stages) -> object:
        return components_of(s.graph, s.kept, s.hits.n_hits)

    def peel(s: Stages) -> object:
        h = s.hits
        return find_candidates(s.graph, s.logit, s.component, h.offsets, h.module, h.x, h.y, h.z, s.config)

    kernels: tuple[tuple[Callable[[Stages], object], str, Callable[..., Floor]], ...] = (
        (embed, "embed", floors.embed),
        (knn, "knn", floors.knn),
        (link, "link", floors.link),
        (gnn, "gnn", floors.gnn),
        (wcc, "wcc", floors.wcc),
        (peel, "peel, absorb, fit", floors.peel),
    )
    timed = []
    for work, name, floor in kernels:

        def run_all(work: Callable[[Stages], object] = work) -> None:
            for stage in stages:
                work(stage)

        timed.append(Timed(name, best_s(run_all, repeats), floor(stages, machine)))
    return timed


def _time_peers(stages: list[Stages], models: Models, setting: Setting) -> list[Timed]:
    from benchmarks import kernel_peers as peers
    from benchmarks.floors import best_s
    from benchmarks.kernel_inputs import Models as AllModels

    runtime = AllModels.open("onnxruntime")
    repeats = setting.size(2, 1)

    def timed(name: str, of: str, work: Callable[[Stages], object]) -> Timed:
        def run_all() -> None:
            for stage in stages:
                work(stage)

        return Timed(name, best_s(run_all, repeats), of=of)

    found = [timed("ONNX Runtime", "embed", lambda s: runtime.embedding.run({"position": s.position}))]
    found += [
        timed(f"cKDTree, k = {k}, all hits of the event", "knn", partial(peers.whole_event, k=k))
        for k in (10, 20, 50)
    ]
    found.append(
        timed(
            f"cKDTree, k = {models.k}, the same planes and distances",
            "knn",
            partial(peers.same_planes, k=models.k, d_max=models.d_max),
        )
    )
    found.append(timed("ONNX Runtime", "gnn", lambda s: runtime.gnn.run(s.gnn_inputs)))
    found.append(timed("SciPy connected_components, from edges", "wcc", peers.components))
    matrices = {id(s): peers.adjacency(s) for s in stages}
    found.append(
        timed("SciPy connected_components, from a CSR matrix", "wcc", lambda s: peers.label(matrices[id(s)]))
    )
    return found


def _decoding_table(setting: Setting, machine: Machine, repeats: int) -> Table:
    from benchmarks.floors import best_s
    from egretta.jobs.simulation.velo import generate_events
    from egretta.jobs.simulation.writing import simulated_banks
    from egretta.kernels.decoding import decode_banks
    from egretta.kernels.geometry import VeloGeometry

    geometry = VeloGeometry.nominal()
    n_events = setting.size(500, 20)
    superpixel, retina = simulated_banks(generate_events(n_events, seed=11))
    rows = []
    for name, banks in (("retina clusters", retina), ("super-pixels", superpixel)):
        hits, _ = decode_banks(banks, geometry)
        seconds = best_s(partial(decode_banks, banks, geometry), repeats)
        floor_ms = machine.bytes_ms(4 * len(banks.words) + 20 * hits.n_hits)
        rows.append(
            [
                name,
                number(n_events / seconds),
                number(1e3 * seconds / n_events),
                number(1e9 * seconds / hits.n_hits),
                number(floor_ms / n_events),
                times(1e3 * seconds, floor_ms),
            ]
        )
    return Table.of(
        f"Decoding, {n_events:,} simulated bsphiphi events, one core",
        ("banks", "events/s", "ms/event", "ns/hit", "floor ms/event", "against floor"),
        rows,
        f"floor: 4 B a word read and 20 B a hit written, at {machine.bytes_per_s / 1e9:.1f} GB/s, which a "
        "copy of 256 MiB reached here",
    )


def _table(sample: Sample, n_events: int, timed: list[Timed], machine: Machine) -> Table:
    rows, notes = [], []
    for kernel in timed:
        if kernel.floor is None:
            continue
        floor_ms = kernel.floor.ms / n_events
        rows.append(
            [
                f"**{kernel.name}**",
                number(n_events / kernel.seconds),
                number(1e3 * kernel.seconds / n_events),
                "",
                number(floor_ms),
                times(1e3 * kernel.seconds, kernel.floor.ms),
            ]
        )
        notes.append(f"{kernel.name}: {kernel.floor.how}")
        for peer in timed:
            if peer.of == kernel.name:
                slower = times(peer.seconds, kernel.seconds)
                ms = number(1e3 * peer.seconds / n_events)
                rows.append([f"{peer.name}", number(n_events / peer.seconds), ms, slower, "", ""])
    return Table.of(
        f"Kernels and their peers, {sample.title}, {n_events} events, one core",
        ("kernel or peer", "events/s", "ms/event", "peer's time / ours", "floor ms/event", "ours / floor"),
        rows,
        f"floors at {machine.flops_per_s / 1e9:.0f} Gflop/s (a product of 1024 x 1024 float32 matrices here) "
        f"and {machine.bytes_per_s / 1e9:.1f} GB/s; data that stays in the cache can beat the latter",
        *notes,
        "cKDTree over all hits of an event finds the k nearest keys anywhere, with no bound and no planes: "
        "another question, whose answers would still have to be filtered. `The same planes and distances` "
        "builds a tree a station and asks for up to k within d_max for each gap of stations: ours, but "
        "for at most k a gap rather than in all; its answers are not joined to one list of edges",
    )


if __name__ == "__main__":
    standalone(measure, __doc__)
