"""Files in, figures out: the whole of ``egretta validate``."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot
from typer.testing import CliRunner

from egretta.jobs.writers import TrackWriter
from egretta.kernels.batches import TrackBatch
from egretta.kernels.errors import CorruptInputError, MissingInputError
from egretta.workflows.cli import app
from egretta.workflows.validation.judge import judge
from egretta.workflows.validation.metrics import CATEGORIES
from egretta.workflows.validation.truth import read_truth

HITS_A_PARTICLE = 5


def write_truth(path: Path, n_events: int, *, particles: int = 4, leave_out: str = "") -> None:
    """Events numbered from 1000 in which every hit belongs to one particle, all long, eta 3."""
    import awkward as ak

    n = n_events * particles
    rng = np.random.default_rng(n_events)

    def per_particle(values: Any) -> Any:
        return ak.unflatten(np.broadcast_to(values, n).copy(), np.full(n_events, particles))

    hits = np.tile(np.arange(particles * HITS_A_PARTICLE), n_events)
    branches = {
        "event": np.arange(n_events) + 1000,
        "nhit": np.full(n_events, particles * HITS_A_PARTICLE),
        "mc_pid": per_particle(211),
        "mc_p": per_particle(rng.uniform(2e3, 2e4, n)),
        "mc_pt": per_particle(rng.uniform(100, 2e3, n)),
        "mc_eta": per_particle(3.0),
        "mc_flags": per_particle(5),
        "mc_nhits": per_particle(HITS_A_PARTICLE),
        "mchit_index": ak.unflatten(hits, np.full(n_events, particles * HITS_A_PARTICLE)),
    }
    branches.pop(leave_out, None)
    with uproot.recreate(path) as file:
        file.mktree("Velo", {name: ak.type(array).content for name, array in branches.items()})
        file["Velo"].extend(branches)


def write_tracks(path: Path, n_events: int, *, found: int = 3, ghosts: int = 1, first: int = 0) -> None:
    """In each event a track for each of the first particles, then ghosts of hits of different ones."""
    tracks = [range(i * HITS_A_PARTICLE, (i + 1) * HITS_A_PARTICLE) for i in range(found)]
    tracks += [range(0, 4 * HITS_A_PARTICLE, HITS_A_PARTICLE)] * ghosts
    lengths = np.tile([len(track) for track in tracks], n_events)
    hits = np.tile(np.concatenate([np.array(track) for track in tracks]), n_events).astype(np.int32)
    entry = np.arange(first, first + n_events, dtype=np.int64)
    state = np.ones(len(lengths), dtype=np.float32)
    batch = TrackBatch(
        entry=entry,
        event=entry + 1000,
        offsets=np.arange(n_events + 1, dtype=np.int64) * len(tracks),
        x=state,
        y=0 * state,
        z=0 * state,
        tx=0.1 * state,
        ty=0 * state,
        chi2=0 * state,
        hit_offsets=np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
        hit_index=hits,
        lhcb_id=np.zeros(len(hits), dtype=np.uint32),
    )
    with TrackWriter(path) as writer:
        writer.append(batch)
        writer.commit()


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    tracks, truth = tmp_path / "tracks.root", tmp_path / "hits.root"
    write_truth(truth, 12)
    write_tracks(tracks, 12)
    return tracks, truth


def test_figures_are_those_that_the_files_were_made_with(files: tuple[Path, Path]) -> None:
    judgement = judge(files[0], [files[1]])
    for counts in (judgement.metrics["all"], judgement.metrics["eta_2_5"]):
        assert (counts.tracks, counts.ghosts, counts.clones) == (48, 12, 0)
        assert (counts.categories["long"].found, counts.categories["long"].particles) == (36, 48)
    assert judgement.metrics.events == 12
    curve = judgement.curves["efficiency.long.p"]
    assert (curve.passed.sum(), curve.total.sum()) == (36, 48)
    assert judgement.curves["ghost_rate.track_hits"].passed.sum() == 12


def test_truth_is_read_the_same_in_batches_of_any_length(files: tuple[Path, Path]) -> None:
    (whole, _), *none = read_truth(files[1])
    assert none == []
    parts = [truth for truth, _ in read_truth(files[1], batch_events=5)]
    assert [part.n_events for part in parts] == [5, 5, 2]
    np.testing.assert_array_equal(whole.p, np.concatenate([part.p for part in parts]))
    np.testing.assert_array_equal(whole.entry, np.concatenate([part.entry for part in parts]))


def test_tracks_of_two_alike_files_are_judged_together(tmp_path: Path) -> None:
    truth = [tmp_path / "a.root", tmp_path / "b.root"]
    for path in truth:
        write_truth(path, 3)
    write_tracks(tmp_path / "one.root", 3)
    with pytest.raises(CorruptInputError, match="in several truth files"):
        judge(tmp_path / "one.root", truth)


def test_events_that_the_tracks_lack_are_an_error_unless_allowed(tmp_path: Path) -> None:
    write_truth(tmp_path / "hits.root", 6)
    write_tracks(tmp_path / "tracks.root", 2, first=3)
    with pytest.raises(CorruptInputError, match="lack 4 events"):
        judge(tmp_path / "tracks.root", [tmp_path / "hits.root"])
    allowed = judge(tmp_path / "tracks.root", [tmp_path / "hits.root"], allow_missing=True)
    assert allowed.metrics.events == 2


def test_a_file_without_truth_is_refused_and_says_what_it_lacks(tmp_path: Path) -> None:
    write_truth(tmp_path / "hits.root", 2, leave_out="mc_flags")
    with pytest.raises(MissingInputError, match="lacks the branches mc_flags"):
        list(read_truth(tmp_path / "hits.root"))
    write_tracks(tmp_path / "tracks.root", 2)
    with pytest.raises(MissingInputError, match="no tree Velo; it holds Tracks"):
        list(read_truth(tmp_path / "tracks.root"))
    with pytest.raises(MissingInputError, match="there is no file"):
        list(read_truth(tmp_path / "absent.root"))
    (tmp_path / "text.root").write_text("not ROOT at all, but long enough to have a header")
    with pytest.raises(CorruptInputError, match="cannot be opened as a ROOT file"):
        list(read_truth(tmp_path / "text.root"))


def test_the_json_of_the_command_holds_both_ranges_and_every_category(files: tuple[Path, Path]) -> None:
    result = CliRunner().invoke(app, ["validate", str(files[0]), "--truth", str(files[1]), "--json"])
    assert result.exit_code == 0, result.output
    figures = json.loads(result.stdout)
    assert list(figures) == ["all", "eta_2_5"]
    assert figures["all"]["ghost_rate"] == pytest.approx(0.25)
    assert set(CATEGORIES) <= set(figures["eta_2_5"])
    assert figures["all"]["long"]["particles"] == 48


def test_the_command_draws_plots_and_leaves_the_file_of_the_report(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    plots, saved = tmp_path / "plots", tmp_path / "validation.json"
    arguments = ["validate", str(files[0]), "--truth", str(files[1])]
    result = CliRunner().invoke(app, [*arguments, "--plots", str(plots), "--output", str(saved)])
    assert result.exit_code == 0, result.output
    assert "long electrons" in result.output
    assert sorted(path.name for path in plots.iterdir()) == [
        "efficiency_eta.png",
        "efficiency_occupancy.png",
        "efficiency_p.png",
        "efficiency_pt.png",
        "ghost_rate_occupancy.png",
        "ghost_rate_track_hits.png",
    ]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in plots.iterdir())
    assert json.loads(saved.read_text())["curves"]["efficiency.long.p"]["total"]
