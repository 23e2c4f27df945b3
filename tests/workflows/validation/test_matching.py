import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egretta.kernels.batches import TrackBatch
from egretta.kernels.errors import CorruptInputError
from egretta.workflows.validation.matching import Matches, Truth, match

Events = list[list[list[int]]]


def offsets(lengths: list[int]) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def make_tracks(events: Events) -> TrackBatch:
    flat = [track for event in events for track in event]
    number = np.arange(len(events), dtype=np.int64)
    zeros = np.zeros(len(flat), dtype=np.float32)
    hits = np.array([hit for track in flat for hit in track], dtype=np.int32)
    return TrackBatch(
        entry=number,
        event=number + 100,
        offsets=offsets([len(event) for event in events]),
        x=zeros,
        y=zeros,
        z=zeros,
        tx=zeros,
        ty=zeros,
        chi2=zeros,
        hit_offsets=offsets([len(track) for track in flat]),
        hit_index=hits,
        lhcb_id=np.zeros(len(hits), dtype=np.uint32),
    )


def make_truth(events: Events) -> Truth:
    flat = [particle for event in events for particle in event]
    number = np.arange(len(events), dtype=np.int64)
    zeros = np.zeros(len(flat), dtype=np.float32)
    return Truth(
        entry=number,
        event=number + 100,
        offsets=offsets([len(event) for event in events]),
        pid=np.full(len(flat), 211, dtype=np.int32),
        p=zeros,
        pt=zeros,
        eta=zeros,
        flags=np.zeros(len(flat), dtype=np.int32),
        hit_offsets=offsets([len(particle) for particle in flat]),
        hit_index=np.array([hit for particle in flat for hit in particle], dtype=np.int32),
    )


def pairs(matches: Matches) -> list[tuple[int, int, int]]:
    rows = zip(matches.track, matches.particle, matches.shared_hits, strict=True)
    return [(int(t), int(p), int(n)) for t, p, n in rows]


def match_one(tracks: list[list[int]], particles: list[list[int]], n_hits: int = 40) -> Matches:
    return match(make_truth([particles]), make_tracks([tracks]), np.array([0, n_hits]))


def test_seven_hits_of_ten_are_no_match_and_eight_are() -> None:
    particle = list(range(10))
    assert pairs(match_one([[*range(7), 20, 21, 22]], [particle])) == []
    assert pairs(match_one([[*range(8), 20, 21]], [particle])) == [(0, 0, 8)]


def test_a_track_matches_both_particles_that_share_its_hits_and_is_best_for_one() -> None:
    matches = match_one([[0, 1, 2, 3]], [[0, 1, 2, 3, 4, 5], [0, 1, 2, 9]])
    assert pairs(matches) == [(0, 0, 4), (0, 1, 3)]
    assert matches.is_best.tolist() == [True, False]
    assert matches.is_found.tolist() == [True, True]
    assert matches.is_found_best.tolist() == [True, False]


def test_of_particles_with_equally_many_shared_hits_the_shorter_is_best() -> None:
    matches = match_one([[0, 1, 2]], [[0, 1, 2, 3], [0, 1, 2]])
    assert matches.particle[matches.is_best].tolist() == [1]


def test_hits_of_another_event_never_match() -> None:
    matches = match(make_truth([[[0, 1, 2]], []]), make_tracks([[], [[0, 1, 2]]]), np.array([0, 3, 6]))
    assert pairs(matches) == []
    assert matches.is_ghost.tolist() == [True]


@pytest.mark.parametrize("bad", [-1, 3])
def test_a_hit_outside_its_event_is_refused_and_the_event_named(bad: int) -> None:
    with pytest.raises(CorruptInputError, match=f"event 101 names hit {bad}"):
        match(make_truth([[], [[0, 1, 2]]]), make_tracks([[], [[0, 1, bad]]]), np.array([0, 5, 8]))


def test_batches_of_unequal_length_are_refused() -> None:
    with pytest.raises(CorruptInputError, match="2 events of tracks, 1 of truth"):
        match(make_truth([[]]), make_tracks([[], []]), np.array([0, 0, 0]))


N_HITS = 12
a_hit_list = st.lists(st.integers(0, N_HITS - 1), min_size=1, max_size=8, unique=True)
an_event = st.tuples(st.lists(a_hit_list, max_size=5), st.lists(a_hit_list, max_size=5))


@given(st.lists(an_event, max_size=4))
def test_matches_are_those_of_the_plain_definition(
    events: list[tuple[list[list[int]], list[list[int]]]],
) -> None:
    tracks, particles = [e[0] for e in events], [e[1] for e in events]
    expected, first_track, first_particle = [], 0, 0
    best: dict[int, tuple[int, int, int]] = {}
    for event_tracks, event_particles in events:
        for t, track in enumerate(event_tracks, first_track):
            for p, particle in enumerate(event_particles, first_particle):
                shared = len(set(track) & set(particle))
                if shared * 10 > 7 * len(track):
                    expected.append((t, p, shared))
                    rank = (-shared, len(particle), p)
                    best[t] = min(best.get(t, rank), rank)
        first_track += len(event_tracks)
        first_particle += len(event_particles)
    hits_offsets = np.arange(len(events) + 1) * N_HITS
    matches = match(make_truth(particles), make_tracks(tracks), hits_offsets)
    assert pairs(matches) == expected
    chosen = zip(matches.track[matches.is_best], matches.particle[matches.is_best], strict=True)
    assert {int(t): int(p) for t, p in chosen} == {t: rank[2] for t, rank in best.items()}
