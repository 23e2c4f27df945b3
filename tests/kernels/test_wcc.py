"""Components are exact on any graph, however long its chains."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egretta.kernels.wcc import connected_components


def reference(n_nodes, source, target):
    """SciPy's components, each named by its smallest node."""
    csgraph = pytest.importorskip("scipy.sparse.csgraph")
    from scipy.sparse import coo_array

    matrix = coo_array((np.ones(len(source)), (source, target)), shape=(n_nodes, n_nodes))
    _, label = csgraph.connected_components(matrix, directed=True, connection="weak")
    _, first = np.unique(label, return_index=True)
    return first[label]


@st.composite
def graphs(draw):
    n_nodes = draw(st.integers(1, 60))
    node = st.integers(0, n_nodes - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=80))
    pairs = np.array(edges, np.int32).reshape(-1, 2)
    return n_nodes, np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_components_are_those_of_scipy_named_by_their_smallest_node(graph):
    assert connected_components(*graph).tolist() == reference(*graph).tolist()


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), part=st.floats(0.2, 1.5))
def test_large_sparse_graphs(seed, part):
    rng = np.random.default_rng(seed)
    source, target = rng.integers(0, 5000, (2, int(5000 * part))).astype(np.int32)
    assert np.array_equal(connected_components(5000, source, target), reference(5000, source, target))


@pytest.mark.parametrize("order", ["ascending", "descending", "evens first", "shuffled"])
@pytest.mark.parametrize("numbering", ["along", "against", "shuffled"])
def test_a_chain_of_thousands_is_one_component_in_any_order(order, numbering):
    n, rng = 20_000, np.random.default_rng(2)
    names = {"along": np.arange(n), "against": np.arange(n)[::-1], "shuffled": rng.permutation(n)}[numbering]
    link = np.arange(n - 1)
    link = {
        "ascending": link,
        "descending": link[::-1],
        "evens first": np.concatenate((link[::2], link[1::2])),
        "shuffled": rng.permutation(link),
    }[order]
    source, target = names[link].astype(np.int32), names[link + 1].astype(np.int32)
    assert not connected_components(n, source, target).any()
    # with one link out, two components
    label = connected_components(n, source[1:], target[1:])
    assert np.array_equal(label, reference(n, source[1:], target[1:]))
    assert len(np.unique(label)) == 2


def test_without_edges_every_node_is_alone():
    none = np.zeros(0, np.int32)
    assert connected_components(5, none, none).tolist() == [0, 1, 2, 3, 4]
    assert connected_components(0, none, none).tolist() == []


def test_self_loops_and_repeated_edges_do_not_matter():
    source, target = np.array([3, 3, 1, 4, 3], np.int32), np.array([3, 1, 3, 4, 1], np.int32)
    assert connected_components(5, source, target).tolist() == [0, 1, 2, 1, 4]


@pytest.mark.parametrize(("source", "target"), [([0], [5]), ([-1], [0]), ([0, 1], [1])])
def test_edges_that_name_no_node_are_refused(source, target):
    with pytest.raises(ValueError, match=r"nodes outside|sources but"):
        connected_components(5, np.array(source, np.int32), np.array(target, np.int32))
