"""Triplets are all nearly straight pairs of edges, and edges without any are gone."""

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egretta.kernels.knn import Edges
from egretta.kernels.triplets import kink_limit, straight_triplets


def edges_between(n_hits, pairs):
    """Edges grouped by source, targets ascending."""
    pairs = sorted(set(pairs))
    source = np.array([i for i, _ in pairs], np.int32)
    target = np.array([j for _, j in pairs], np.int32)
    return Edges(np.searchsorted(source, np.arange(n_hits + 1)), source, target)


def random_hits_and_edges(rng, n_hits, n_edges, spread_mm):
    """Hits in ascending order of plane, edges from lower to higher planes; some with dz of 0 or less."""
    plane = np.sort(rng.integers(0, 8, n_hits))
    z = (25.0 * plane + rng.choice([-0.5, 0.0, 0.5], n_hits)).astype(np.float32)
    x, y = rng.normal(0, spread_mm, (2, n_hits)).astype(np.float32)
    # a tenth of the hits share another's z, whatever their order
    lying = rng.random(n_hits) < 0.1
    z[lying] = rng.permutation(z)[lying]
    pairs = np.sort(rng.integers(0, n_hits, (n_edges, 2)), axis=1)
    return edges_between(n_hits, [(int(i), int(j)) for i, j in pairs if i < j]), x, y, z


def kink_over_limit(edges, x, y, z, e, f, kink_max):
    """How a pair of edges compares with the limit of its first, in double precision."""
    x, y, z = x.astype(float), y.astype(float), z.astype(float)
    i, j, k = edges.source[e], edges.target[e], edges.target[f]
    if z[j] <= z[i] or z[k] <= z[j]:
        return inf
    tx, ty = (x[j] - x[i]) / (z[j] - z[i]), (y[j] - y[i]) / (z[j] - z[i])
    kink = np.hypot((x[k] - x[j]) / (z[k] - z[j]) - tx, (y[k] - y[j]) / (z[k] - z[j]) - ty)
    slope = np.sqrt(tx * tx + ty * ty + 1e-6)
    impact_mm = abs(x[i] * ty - y[i] * tx) / slope
    return kink / float(kink_limit(np.float32(slope), np.float32(impact_mm), np.float32(kink_max)))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_hits=st.integers(1, 60),
    n_edges=st.integers(0, 300),
    spread_mm=st.sampled_from([0.3, 3.0, 30.0]),
    kink_max=st.sampled_from([0.005, 0.02, 0.3]),
)
def test_triplets_are_all_pairs_of_edges_within_the_limit(seed, n_hits, n_edges, spread_mm, kink_max):
    edges, x, y, z = random_hits_and_edges(np.random.default_rng(seed), n_hits, n_edges, spread_mm)
    graph = straight_triplets(edges, x, y, z, kink_max)
    name = list(zip(graph.source.tolist(), graph.target.tolist(), strict=True))
    found = {(name[e], name[f]) for e, f in zip(graph.first, graph.second, strict=True)}
    every = list(zip(edges.source.tolist(), edges.target.tolist(), strict=True))
    for e, (i, j) in enumerate(every):
        for f in range(edges.offsets[j], edges.offsets[j + 1]):
            ratio = kink_over_limit(edges, x, y, z, e, f, kink_max)
            # rounding decides what lies on the limit
            if abs(ratio - 1) > 1e-3:
                assert (((i, j), every[f]) in found) == (ratio < 1)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_hits=st.integers(1, 80), n_edges=st.integers(0, 400))
def test_the_graph_is_ordered_and_holds_only_edges_of_triplets(seed, n_hits, n_edges):
    edges, x, y, z = random_hits_and_edges(np.random.default_rng(seed), n_hits, n_edges, 1.0)
    graph = straight_triplets(edges, x, y, z, 0.1)
    pairs = list(zip(graph.source.tolist(), graph.target.tolist(), strict=True))
    assert pairs == sorted(set(pairs))
    assert set(pairs) <= set(zip(edges.source.tolist(), edges.target.tolist(), strict=True))
    links = list(zip(graph.first.tolist(), graph.second.tolist(), strict=True))
    assert links == sorted(set(links))
    assert set(graph.first) | set(graph.second) == set(range(graph.n_edges))
    assert (graph.target[graph.first] == graph.source[graph.second]).all()
    assert (z[graph.target] > z[graph.source]).all()
    assert (graph.n_edges, graph.n_triplets) == (len(pairs), len(links))
    for array in (graph.source, graph.target, graph.first, graph.second):
        assert array.dtype == np.int32


@pytest.mark.parametrize("z", [[0, 25, 25], [0, 0, 25], [25, 0, 50], [0, 50, 25], [0, 0, 0]])
def test_an_edge_that_does_not_go_downstream_makes_no_triplet(z):
    zero = np.zeros(3, np.float32)
    graph = straight_triplets(
        edges_between(3, [(0, 1), (1, 2)]), zero, zero, np.array(z, np.float32), kink_max=1e6
    )
    assert (graph.n_edges, graph.n_triplets) == (0, 0)


def test_hits_on_a_line_make_one_chain_and_a_stray_edge_goes():
    z = np.array([0, 25, 50, 75, 75], np.float32)
    x = np.array([1, 2, 3, 4, 40], np.float32)
    edges = edges_between(5, [(0, 1), (1, 2), (2, 3), (2, 4)])
    graph = straight_triplets(edges, x, np.zeros(5, np.float32), z, 0.01)
    assert list(zip(graph.source, graph.target, strict=True)) == [(0, 1), (1, 2), (2, 3)]
    assert list(zip(graph.first, graph.second, strict=True)) == [(0, 1), (1, 2)]


def test_more_continuations_than_hits_are_all_kept():
    # every hit of a plane leads to every hit of the next: 30^3 triplets, all straight
    n = 30
    z = np.repeat(np.array([0, 25, 50], np.float32), n)
    x = np.linspace(0, 1e-3, 3 * n).astype(np.float32)
    pairs = [(p * n + i, (p + 1) * n + j) for p in range(2) for i in range(n) for j in range(n)]
    graph = straight_triplets(edges_between(3 * n, pairs), x, x, z, 0.02)
    assert (graph.n_edges, graph.n_triplets) == (2 * n * n, n**3)


def test_no_edges_or_hits_make_an_empty_graph():
    for n_hits in (0, 4):
        zero = np.zeros(n_hits, np.float32)
        graph = straight_triplets(edges_between(n_hits, []), zero, zero, zero, 0.02)
        assert (graph.n_edges, graph.n_triplets) == (0, 0)


def test_the_limit_widens_with_the_slope_and_narrows_away_from_the_beam():
    limit = np.array(
        [
            [kink_limit(np.float32(s), np.float32(i), np.float32(0.02)) for i in (0, 1, 5, 30)]
            for s in (0, 0.1, 1)
        ]
    )
    assert limit[0, 0] == pytest.approx(0.02)
    assert (np.diff(limit, axis=0) > 0).all()
    assert (np.diff(limit, axis=1) < 0).all()


@pytest.mark.parametrize("kink_max", [0.0, -1.0])
def test_a_limit_of_nothing_is_refused(kink_max):
    zero = np.zeros(1, np.float32)
    with pytest.raises(ValueError, match="kink_max"):
        straight_triplets(edges_between(1, []), zero, zero, zero, kink_max)
