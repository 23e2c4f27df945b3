"""Tracks are the heaviest paths, taken one after the other by the documented rules."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egretta.kernels.peeling import PeelingConfig, peel
from egretta.kernels.triplets import Graph
from egretta.kernels.wcc import connected_components


def graph_of(edges, triplets):
    """A graph of sorted (source, target) edges and (first hit, middle hit, last hit) triplets."""
    edges = sorted(set(edges))
    number = {edge: e for e, edge in enumerate(edges)}
    links = sorted((number[a, b], number[b, c]) for a, b, c in triplets)
    source, target = np.array(edges, np.int32).reshape(-1, 2).T
    first, second = np.array(links, np.int32).reshape(-1, 2).T
    return Graph(*(np.ascontiguousarray(a) for a in (source, target, first, second)))


def hits_of(graph, t):
    return (
        int(graph.source[graph.first[t]]),
        int(graph.target[graph.first[t]]),
        int(graph.target[graph.second[t]]),
    )


def components(graph, weight, n_hits):
    kept = np.flatnonzero(weight > 0)
    first, second = graph.first[kept], graph.second[kept]
    return connected_components(
        n_hits,
        np.concatenate((graph.source[first], graph.source[second])),
        np.concatenate((graph.target[first], graph.target[second])),
    )


def peeled(graph, weight, n_hits, config=None):
    """Paths as lists of hits."""
    weight = np.asarray(weight, np.float32)
    paths = peel(graph, weight, components(graph, weight, n_hits), config or PeelingConfig())
    assert paths.offsets[0] == 0
    assert len(paths.hit) == paths.offsets[-1]
    return [p.tolist() for p in np.split(paths.hit, paths.offsets[1:-1])] if len(paths) else []


def chain(*hits):
    """Edges and triplets of one path."""
    edges = list(pairwise(hits))
    return edges, list(zip(hits[:-2], hits[1:-1], hits[2:], strict=True))


def tracks_graph(*chains):
    edges, triplets = [], set()
    for hits in chains:
        more_edges, more_triplets = chain(*hits)
        edges += more_edges
        triplets.update(more_triplets)
    return graph_of(edges, triplets)


@st.composite
def weighted_graphs(draw):
    """Small graphs of several components, weights without ties, a third of them not to be used."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_hits = draw(st.integers(3, 20))
    pairs = np.sort(rng.integers(0, n_hits, (draw(st.sampled_from([0, 3, 20, 40])), 2)), axis=1)
    edges = sorted({(int(i), int(j)) for i, j in pairs if 0 < j - i <= 6})
    triplets = [(a, b, d) for a, b in edges for c, d in edges if b == c and rng.random() < 0.8]
    in_triplet = {(a, b) for a, b, _ in triplets} | {(b, c) for _, b, c in triplets}
    graph = graph_of(sorted(in_triplet), triplets)
    weight = rng.uniform(-2, 4, graph.n_triplets).astype(np.float32)
    return graph, weight, n_hits


CONFIGS = st.builds(
    PeelingConfig,
    reuse_penalty=st.sampled_from([0.0, 1.3, 4.0]),
    min_shared_weight=st.sampled_from([0.0, 0.7, 2.2]),
)


def all_paths(graph, alive):
    """Every path through living triplets, as lists of triplets."""
    following = {t: [u for u in alive if graph.first[u] == graph.second[t]] for t in alive}
    paths = [[t] for t in alive]
    for path in paths:
        paths.extend([*path, u] for u in following[path[-1]])
    return paths


def reference(graph, weight, n_hits, component, config):
    """The rules of the kernel's description, by looking at every path."""
    used, taken = set(), []
    label = [int(component[graph.source[e]]) for e in graph.first]
    for wanted in sorted(set(label)):
        alive = [t for t in range(graph.n_triplets) if label[t] == wanted and weight[t] > 0]
        while alive:

            def hits(path):
                return [*hits_of(graph, path[0]), *(hits_of(graph, t)[2] for t in path[1:])]

            def value(path):
                weights = sum(float(weight[t]) for t in path)
                return weights - config.reuse_penalty * sum(h in used for h in hits(path))

            best = max(all_paths(graph, alive), key=value)
            alive = [t for t in alive if t not in best]
            fresh = sum(h not in used for h in hits(best))
            mean = sum(float(weight[t]) for t in best) / len(best)
            if fresh >= 3 or (fresh == 2 and mean >= config.min_shared_weight):
                taken.append((hits(best), best))
                used.update(hits(best))
                # three used hits in a row lead to no new track
                alive = [t for t in alive if not used.issuperset(hits_of(graph, t))]
    return taken


