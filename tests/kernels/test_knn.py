"""Neighbours are those of a brute-force search, in any event and any batch."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egretta.kernels.geometry import N_MODULES
from egretta.kernels.knn import N_GAPS, nearest_neighbours

# as many as the shipped model's, whose compiled search is used again
DIMENSIONS = 5
SEEDS = st.integers(0, 2**32 - 1)
# Halves: distances are exact in float32, so that ties and distances of exactly d_max come up.
REACHES = st.sampled_from([-1.0, 0.0, 1.0, 2.0, 2.5, 100.0])


def random_hits(rng, sizes, modules):
    """Offsets, modules, queries and keys of events with these numbers of hits in some modules."""
    offsets = np.cumsum([0, *sizes], dtype=np.int64)
    module = np.concatenate([np.sort(rng.choice(modules, n)) for n in sizes] or [[]]).astype(np.int32)
    query, key = ((rng.integers(-3, 4, (offsets[-1], DIMENSIONS)) / 2).astype(np.float32) for _ in range(2))
    return offsets, module, query, key


def brute_force(offsets, module, query, key, d_max, k):
    """Targets of each hit, every pair looked at."""
    neighbours = []
    for begin, end in pairwise(offsets):
        others = np.arange(begin, end)
        for i in range(begin, end):
            gap = module[others] // 2 - module[i] // 2
            distance2 = np.sum((key[others].astype(float) - query[i].astype(float)) ** 2, axis=1)
            reach = np.asarray(d_max, dtype=float)[np.clip(gap, 0, N_GAPS - 1)]
            near = (module[others] > module[i]) & (gap < N_GAPS) & (reach >= 0) & (distance2 <= reach**2)
            nearest = sorted(zip(distance2[near], others[near], strict=True))[:k]
            neighbours.append(sorted(int(target) for _, target in nearest))
    return neighbours


def as_lists(edges):
    assert (
        edges.source.tolist() == np.repeat(np.arange(len(edges.offsets) - 1), np.diff(edges.offsets)).tolist()
    )
    assert len(edges) == len(edges.source) == edges.offsets[-1]
    return [t.tolist() for t in np.split(edges.target, edges.offsets[1:-1])] if len(edges.offsets) > 1 else []


@settings(max_examples=60, deadline=None)
@given(
    seed=SEEDS,
    sizes=st.lists(st.integers(0, 60), max_size=4),
    modules=st.lists(st.integers(0, N_MODULES - 1), min_size=1, max_size=12),
    d_max=st.tuples(REACHES, REACHES, REACHES),
    k=st.integers(1, 8),
)
def test_neighbours_are_the_nearest_of_all_pairs(seed, sizes, modules, d_max, k):
    hits = random_hits(np.random.default_rng(seed), sizes, modules)
    d_max = np.array(d_max, np.float32)
    assert as_lists(nearest_neighbours(*hits, d_max, k)) == brute_force(*hits, d_max, k)


@settings(max_examples=6, deadline=None)
@given(seed=SEEDS, k=st.sampled_from([1, 5, 1024]))
def test_neighbours_are_the_nearest_in_crowded_modules_too(seed, k):
    # an event of some hundred hits a module between two thin ones
    hits = random_hits(np.random.default_rng(seed), [7, 1000, 30], [3, 4, 5, 8, 50, 51])
    d_max = np.array([1.0, 2.5, 1.5], np.float32)
    assert as_lists(nearest_neighbours(*hits, d_max, k)) == brute_force(*hits, d_max, k)


@pytest.mark.parametrize("per_module", [20, 300])
def test_keys_anywhere_within_reach_are_found(per_module):
    rng = np.random.default_rng(11)
    module = np.repeat(np.arange(8, dtype=np.int32), per_module)
    offsets = np.array([0, len(module)])
    query, key = rng.normal(0, 1, (2, len(module), DIMENSIONS)).astype(np.float32)
    d_max = np.array([1.2, 1.4, 1.6], np.float32)
    edges = nearest_neighbours(offsets, module, query, key, d_max, len(module))
    found = np.zeros((len(module), len(module)), bool)
    found[edges.source, edges.target] = True
    gap = module[None] // 2 - module[:, None] // 2
    allowed = (module[None] > module[:, None]) & (gap < N_GAPS)
    distance = np.linalg.norm(query[:, None].astype(float) - key[None].astype(float), axis=2)
    ratio = distance / d_max.astype(float)[np.clip(gap, 0, N_GAPS - 1)]
    assert found[allowed & (ratio < 1 - 1e-5)].all()
    assert not found[~allowed | (ratio > 1 + 1e-5)].any()
    assert len(edges) > 100


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS, sizes=st.lists(st.sampled_from([0, 1, 5, 40, 300]), min_size=1, max_size=5))
def test_an_event_has_the_same_neighbours_alone_and_in_a_batch(seed, sizes):
    offsets, module, query, key = random_hits(np.random.default_rng(seed), sizes, [10, 11, 12])
    d_max = np.array([2.0, 1.5, 1.0], np.float32)
    together = as_lists(nearest_neighbours(offsets, module, query, key, d_max, 4))
    for begin, end in pairwise(offsets):
        rows = slice(begin, end)
        alone = nearest_neighbours(np.array([0, end - begin]), module[rows], query[rows], key[rows], d_max, 4)
        assert [[begin + t for t in targets] for targets in as_lists(alone)] == together[rows]


def test_of_equally_near_hits_those_of_smaller_index_are_kept():
    module = np.array([0] + [2] * 300, np.int32)
    same = np.zeros((301, DIMENSIONS), np.float32)
    edges = nearest_neighbours(np.array([0, 301]), module, same, same, np.ones(3, np.float32), 3)
    assert as_lists(edges)[0] == [1, 2, 3]


def test_the_other_module_of_a_station_is_searched_downstream_only_and_the_third_station_not():
    module = np.array([2, 3, 4, 5, 6, 7, 8, 9], np.int32)
    same = np.zeros((8, DIMENSIONS), np.float32)
    edges = nearest_neighbours(np.array([0, 8]), module, same, same, np.ones(3, np.float32), 9)
    assert as_lists(edges)[:3] == [[1, 2, 3, 4, 5], [2, 3, 4, 5], [3, 4, 5, 6, 7]]


def test_a_negative_distance_shuts_its_gap_alone():
    module = np.array([0, 1, 2, 4], np.int32)
    same = np.zeros((4, DIMENSIONS), np.float32)
    for gap, kept in ((0, [2, 3]), (1, [1, 3]), (2, [1, 2])):
        d_max = np.ones(3, np.float32)
        d_max[gap] = -1
        edges = nearest_neighbours(np.array([0, 4]), module, same, same, d_max, 9)
        assert as_lists(edges)[0] == kept


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"query": np.zeros((3, 2), np.float32)}, "query"),
        ({"key": np.zeros((4, 2), np.float32)}, "key"),
        ({"module": np.zeros(3, np.int32)}, "must both be"),
        ({"d_max": np.zeros(2, np.float32)}, "d_max"),
        ({"k": 0}, "k must be at least 1"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(change, said):
    zero = np.zeros((4, DIMENSIONS), np.float32)
    arguments = {
        "hit_offsets": np.array([0, 4]),
        "module": np.zeros(4, np.int32),
        "query": zero,
        "key": zero,
        "d_max": np.ones(3, np.float32),
        "k": 5,
    }
    with pytest.raises(ValueError, match=said):
        nearest_neighbours(**(arguments | change))
