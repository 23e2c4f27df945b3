"""velopix (PyPI, Rust) on our events: the peer that the physics and the speed are compared with.

Needs the extra ``bench``. Run on a file of hits with truth::

    python benchmarks/velopix_peer.py HITS.root [--events N]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from egretta.kernels.batches import HitBatch, Int64, TrackBatch
from egretta.kernels.geometry import N_MODULES, VeloGeometry
from egretta.workflows.validation.matching import Truth, owner_events

# velopix panics on a module without hits; it gets one that no track can reach, left out again afterwards.
_FAR_AWAY_MM = 1e6


@dataclass(frozen=True, slots=True)
class PeerEvent:
    """An event in the form that velopix reads. ``hit_index`` (int64) is our index of each of its hits, or
    -1 for one that fills an empty module; ``position`` (int64) goes the other way."""

    data: dict[str, Any]
    hit_index: Int64
    position: Int64


def peer_events(hits: HitBatch, truth: Truth | None = None) -> Iterator[PeerEvent]:
    """Turn a batch into velopix's events; with ``truth``, its own Validator can judge them too."""
    module_z = VeloGeometry.nominal().module_z
    for e in range(hits.n_events):
        first, last = int(hits.offsets[e]), int(hits.offsets[e + 1])
        module = hits.module[first:last]
        empty = np.flatnonzero(np.bincount(module, minlength=N_MODULES) == 0)
        module = np.concatenate((module, empty))
        order = np.argsort(module, kind="stable")
        hit_index = np.where(order < last - first, order, -1)
        # in all directions: in one place, they would line up as a track along the beam
        far_x, far_y = _FAR_AWAY_MM * np.cos(2.4 * empty), _FAR_AWAY_MM * np.sin(2.4 * empty)
        event: dict[str, Any] = {
            "description": "",
            "module_prefix_sum": np.searchsorted(module[order], np.arange(N_MODULES + 1)).tolist(),
            "x": np.concatenate((hits.x[first:last], far_x))[order].tolist(),
            "y": np.concatenate((hits.y[first:last], far_y))[order].tolist(),
            "z": np.concatenate((hits.z[first:last], module_z[empty])).astype(float)[order].tolist(),
            "montecarlo": {"description": [], "particles": []},
        }
        position = np.argsort(order, kind="stable")
        if truth is not None:
            event["montecarlo"] = _montecarlo(truth, e, position)
        yield PeerEvent(event, hit_index, position)


def _montecarlo(truth: Truth, e: int, position: Int64) -> dict[str, list[Any]]:
    flag_names = ["isLong", "isDown", "hasVelo", "hasUT", "hasScifi"]
    flag_names += ["fromBeautyDecay", "fromCharmDecay", "fromStrangeDecay"]
    names = ["key", "pid", "p", "pt", "eta", "phi", "charge", *flag_names, "hits"]
    particles = []
    for i in range(int(truth.offsets[e]), int(truth.offsets[e + 1])):
        flags = [bool(int(truth.flags[i]) >> bit & 1) for bit in range(8)]
        of_particle = truth.hit_index[truth.hit_offsets[i] : truth.hit_offsets[i + 1]]
        row = [i, int(truth.pid[i]), float(truth.p[i]), float(truth.pt[i]), float(truth.eta[i]), 0.0, 0]
        particles.append([*row, *flags, position[of_particle].tolist()])
    return {"description": names, "particles": particles}


