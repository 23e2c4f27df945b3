"""Our figures against those of velopix's own validator, for the same tracks."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from egretta.workflows.validation.metrics import evaluate
from egretta.workflows.validation.truth import read_truth


def load_peer() -> ModuleType:
    path = Path(__file__).parents[3] / "benchmarks" / "velopix_peer.py"
    spec = importlib.util.spec_from_file_location("velopix_peer", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # dataclasses look their module up by its name
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.shared_data
@pytest.mark.parametrize("sample", ["bsphiphi", "minbias"])
def test_counts_agree_particle_for_particle(shared_data: Path, sample: str) -> None:
    pytest.importorskip("velopix", reason="velopix is not installed (extra bench)")
    from velopix.DetectorEvent import Event
    from velopix.ReconstructionAlgorithms import SearchByTripletTrie
    from velopix.Validator import export_validation_to_json

    peer = load_peer()
    path = shared_data / "velo" / f"{sample}_valid.root"
    hits = peer.read_hits(str(path), 20)
    truth, hits_offsets = next(read_truth(path, stop=20))
    tracks, _ = peer.run_velopix(hits)
    counts = evaluate(truth, tracks, hits_offsets)["all"]

    events = [event.data for event in peer.peer_events(hits, truth)]
    solver = SearchByTripletTrie()
    theirs = export_validation_to_json(events, [solver.solve(Event(event)) for event in events], False)
    assert (counts.tracks, counts.ghosts) == (theirs["total_tracks"], theirs["total_ghosts"])
    by_label = {category["label"]: category for category in theirs["categories"]}
    for ours, label in (("velo", "velo"), ("long", "long"), ("long_p5", "long>5GeV")):
        category = counts.categories[ours]
        found = (by_label[label]["n_reco"], by_label[label]["n_particles"])
        assert (category.found, category.particles) == found
        purity = category.hit_purity_sum / category.pairs
        # ours is over all matching pairs, theirs over each track's best: close, but not the same
        assert 100 * purity == pytest.approx(by_label[label]["purityT"], abs=0.1)
