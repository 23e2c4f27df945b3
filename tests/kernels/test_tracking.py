"""A classified graph becomes fitted candidates in the order of the events."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egretta.kernels.geometry import VeloGeometry
from egretta.kernels.knn import nearest_neighbours
from egretta.kernels.tracking import TrackingConfig, components_of, find_candidates
from egretta.kernels.triplets import straight_triplets

MODULE_Z = VeloGeometry.nominal().module_z
# the hits themselves as keys: all hits of the next stations within reach are neighbours
REACH = np.full(3, 50, np.float32)


def events_of_lines(rng, n_events, n_tracks):
    """Events of straight tracks from near the origin, with 15 um of noise, and the track of each hit."""
    offsets, rows = [0], []
    for _ in range(n_events):
        event = []
        for t in range(rng.integers(0, n_tracks + 1)):
            slope = rng.uniform(-0.2, 0.2, 2)
            for m in range(start := rng.integers(14, 24), start + 2 * rng.integers(3, 7), 2):
                event.append((m, *(slope * MODULE_Z[m] + rng.normal(0, 0.015, 2)), MODULE_Z[m], t))
        event.sort()
        rows += event
        offsets.append(len(rows))
    module, x, y, z, track = np.array(rows, float).reshape(-1, 5).T
    xyz = (np.ascontiguousarray(c, dtype=np.float32) for c in (x, y, z))
    return np.array(offsets, np.int64), module.astype(np.int32), *xyz, track.astype(np.int32)


def graph_of(offsets, module, x, y, z):
    key = np.stack((x, y), axis=1)
    return straight_triplets(nearest_neighbours(offsets, module, key, key, REACH, 64), x, y, z, 0.02)


def candidates(hits, graph, logit, config):
    offsets, module, x, y, z = hits
    component = components_of(graph, logit > config.threshold, len(x))
    return find_candidates(graph, logit, component, offsets, module, x, y, z, config), component


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_events=st.integers(1, 5), n_tracks=st.integers(0, 6))
def test_candidates_come_by_event_with_a_fit_each(seed, n_events, n_tracks):
    *hits, track = events_of_lines(np.random.default_rng(seed), n_events, n_tracks)
    offsets, _, x, _, z = hits
    graph = graph_of(*hits)
    # the truth as the classifier
    ends = (graph.source[graph.first], graph.target[graph.first], graph.target[graph.second])
    logit = np.where((track[ends[0]] == track[ends[1]]) & (track[ends[1]] == track[ends[2]]), 5, -5)
    found, component = candidates(hits, graph, logit.astype(np.float32), TrackingConfig())
    groups = [g.tolist() for g in np.split(found.hit, found.offsets[1:-1])] if len(found.lines.x) else []
    event = np.searchsorted(offsets, np.arange(len(x)), side="right") - 1
    event_of_group = [event[g[0]] for g in groups]
    assert event_of_group == sorted(event_of_group)
    for at, group in enumerate(groups):
        assert len({(event[h], track[h]) for h in group}) == 1
        assert (np.diff(z[group]) > 0).all()
        path = found.paths.hit[found.paths.offsets[at] : found.paths.offsets[at + 1]]
        assert set(path) <= set(group)
        assert len(set(component[path])) == 1
        assert (found.lines.x[at], found.lines.z[at]) == (
            pytest.approx(x[group[0]], abs=0.1),
            z[group[0]],
        )
        assert np.isfinite(found.lines.chi2[at])
    # every track of the truth is there, whole
    assert sorted(groups) == sorted(
        np.flatnonzero((event == e) & (track == t)).tolist()
        for e in range(n_events)
        for t in set(track[event == e].tolist())
    )
    assert len(found.paths) == len(groups)


def one_line():
    rng = np.random.default_rng(3)
    module = np.arange(20, 34, 2, dtype=np.int32)
    z = MODULE_Z[module]
    x, y = (0.1 * z + rng.normal(0, 0.01, len(z)) for _ in range(2))
    return np.array([0, len(z)]), module, x.astype(np.float32), y.astype(np.float32), z


@pytest.mark.parametrize("threshold", [-3.0, 0.0, 2.5])
def test_only_triplets_above_the_threshold_make_tracks(threshold):
    hits = one_line()
    graph = graph_of(*hits)
    for shift, n_found in ((0.5, 1), (0.0, 0), (-0.5, 0)):
        logit = np.full(graph.n_triplets, threshold + shift, np.float32)
        found, component = candidates(hits, graph, logit, TrackingConfig(threshold=threshold))
        assert len(found.lines.x) == n_found
        assert len(np.unique(component)) == (1 if n_found else len(hits[1]))


def test_candidates_hold_the_hits_that_absorption_adds_to_the_paths():
    offsets, module, x, y, z = one_line()
    graph = graph_of(offsets, module, x, y, z)
    # without the triplets of the last hit
    last = len(module) - 1
    logit = np.where(graph.target[graph.second] == last, -1, 1).astype(np.float32)
    found, _ = candidates((offsets, module, x, y, z), graph, logit, TrackingConfig())
    assert last not in found.paths.hit
    assert found.hit.tolist() == list(range(len(module)))


def test_components_join_the_hits_of_kept_triplets_only():
    offsets, module, x, y, z = one_line()
    graph = graph_of(offsets, module, x, y, z)
    none = components_of(graph, np.zeros(graph.n_triplets, bool), len(x))
    assert none.tolist() == list(range(len(x)))
    label = components_of(graph, np.arange(graph.n_triplets) == 0, len(x))
    joined = {int(graph.source[graph.first[0]]), *graph.target[[graph.first[0], graph.second[0]]].tolist()}
    for hit, of in enumerate(label.tolist()):
        assert of == (min(joined) if hit in joined else hit)


def test_a_batch_without_hits_has_no_candidates():
    hits = np.zeros(1, np.int64), np.zeros(0, np.int32), *(np.zeros(0, np.float32) for _ in range(3))
    graph = graph_of(*hits)
    found, _ = candidates(hits, graph, np.zeros(0, np.float32), TrackingConfig())
    assert found.offsets.tolist() == [0]
    assert len(found.hit) == len(found.lines.x) == 0
