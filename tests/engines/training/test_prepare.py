"""From ROOT files with truth to the training's own file."""

import numpy as np
import pytest
import uproot

from egretta.engines.training.__main__ import main
from egretta.engines.training.prepare import prepare, samples_of
from egretta.engines.training.truth import SAMPLE_ARRAYS, load_truth
from egretta.jobs.simulation.velo import generate_events
from egretta.jobs.simulation.writing import simulate_velo
from egretta.kernels.errors import CorruptInputError, MissingInputError, SiteError, UsageError


@pytest.fixture(scope="module")
def events_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("events") / "events.root"
    simulate_velo(path, 3, seed=5, pile_up=1.0)
    return path


def test_what_was_simulated_comes_back(events_file, tmp_path, capsys):
    assert main(["prepare", str(events_file), f"again={events_file}", "--out", str(tmp_path / "t.npz")]) == 0
    assert "again: 3 events" in capsys.readouterr().out
    with np.load(tmp_path / "t.npz") as archive:
        assert set(archive.files) == {f"{s}/{a}" for s in ("events", "again") for a in SAMPLE_ARRAYS}
        assert archive["events/module"].dtype == np.int8
        assert archive["events/x"].dtype == np.float32
    truth = load_truth(tmp_path / "t.npz", ["events"])
    made = generate_events(3, seed=5, pile_up=1.0)
    assert np.array_equal(truth.offsets, made.hits.offsets)
    assert np.array_equal(truth.position, np.stack([made.hits.x, made.hits.y, made.hits.z], axis=1))
    assert np.array_equal(truth.module, made.hits.module)
    hits_of_particles = np.diff(made.truth.hit_offsets)
    assert np.array_equal(np.bincount(truth.particles[truth.particles >= 0]), hits_of_particles)


def test_samples_are_named_by_the_stem_or_as_told():
    named = samples_of(["/data/one.root", "two=/data/a=b.root"])
    assert {name: str(path) for name, path in named.items()} == {
        "one": "/data/one.root",
        "two": "/data/a=b.root",
    }
    for words in (["a.root", "b/a.root"], ["=a.root"], ["a/b=c.root"]):
        with pytest.raises(UsageError, match="cannot call a sample"):
            samples_of(words)


def test_files_that_cannot_be_used_are_named(events_file, tmp_path):
    output = tmp_path / "t.npz"
    with pytest.raises(MissingInputError, match=r"no file .*none\.root"):
        prepare({"a": tmp_path / "none.root"}, output)
    damaged = tmp_path / "damaged.root"
    damaged.write_bytes(events_file.read_bytes()[:3000])
    with pytest.raises(CorruptInputError, match=r"damaged\.root"):
        prepare({"a": damaged}, output)
    with uproot.recreate(tmp_path / "other.root") as file:
        file["Other"] = {"x": np.zeros(3)}
    with pytest.raises(MissingInputError, match="no tree 'Velo', but Other"):
        prepare({"a": tmp_path / "other.root"}, output)
    with uproot.recreate(tmp_path / "bare.root") as file:
        file["Velo"] = {"hit_x": np.zeros(3)}
    with pytest.raises(MissingInputError, match=r"bare\.root has no hit_y, .*mchit_index"):
        prepare({"a": tmp_path / "bare.root"}, output)
    with pytest.raises(SiteError, match="absent"):
        prepare({"a": events_file}, tmp_path / "absent" / "t.npz")
    assert list(tmp_path.glob("*.npz*")) == []