@settings(max_examples=120, deadline=None)
@given(weighted_graphs(), CONFIGS)
def test_tracks_are_the_heaviest_paths_one_after_the_other(weighted, config):
    graph, weight, n_hits = weighted
    component = components(graph, weight, n_hits)
    paths = peel(graph, weight, component, config)
    expected = reference(graph, weight, n_hits, component, config)
    assert paths.offsets.tolist() == np.cumsum([0, *(len(hits) for hits, _ in expected)]).tolist()
    assert paths.hit.tolist() == [h for hits, _ in expected for h in hits]
    assert paths.triplet.tolist() == [t for _, triplets in expected for t in triplets]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), config=CONFIGS)
def test_large_graphs_keep_the_rules_of_a_track(seed, config):
    rng = np.random.default_rng(seed)
    n_hits = 300
    pairs = np.sort(rng.integers(0, n_hits, (900, 2)), axis=1)
    edges = sorted({(int(i), int(j)) for i, j in pairs if 0 < j - i <= 40})
    by_source = {}
    for a, b in edges:
        by_source.setdefault(a, []).append(b)
    triplets = [(a, b, c) for a, b in edges for c in by_source.get(b, ())]
    graph = graph_of(edges, triplets)
    # few values, so that ties come up; negative ones are not to be used
    weight = rng.integers(-3, 4, graph.n_triplets).astype(np.float32)
    component = components(graph, weight, n_hits)
    paths = peel(graph, weight, component, config)
    used, last = set(), -1
    for p in range(len(paths)):
        hits = paths.hit[paths.offsets[p] : paths.offsets[p + 1]].tolist()
        triplets = paths.triplet[paths.offsets[p] - 2 * p : paths.offsets[p + 1] - 2 * (p + 1)]
        assert len(hits) >= 3
        assert hits == sorted(set(hits))
        assert [hits_of(graph, t) for t in triplets] == list(
            zip(hits[:-2], hits[1:-1], hits[2:], strict=True)
        )
        assert (weight[triplets] > 0).all()
        fresh = len(set(hits) - used)
        assert fresh >= 3 or (fresh == 2 and weight[triplets].mean() >= config.min_shared_weight - 1e-5)
        assert len(set(component[hits])) == 1
        assert component[hits[0]] >= last
        last = component[hits[0]]
        used.update(hits)
    assert len(paths) > 0


def test_one_clean_track_is_taken_whole():
    graph = tracks_graph(range(12))
    assert peeled(graph, np.ones(10), 12) == [list(range(12))]


def test_a_track_of_a_thousand_hits_is_taken_whole():
    graph = tracks_graph(range(3000))
    assert peeled(graph, np.ones(2998), 3000) == [list(range(3000))]


def test_two_tracks_that_cross_in_a_hit_both_keep_it():
    graph = tracks_graph([0, 2, 4, 6, 8], [1, 3, 4, 7, 9])
    assert sorted(peeled(graph, np.full(graph.n_triplets, 3.0), 10)) == [[0, 2, 4, 6, 8], [1, 3, 4, 7, 9]]


@pytest.mark.parametrize(("weight", "second_found"), [(3.0, True), (0.5, False)])
def test_a_pair_that_shares_its_first_hits_needs_heavy_triplets(weight, second_found):
    # as of a conversion: the second track has but two hits of its own
    graph = tracks_graph([0, 1, 2, 3, 5, 7], [0, 1, 2, 4, 6])
    weights = [
        5.0 if 5 in hits_of(graph, t) or 7 in hits_of(graph, t) else weight for t in range(graph.n_triplets)
    ]
    tracks = peeled(graph, weights, 8, PeelingConfig(reuse_penalty=0.1, min_shared_weight=0.7))
    assert tracks[0] == [0, 1, 2, 3, 5, 7]
    assert ([2, 4, 6] in [t[-3:] for t in tracks]) == second_found
    assert len(tracks) == 1 + second_found


def test_a_branch_with_one_hit_of_its_own_is_no_track():
    graph = tracks_graph([0, 1, 2, 3], [0, 1, 2, 4])
    assert len(peeled(graph, np.full(graph.n_triplets, 9.0), 5)) == 1


def test_a_tie_gives_one_track_and_the_same_each_time():
    graph = tracks_graph([0, 1, 2], [0, 1, 3])
    first = peeled(graph, [2.0, 2.0], 4)
    assert len(first) == 1
    assert first == peeled(graph, [2.0, 2.0], 4)


def test_triplets_without_weight_cut_a_track():
    graph = tracks_graph(range(9))
    assert peeled(graph, [1, 1, 1, 0, 0, 1, 1], 9) == [[0, 1, 2, 3, 4], [5, 6, 7, 8]]
    assert peeled(graph, [-1.0] * 7, 9) == []


def test_a_graph_of_nothing_gives_no_tracks():
    graph = graph_of([], [])
    assert peeled(graph, [], 0) == []
    assert peeled(graph, [], 5) == []
