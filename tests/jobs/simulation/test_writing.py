"""Files of simulated events: both trees tell of the same events, whatever the batches and threads."""

import json
from pathlib import Path

import numpy as np
import pytest
import uproot
from typer.testing import CliRunner

from egretta.jobs.readers import open_source
from egretta.jobs.simulation.velo import BLOCK_EVENTS, generate_events
from egretta.jobs.simulation.writing import simulate_velo, simulated_banks
from egretta.kernels.batches import BankBatch, HitBatch
from egretta.kernels.decoding import decode_banks
from egretta.kernels.errors import SiteError, UsageError
from egretta.kernels.geometry import VeloGeometry
from egretta.workflows.cli import app

N_EVENTS = 5 * BLOCK_EVENTS + 7


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("simulated") / "events.root"
    summary = simulate_velo(path, N_EVENTS, seed=9, preset="minbias")
    assert summary.events == N_EVENTS
    assert summary.file_bytes == path.stat().st_size
    return path


def read(path: Path, tree: str) -> HitBatch | BankBatch:
    with open_source(str(path), tree=tree) as source:
        (batch,) = source.batches(0, 50, 50)
    return batch


def test_decoding_the_retina_banks_gives_the_hits_of_the_other_tree(simulated: Path) -> None:
    hits, banks = read(simulated, "Velo"), read(simulated, "RawEvent")
    assert isinstance(hits, HitBatch)
    assert isinstance(banks, BankBatch)
    decoded, report = decode_banks(banks, VeloGeometry.nominal(), "retina")
    assert not report.code.any()
    np.testing.assert_array_equal(decoded.event, hits.event)
    np.testing.assert_array_equal(decoded.offsets, hits.offsets)
    np.testing.assert_array_equal(decoded.lhcb_id, hits.lhcb_id)
    np.testing.assert_array_equal(decoded.module, hits.module)
    for name in "xyz":
        np.testing.assert_allclose(getattr(decoded, name), getattr(hits, name), atol=1e-4)


def test_clustering_the_superpixel_banks_finds_the_same_clusters() -> None:
    batch = generate_events(20, seed=3)
    superpixel, _ = simulated_banks(batch)
    decoded, report = decode_banks(superpixel, VeloGeometry.nominal(), "superpixel")
    assert not report.code.any()
    np.testing.assert_array_equal(decoded.offsets, batch.hits.offsets)
    for event in range(20):
        each = slice(decoded.offsets[event], decoded.offsets[event + 1])
        found, made = (
            np.sort(h.module[each] * 1e4 + h.x[each] + 100 * h.y[each]) for h in (decoded, batch.hits)
        )
        # means of pixels against means rounded to quarters of a pixel, along both axes
        assert np.mean(np.abs(found - made) < 100 * 0.02) > 0.95


def test_the_file_holds_what_the_generator_makes(simulated: Path) -> None:
    batch = generate_events(N_EVENTS, seed=9, preset="minbias")
    tree = uproot.open(simulated)["Velo"]
    arrays = tree.arrays(library="np")
    np.testing.assert_array_equal(arrays["event"], np.arange(N_EVENTS))
    np.testing.assert_array_equal(arrays["nhit"], np.diff(batch.hits.offsets))
    np.testing.assert_array_equal(arrays["nmc"], np.diff(batch.truth.offsets))
    np.testing.assert_array_equal(np.concatenate(arrays["hit_x"]), batch.hits.x)
    np.testing.assert_array_equal(np.concatenate(arrays["hit_lhcb_id"]), batch.hits.lhcb_id)
    np.testing.assert_array_equal(np.concatenate(arrays["mc_pid"]), batch.truth.pid)
    np.testing.assert_array_equal(np.concatenate(arrays["mc_nhits"]), np.diff(batch.truth.hit_offsets))
    np.testing.assert_array_equal(np.concatenate(arrays["mchit_index"]), batch.truth.hit_index)
    np.testing.assert_allclose(np.concatenate(arrays["mc_p"]), batch.truth.p, rtol=1e-6)


def test_threads_change_nothing(simulated: Path, tmp_path: Path) -> None:
    simulate_velo(tmp_path / "two.root", N_EVENTS, seed=9, preset="minbias", workers=2, formats=("hits",))
    one, two = (uproot.open(p)["Velo"].arrays(library="np") for p in (simulated, tmp_path / "two.root"))
    for name in ("event", "nhit"):
        np.testing.assert_array_equal(one[name], two[name])
    for name in ("hit_x", "mc_p", "mchit_index"):
        np.testing.assert_array_equal(np.concatenate(one[name]), np.concatenate(two[name]))


def test_progress_counts_up_to_the_number_of_events(tmp_path: Path) -> None:
    told: list[int] = []
    simulate_velo(tmp_path / "few.root", 60, formats=("hits",), progress=told.append)
    assert told[-1] == 60
    assert told == sorted(told)


@pytest.mark.parametrize("form", ["hits", "banks"])
def test_only_the_trees_asked_for_are_written_and_no_events_are_fine(tmp_path: Path, form: str) -> None:
    path = tmp_path / "none.root"
    simulate_velo(path, 0, formats=(form,))  # type: ignore[arg-type]
    tree = {"hits": "Velo", "banks": "RawEvent"}[form]
    file = uproot.open(path)
    assert file.keys(cycle=False) == [tree]
    assert file[tree].num_entries == 0


def test_a_failure_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "events.root"
    path.write_text("old")

    def fail(_: int) -> None:
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        simulate_velo(path, 10, formats=("hits",), progress=fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_requests_that_make_no_sense_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    path = tmp_path / "events.root"
    with pytest.raises(UsageError, match="formats"):
        simulate_velo(path, 10, formats=())
    with pytest.raises(UsageError, match="0 workers"):
        simulate_velo(path, 10, workers=0)
    with pytest.raises(UsageError, match="no preset"):
        simulate_velo(path, 10, preset="top")
    assert not path.exists()


def test_a_path_below_a_file_is_an_error_of_the_site(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SiteError, match="simulated events"):
        simulate_velo(tmp_path / "file" / "events.root", 1)


def test_the_command_writes_a_file_and_says_so_in_json(tmp_path: Path) -> None:
    path = tmp_path / "events.root"
    words = ["simulate", "velo", str(path), "--events", "5", "--seed", "4", "--format", "hits", "--json"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["events"] == 5
    assert summary["hits"] == generate_events(5, seed=4).hits.n_hits
    assert uproot.open(path)["Velo"].num_entries == 5
