"""The pipeline velo: tracks from hits or banks, whatever the batch, the engine, or the neighbours' faults."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from egretta.engines.models import shipped
from egretta.engines.opening import ENGINES, open_engine
from egretta.jobs.pipelines import make_pipeline
from egretta.jobs.readers.slicing import slice_batch
from egretta.jobs.simulation.velo import generate_events
from egretta.jobs.simulation.writing import simulated_banks
from egretta.kernels.batches import HitBatch
from egretta.kernels.errors import (
    CodeError,
    CorruptInputError,
    FailureClass,
    MissingInputError,
    SiteError,
    SpecError,
)
from egretta.workflows.validation.matching import Truth
from egretta.workflows.validation.metrics import Metrics, evaluate

N_EVENTS = 20


@pytest.fixture(scope="module")
def simulated():
    return generate_events(N_EVENTS, seed=5)


@pytest.fixture(scope="module")
def pipeline():
    made = make_pipeline("velo", {})
    yield made
    made.close()


@pytest.fixture(scope="module")
def result(pipeline, simulated):
    return pipeline.process(simulated.hits)


def tracks_of(tracks):
    """For each event the set of its tracks, each a tuple of LHCbIDs."""
    events = []
    for e in range(tracks.n_events):
        bounds = tracks.hit_offsets[tracks.offsets[e] : tracks.offsets[e + 1] + 1]
        ids = [tuple(tracks.lhcb_id[a:b].tolist()) for a, b in pairwise(bounds)]
        assert len(ids) == len(set(ids))
        events.append(set(ids))
    return events


def share_in_common(one, two):
    """Of the tracks of either, the part that both have."""
    assert len(one) == len(two)
    both = sum(len(a & b) for a, b in zip(one, two, strict=True))
    return both / sum(len(a | b) for a, b in zip(one, two, strict=True))


def hits_batch(*events):
    """A batch of events, each a list of (module, x, y, z)."""
    flat = [hit for event in events for hit in event]
    number = np.arange(len(events), dtype=np.int64)
    module, *xyz = np.array(flat, dtype=float).reshape(-1, 4).T
    return HitBatch(
        number,
        number + 7,
        np.cumsum([0, *map(len, events)], dtype=np.int64),
        *(c.astype(np.float32) for c in xyz),
        module.astype(np.int32),
        np.arange(1, len(flat) + 1, dtype=np.uint32),
    )


def track_through(x_slope, modules=range(24, 34)):
    """Hits of a track from the origin, on the modules of one side."""
    return [(m, x_slope * z, 0.02 * z, z) for m in modules if m % 2 for z in [(m - 14) * 12.5 + 12.5]]


def test_the_result_is_a_whole_batch_of_tracks(result, simulated):
    hits, tracks = simulated.hits, result.tracks
    assert result.rejected == ()
    assert tracks.entry.tolist() == hits.entry.tolist()
    assert tracks.event.tolist() == hits.event.tolist()
    assert tracks.offsets[0] == tracks.hit_offsets[0] == 0
    assert tracks.offsets[-1] == tracks.n_tracks == len(tracks.hit_offsets) - 1 > 20 * N_EVENTS
    assert tracks.hit_offsets[-1] == len(tracks.hit_index) == len(tracks.lhcb_id)
    n_hits = np.diff(tracks.hit_offsets)
    assert n_hits.min() >= 3
    event = np.repeat(np.repeat(np.arange(N_EVENTS), np.diff(tracks.offsets)), n_hits)
    assert (tracks.hit_index >= 0).all()
    assert (tracks.hit_index < np.diff(hits.offsets)[event]).all()
    at = hits.offsets[event] + tracks.hit_index
    assert np.array_equal(hits.lhcb_id[at], tracks.lhcb_id)
    # hits ascend in z, one a module; the state is at the first
    inner = np.ones(len(at) - 1, bool)
    inner[tracks.hit_offsets[1:-1] - 1] = False
    assert (np.diff(hits.z[at])[inner] > 0).all()
    assert (np.diff(hits.module[at])[inner] > 0).all()
    first = at[tracks.hit_offsets[:-1]]
    assert np.array_equal(tracks.z, hits.z[first])
    assert np.abs(tracks.x - hits.x[first]).max() < 1
    for name in ("x", "y", "z", "tx", "ty", "chi2"):
        values = getattr(tracks, name)
        assert values.dtype == np.float32
        assert np.isfinite(values).all()


def test_counts_and_times_are_told_by_stage(result, simulated):
    assert result.counts["hits"] == simulated.hits.n_hits
    assert result.counts["tracks"] == result.tracks.n_tracks
    assert result.counts["neighbours"] >= result.counts["edges"] > 0
    assert {"decode", "embed", "knn", "link", "gnn", "wcc", "peel"} <= set(result.stage_seconds)
    assert all(seconds >= 0 for seconds in result.stage_seconds.values())


def simulated_metrics(simulated, tracks):
    truth = simulated.truth
    return evaluate(
        Truth(
            simulated.hits.entry,
            simulated.hits.event,
            truth.offsets,
            truth.pid.astype(np.int32),
            truth.p.astype(np.float32),
            truth.pt.astype(np.float32),
            truth.eta.astype(np.float32),
            truth.flags.astype(np.int32),
            truth.hit_offsets,
            truth.hit_index.astype(np.int32),
        ),
        tracks,
        simulated.hits.offsets,
    )


def test_simulated_particles_are_found_and_few_tracks_are_ghosts(result, simulated):
    figures = simulated_metrics(simulated, result.tracks)["all"]
    assert figures.categories["long"].particles > 100
    assert figures.categories["long"].efficiency > 0.95
    assert figures.ghost_rate < 0.05


@pytest.mark.shared_data
def test_lhcb_particles_are_found_and_few_tracks_are_ghosts(shared_data, pipeline):
    from egretta.jobs.readers import open_source
    from egretta.workflows.validation.truth import read_truth

    path = shared_data / "velo" / "bsphiphi_valid.root"
    metrics = Metrics.zero()
    with open_source(str(path), "Velo") as source:
        for batch in source.batches(0, 30, 30):
            start = int(batch.entry[0])
            tracks = pipeline.process(batch).tracks
            for truth, offsets in read_truth(path, start=start, stop=start + batch.n_events):
                metrics += evaluate(truth, tracks, offsets)
    assert metrics.events == 30
    figures = metrics["all"]
    assert figures.categories["velo"].efficiency > 0.96
    assert figures.categories["long"].efficiency > 0.98
    assert figures.ghost_rate < 0.025


def test_hits_and_their_banks_give_the_same_tracks(result, simulated, pipeline):
    _, retina = simulated_banks(simulated)
    from_banks = pipeline.process(retina)
    assert from_banks.rejected == ()
    assert from_banks.hits.n_hits == simulated.hits.n_hits
    assert share_in_common(tracks_of(from_banks.tracks), tracks_of(result.tracks)) >= 0.999


def test_the_option_banks_chooses_what_is_decoded(simulated):
    superpixel, retina = simulated_banks(simulated)
    decoder = make_pipeline("velo", {"pipeline": {"banks": "superpixel"}})
    assert decoder.process(superpixel).rejected == ()
    assert len(decoder.process(retina).rejected) == N_EVENTS


def test_engines_give_the_same_tracks(simulated):
    fused, onnxruntime = (
        make_pipeline("velo", {"inference": {"engine": name}}).process(simulated.hits) for name in ENGINES
    )
    # rounding decides for logits on the threshold
    assert share_in_common(tracks_of(fused.tracks), tracks_of(onnxruntime.tracks)) >= 0.999


@pytest.mark.parametrize("batch_events", [1, 7])
def test_tracks_do_not_depend_on_the_size_of_batches(result, simulated, pipeline, batch_events):
    parts = [
        pipeline.process(slice_batch(simulated.hits, first, min(first + batch_events, N_EVENTS))).tracks
        for first in range(0, N_EVENTS, batch_events)
    ]
    assert np.concatenate([p.entry for p in parts]).tolist() == simulated.hits.entry.tolist()
    events = [event for part in parts for event in tracks_of(part)]
    assert share_in_common(events, tracks_of(result.tracks)) >= 0.999


def test_tracks_do_not_depend_on_the_order_of_events(result, simulated, pipeline):
    order = np.random.default_rng(1).permutation(N_EVENTS)
    events = [slice_batch(simulated.hits, e, e + 1) for e in order]
    turned = HitBatch(
        *(np.concatenate([getattr(e, name) for e in events]) for name in ("entry", "event")),
        np.cumsum([0, *(e.n_hits for e in events)], dtype=np.int64),
        *(
            np.concatenate([getattr(e, name) for e in events])
            for name in ("x", "y", "z", "module", "lhcb_id")
        ),
    )
    found = pipeline.process(turned).tracks
    assert found.entry.tolist() == simulated.hits.entry[order].tolist()
    wanted = tracks_of(result.tracks)
    assert share_in_common(tracks_of(found), [wanted[e] for e in order]) >= 0.999


def test_a_straight_track_is_found_among_events_of_few_hits(pipeline):
    track = track_through(0.1)
    found = pipeline.process(hits_batch([], track[:1], track[:2], track, []))
    assert found.rejected == ()
    assert np.diff(found.tracks.offsets).tolist() == [0, 0, 0, 1, 0]
    assert found.tracks.hit_index.tolist() == list(range(len(track)))
    assert found.tracks.tx[0] == pytest.approx(0.1, abs=1e-4)
    assert found.tracks.ty[0] == pytest.approx(0.02, abs=1e-4)
    assert found.tracks.event.tolist() == [7, 8, 9, 10, 11]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("events", [[], [[]], [[], []], [track_through(0.1)[:1]], [track_through(0.1)[:2]]])
def test_batches_of_next_to_nothing_have_no_tracks(engine, events):
    found = make_pipeline("velo", {"inference": {"engine": engine}}).process(hits_batch(*events))
    assert found.tracks.n_events == len(events)
    assert found.tracks.n_tracks == 0
    assert found.tracks.offsets.tolist() == [0] * (len(events) + 1)
    assert found.rejected == ()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_event_with_positions_that_are_no_numbers_is_rejected_alone(result, simulated, pipeline, value):
    x = simulated.hits.x.copy()
    x[simulated.hits.offsets[3] + 5] = value
    found = pipeline.process(replace(simulated.hits, x=x))
    (rejected,) = found.rejected
    assert rejected.index == 3
    assert rejected.failure_class == FailureClass.DATA
    assert "NaN" in rejected.reason
    events, wanted = tracks_of(found.tracks), tracks_of(result.tracks)
    assert events.pop(3) == set()
    del wanted[3]
    assert share_in_common(events, wanted) >= 0.999


def test_an_event_with_a_bad_bank_is_rejected_alone(result, simulated, pipeline):
    _, retina = simulated_banks(simulated)
    version = retina.bank_version.copy()
    version[retina.bank_offsets[4] + 1] = 99
    found = pipeline.process(replace(retina, bank_version=version))
    (rejected,) = found.rejected
    assert rejected.index == 4
    assert rejected.failure_class == FailureClass.DATA
    assert "99" in rejected.reason
    events, wanted = tracks_of(found.tracks), tracks_of(result.tracks)
    assert events.pop(4) == set()
    del wanted[4]
    assert share_in_common(events, wanted) >= 0.999


def test_a_batch_in_which_every_event_is_rejected_has_no_tracks(pipeline):
    bad = [(3, np.nan, 0, 0)]
    found = pipeline.process(hits_batch(bad, bad))
    assert [r.index for r in found.rejected] == [0, 1]
    assert found.tracks.n_events == 2
    assert found.tracks.n_tracks == 0


def test_models_named_in_the_campaign_are_used(result, simulated, tmp_path):
    models = {
        "embedding": str(shutil.copy(shipped("velo-embedding"), tmp_path)),
        "gnn": with_settings("velo-gnn", tmp_path / "gnn.onnx", threshold="1e9"),
    }
    strict = make_pipeline("velo", {"inference": {"models": models}})
    assert strict.process(simulated.hits).tracks.n_tracks == 0
    # the campaign's own threshold goes before the model's
    threshold = float(open_engine("fused", shipped("velo-gnn")).spec.settings["threshold"])
    mended = make_pipeline(
        "velo", {"pipeline": {"threshold": threshold}, "inference": {"models": models}}
    ).process(simulated.hits)
    assert tracks_of(mended.tracks) == tracks_of(result.tracks)


def test_a_lower_k_gives_fewer_neighbours(result, simulated):
    fewer = make_pipeline("velo", {"pipeline": {"k": 2}}).process(simulated.hits)
    assert fewer.counts["neighbours"] <= 2 * simulated.hits.n_hits
    assert fewer.counts["neighbours"] < result.counts["neighbours"]


def with_settings(name, path, **changes):
    """A copy of a shipped model with other settings, those of None left out."""
    import onnx

    model = onnx.load(shipped(name))
    settings = {entry.key: entry.value for entry in model.metadata_props} | changes
    del model.metadata_props[:]
    onnx.helper.set_model_props(model, {k: v for k, v in settings.items() if v is not None})
    onnx.save(model, path)
    return str(path)


@pytest.mark.parametrize(
    ("role", "setting"),
    [("embedding", "d_max"), ("embedding", "k"), ("embedding", "kink_max"), ("gnn", "threshold")],
)
def test_a_model_that_lacks_a_setting_is_refused_by_its_name(role, setting, tmp_path):
    path = with_settings(f"velo-{role}", tmp_path / "model.onnx", **{setting: None})
    with pytest.raises(CodeError, match=f"the model velo-{role} does not say its '{setting}'") as caught:
        make_pipeline("velo", {"inference": {"models": {role: path}}})
    assert f"set {setting} under [pipeline]" in caught.value.hint


@pytest.mark.parametrize(
    ("role", "setting", "value"),
    [
        ("embedding", "d_max", "1 two 3"),
        ("embedding", "d_max", "1 2 inf"),
        ("embedding", "k", "0"),
        ("embedding", "k", "1.5"),
        ("embedding", "kink_max", "-0.1"),
        ("gnn", "threshold", "high"),
        ("gnn", "threshold", "nan"),
    ],
)
def test_a_model_with_a_setting_that_cannot_be_used_is_refused(role, setting, value, tmp_path):
    path = with_settings(f"velo-{role}", tmp_path / "model.onnx", **{setting: value})
    with pytest.raises(CodeError) as caught:
        make_pipeline("velo", {"inference": {"models": {role: path}}})
    assert f"the model velo-{role} says {setting} = '{value}', which cannot be used" in str(caught.value)


def test_a_model_of_two_distances_is_refused(tmp_path):
    path = with_settings("velo-embedding", tmp_path / "model.onnx", d_max="1 2")
    with pytest.raises(CodeError, match="d_max holds 2 distances"):
        make_pipeline("velo", {"inference": {"models": {"embedding": path}}})


@pytest.mark.parametrize("engine", ENGINES)
def test_models_in_each_others_roles_are_refused(engine):
    models = {"embedding": str(shipped("velo-gnn")), "gnn": str(shipped("velo-embedding"))}
    with pytest.raises(CodeError, match="cannot be the embedding: it gives gate_logit, triplet_logit"):
        make_pipeline("velo", {"inference": {"engine": engine, "models": models}})


def test_options_that_cannot_be_used_are_refused_when_the_pipeline_is_made(tmp_path):
    with pytest.raises(SpecError, match="knows no 'treshold'"):
        make_pipeline("velo", {"pipeline": {"treshold": 1}})
    with pytest.raises(SiteError, match=r"gone\.onnx"):
        make_pipeline("velo", {"inference": {"models": {"gnn": str(tmp_path / "gone.onnx")}}})
    with pytest.raises(MissingInputError, match=r"gone\.bin"):
        make_pipeline("velo", {"pipeline": {"geometry": str(tmp_path / "gone.bin")}})
    (tmp_path / "bad.bin").write_bytes(b"no geometry")
    with pytest.raises(CorruptInputError, match=r"bad\.bin"):
        make_pipeline("velo", {"pipeline": {"geometry": str(tmp_path / "bad.bin")}})


_CROWDED = """
import json, resource, sys, time
import numpy as np
from egretta.jobs.pipelines import make_pipeline
from egretta.kernels.batches import HitBatch
from egretta.kernels.geometry import N_MODULES, VeloGeometry