def to_tracks(hits: HitBatch, hits_of_track: list[list[int]], tracks_per_event: list[int]) -> TrackBatch:
    """Lists of hit indices as a TrackBatch, each track with a least-squares line through its hits."""
    lengths = np.array([len(t) for t in hits_of_track], dtype=np.int64)
    hit_offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    offsets = np.concatenate(([0], np.cumsum(tracks_per_event))).astype(np.int64)
    hit_index = np.array([i for t in hits_of_track for i in t], dtype=np.int32)
    track = np.repeat(np.arange(len(lengths)), lengths)
    in_batch = hit_index + hits.offsets[owner_events(offsets)[track]]
    order = np.lexsort((hits.z[in_batch], track))
    hit_index, in_batch = hit_index[order], in_batch[order]
    x, y, z = (a[in_batch].astype(np.float64) for a in (hits.x, hits.y, hits.z))

    def mean(values: Any) -> Any:
        return np.bincount(track, values, minlength=len(lengths)) / lengths

    x_mean, y_mean, z_mean = mean(x), mean(y), mean(z)
    dz = z - z_mean[track]
    variance = mean(dz * dz)
    tx, ty = mean(dz * x) / variance, mean(dz * y) / variance
    z_first = z[hit_offsets[:-1]]
    return TrackBatch(
        entry=hits.entry,
        event=hits.event,
        offsets=offsets,
        x=(x_mean + tx * (z_first - z_mean)).astype(np.float32),
        y=(y_mean + ty * (z_first - z_mean)).astype(np.float32),
        z=z_first.astype(np.float32),
        tx=tx.astype(np.float32),
        ty=ty.astype(np.float32),
        chi2=np.zeros(len(lengths), dtype=np.float32),
        hit_offsets=hit_offsets,
        hit_index=hit_index,
        lhcb_id=hits.lhcb_id[in_batch],
    )


def run_velopix(hits: HitBatch, solver: Any = None) -> tuple[TrackBatch, float]:
    """Track a batch with SearchByTripletTrie (its defaults); also events per second on one core.

    The time is that of ``solve`` alone: velopix is not charged for turning our batch into its objects.
    """
    from velopix.DetectorEvent import Event
    from velopix.ReconstructionAlgorithms import SearchByTripletTrie

    solver = solver or SearchByTripletTrie()
    hits_of_track: list[list[int]] = []
    tracks_per_event: list[int] = []
    seconds = 0.0
    for event in peer_events(hits):
        peer_event = Event(event.data)
        started = time.perf_counter()
        tracks = solver.solve(peer_event)
        seconds += time.perf_counter() - started
        hits_of_track += [event.hit_index[[hit.id for hit in track.hits]].tolist() for track in tracks]
        tracks_per_event.append(len(tracks))
    return to_tracks(hits, hits_of_track, tracks_per_event), hits.n_events / seconds


def read_hits(path: str, stop: int | None = None) -> HitBatch:
    """The hits of a file's first ``stop`` entries, as one batch."""
    import awkward as ak
    import uproot

    arrays = uproot.open(path)["Velo"].arrays(
        ["event", "hit_x", "hit_y", "hit_z", "hit_module"], entry_stop=stop
    )
    counts = ak.to_numpy(ak.num(arrays["hit_x"]))
    offsets: Int64 = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    flat = {name: ak.to_numpy(ak.flatten(arrays[f"hit_{name}"])) for name in ("x", "y", "z", "module")}
    return HitBatch(
        entry=np.arange(len(counts), dtype=np.int64),
        event=ak.to_numpy(arrays["event"]).astype(np.int64),
        offsets=offsets,
        x=flat["x"].astype(np.float32),
        y=flat["y"].astype(np.float32),
        z=flat["z"].astype(np.float32),
        module=flat["module"].astype(np.int32),
        lhcb_id=np.zeros(int(offsets[-1]), dtype=np.uint32),
    )


def main() -> None:
    from egretta.workflows.validation.metrics import evaluate
    from egretta.workflows.validation.truth import read_truth

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file")
    parser.add_argument("--events", type=int, default=None)
    arguments = parser.parse_args()
    hits = read_hits(arguments.file, arguments.events)
    truth, offsets = next(read_truth(arguments.file, batch_events=hits.n_events))
    tracks, rate = run_velopix(hits)
    print(json.dumps({"events_per_second": rate, **evaluate(truth, tracks, offsets).to_dict()}, indent=1))


if __name__ == "__main__":
    main()
