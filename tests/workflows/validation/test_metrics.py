import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egretta.kernels.batches import TrackBatch
from egretta.workflows.validation.matching import ParticleFlag, Truth
from egretta.workflows.validation.metrics import Metrics, binomial_uncertainty, evaluate, track_eta

LONG = int(ParticleFlag.HAS_VELO | ParticleFlag.IS_LONG)


def batch(
    particles: list[tuple[int, float, list[int]]], tracks: list[list[int]], slope: float = 0.1
) -> tuple[Truth, TrackBatch, np.ndarray]:
    """One event of 50 hits: particles as (pid, eta, hits), all long with p = 3 GeV; tracks as hits."""
    lengths = [len(hits) for *_, hits in particles]
    n, m = len(particles), len(tracks)
    truth = Truth(
        entry=np.zeros(1, dtype=np.int64),
        event=np.zeros(1, dtype=np.int64),
        offsets=np.array([0, n], dtype=np.int64),
        pid=np.array([pid for pid, *_ in particles], dtype=np.int32),
        p=np.full(n, 3000, dtype=np.float32),
        pt=np.full(n, 500, dtype=np.float32),
        eta=np.array([eta for _, eta, _ in particles], dtype=np.float32),
        flags=np.full(n, LONG, dtype=np.int32),
        hit_offsets=np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
        hit_index=np.array([hit for *_, hits in particles for hit in hits], dtype=np.int32),
    )
    hits = np.array([hit for track in tracks for hit in track], dtype=np.int32)
    track_lengths = [len(track) for track in tracks]
    ones = np.ones(m, dtype=np.float32)
    batch_of_tracks = TrackBatch(
        entry=truth.entry,
        event=truth.event,
        offsets=np.array([0, m], dtype=np.int64),
        x=ones,
        y=0 * ones,
        z=0 * ones,
        tx=slope * ones,
        ty=0 * ones,
        chi2=0 * ones,
        hit_offsets=np.concatenate(([0], np.cumsum(track_lengths))).astype(np.int64),
        hit_index=hits,
        lhcb_id=np.zeros(len(hits), dtype=np.uint32),
    )
    return truth, batch_of_tracks, np.array([0, 50], dtype=np.int64)


def test_two_tracks_of_one_particle_are_one_found_and_one_clone() -> None:
    truth, tracks, hits = batch([(211, 3.0, [0, 1, 2, 3, 4, 5])], [[0, 1, 2], [3, 4, 5], [7, 8, 9]])
    all_range = evaluate(truth, tracks, hits)["all"]
    assert (all_range.tracks, all_range.ghosts, all_range.clones) == (3, 1, 1)
    assert all_range.ghost_rate == pytest.approx(1 / 3)
    assert all_range.clone_rate == pytest.approx(1 / 2)
    long = all_range.categories["long"].to_dict()
    assert long["efficiency"] == 1.0
    assert long["hit_efficiency"] == pytest.approx(0.5)
    assert long["hit_purity"] == 1.0


def test_a_track_of_two_particles_that_share_hits_finds_both_and_clones_none() -> None:
    truth, tracks, hits = batch([(211, 3.0, [0, 1, 2]), (211, 3.0, [0, 1, 2, 3])], [[0, 1, 2]])
    counts = evaluate(truth, tracks, hits)["all"]
    assert counts.categories["velo"].found == 2
    assert counts.categories["velo"].found_best == 1
    assert counts.clones == 0


def test_electrons_are_counted_apart() -> None:
    truth, tracks, hits = batch([(211, 3.0, [0, 1, 2]), (-11, 3.0, [3, 4, 5])], [[3, 4, 5]])
    categories = evaluate(truth, tracks, hits)["all"].categories
    assert (categories["long"].found, categories["long"].particles) == (0, 1)
    assert (categories["long_electrons"].found, categories["long_electrons"].particles) == (1, 1)


def test_the_range_of_eta_takes_particles_by_truth_and_ghosts_by_their_slope() -> None:
    particles = [(211, 3.0, [0, 1, 2]), (211, 5.0, [3, 4, 5]), (211, -3.0, [6, 7, 8])]
    found = [[0, 1, 2], [3, 4, 5], [6, 7, 8], [20, 21, 22]]
    inside = evaluate(*batch(particles, found, slope=0.1))["eta_2_5"]
    assert inside.categories["velo"].particles == 1
    assert (inside.tracks, inside.ghosts) == (2, 1)
    steep = evaluate(*batch(particles, found, slope=1.0))["eta_2_5"]
    assert (steep.tracks, steep.ghosts) == (1, 0)


def test_a_track_whose_distance_to_the_beam_shrinks_with_z_flies_backward() -> None:
    _, forward, _ = batch([], [[0, 1, 2]], slope=0.1)
    _, backward, _ = batch([], [[0, 1, 2]], slope=-0.1)
    assert track_eta(forward)[0] == pytest.approx(np.arcsinh(10.0), rel=1e-6)
    assert track_eta(backward)[0] == pytest.approx(-np.arcsinh(10.0), rel=1e-6)


def test_rates_of_nothing_are_none_and_the_json_holds_no_nan() -> None:
    figures = Metrics.zero().to_dict()
    assert figures["all"]["ghost_rate"] is None
    assert figures["eta_2_5"]["long"]["efficiency"] is None
    assert set(figures) == {"all", "eta_2_5"}
    json.dumps(figures, allow_nan=False)


@pytest.mark.parametrize("passed", [0, 10])
def test_the_uncertainty_does_not_vanish_where_all_or_none_pass(passed: int) -> None:
    uncertainty = binomial_uncertainty(passed, 10)
    assert uncertainty is not None
    assert uncertainty > 0.01


hits_of_one = st.lists(st.integers(0, 20), min_size=3, max_size=8, unique=True)
one_event = st.tuples(
    st.lists(st.tuples(st.sampled_from([211, -11]), st.floats(1, 6), hits_of_one), max_size=5),
    st.lists(hits_of_one, max_size=6),
)


@given(st.lists(one_event, max_size=3))
def test_batches_add_up_and_every_track_is_a_ghost_a_clone_or_the_first_of_its_particle(
    events: list[tuple[list[tuple[int, float, list[int]]], list[list[int]]]],
) -> None:
    total = Metrics.zero()
    for particles, tracks in events:
        total += evaluate(*batch(particles, tracks))
    counts = total["all"]
    assert total.events == len(events)
    assert counts.tracks == sum(len(tracks) for _, tracks in events)
    categories = counts.categories
    first = categories["velo"].found_best + categories["velo_electrons"].found_best
    assert counts.ghosts + counts.clones + first == counts.tracks
    for category in categories.values():
        assert category.found_best <= category.found <= category.particles
    for field in dataclasses.fields(counts):
        if field.name != "categories":
            assert getattr(total["eta_2_5"], field.name) <= getattr(counts, field.name)
