"""velopix (PyPI, Rust) on our events: the peer that the physics and the speed are compared with.

Needs the extra ``bench``. Run on a file of hits with truth::

    python benchmarks/velopix_peer.py HITS.root [--events N]
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np

from egretta.kernels.batches import HitBatch, Int64, TrackBatch
from egretta.kernels.geometry import N_MODULES
from egretta.workflows.validation.matching import Truth, owner_events


def event_dicts(hits: HitBatch, truth: Truth | None = None) -> list[dict[str, Any]]:
    """Events in the form that velopix reads; with ``truth``, its own Validator can judge them too."""
    events = []
    for e in range(hits.n_events):
        first, last = int(hits.offsets[e]), int(hits.offsets[e + 1])
        per_module = np.bincount(hits.module[first:last], minlength=N_MODULES)
        event: dict[str, Any] = {
            "description": "",
            "module_prefix_sum": np.concatenate(([0], np.cumsum(per_module))).tolist(),
            "x": hits.x[first:last].astype(float).tolist(),
            "y": hits.y[first:last].astype(float).tolist(),
            "z": hits.z[first:last].astype(float).tolist(),
            "montecarlo": {"description": [], "particles": []},
        }
        if truth is not None:
            event["montecarlo"] = _montecarlo(truth, e)
        events.append(event)
    return events


def _montecarlo(truth: Truth, e: int) -> dict[str, list[Any]]:
    flag_names = ["isLong", "isDown", "hasVelo", "hasUT", "hasScifi"]
    flag_names += ["fromBeautyDecay", "fromCharmDecay", "fromStrangeDecay"]
    names = ["key", "pid", "p", "pt", "eta", "phi", "charge", *flag_names, "hits"]
    particles = []
    for i in range(int(truth.offsets[e]), int(truth.offsets[e + 1])):
        flags = [bool(int(truth.flags[i]) >> bit & 1) for bit in range(8)]
        indices = truth.hit_index[truth.hit_offsets[i] : truth.hit_offsets[i + 1]].tolist()
        row = [i, int(truth.pid[i]), float(truth.p[i]), float(truth.pt[i]), float(truth.eta[i]), 0.0, 0]
        particles.append([*row, *flags, indices])
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
    for event in event_dicts(hits):
        peer_event = Event(event)
        started = time.perf_counter()
        tracks = solver.solve(peer_event)
        seconds += time.perf_counter() - started
        hits_of_track += [[hit.id for hit in track.hits] for track in tracks]
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