n = int(sys.argv[1])
rng = np.random.default_rng(1)
module = np.sort(rng.integers(0, N_MODULES, n)).astype(np.int32)
side = np.where(module % 2 == 1, 1, -1)
x, y = side * rng.uniform(-5, 35, n), rng.uniform(-35, 35, n)
z = VeloGeometry.nominal().module_z[module] + rng.choice([-0.581, 0.581], n)
number = np.zeros(1, np.int64)
columns = (c.astype(np.float32) for c in (x, y, z))
batch = HitBatch(number, number, np.array([0, n]), *columns, module, np.zeros(n, np.uint32))
pipeline = make_pipeline("velo", {})
began = time.process_time()
result = pipeline.process(batch)
print(json.dumps({
    "cpu_s": time.process_time() - began,
    "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    "rejected": len(result.rejected),
    "tracks": result.tracks.n_tracks,
}))
"""


def test_an_event_of_100_000_hits_ends_within_2_gb_and_a_minute():
    done = subprocess.run(
        [sys.executable, "-c", _CROWDED, "100000"], check=True, capture_output=True, text=True, timeout=280
    )
    told = json.loads(done.stdout)
    assert told["peak_mb"] < 2000
    assert told["cpu_s"] < 60
    assert told["rejected"] == 0
    assert told["tracks"] > 0
