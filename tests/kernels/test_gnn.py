"""The graph network's kernel computes what ONNX Runtime computes from the same file.

Sums are taken in another order: float32 logits agree within 1e-3 or a part in 10,000, whichever is larger. An
edge whose gate logit is zero within that may be open in one and closed in the other, and then all that it
meets differs: triplets are compared in the events where every gate is decided.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egretta.engines.models import shipped
from egretta.engines.opening import open_engine
from egretta.kernels.geometry import VeloGeometry

MODULE_Z = VeloGeometry.nominal().module_z
TOLERANCE = {"atol": 1e-3, "rtol": 1e-4}


@pytest.fixture(scope="module")
def engines():
    return [open_engine(name, shipped("velo-gnn")) for name in ("fused", "onnxruntime")]


def random_graph(rng, n_hits, n_edges, straight):
    """One event: hits in order of module, edges sorted by source and target, triplets by first edge."""
    module = np.sort(rng.integers(0, 52, n_hits))
    z = MODULE_Z[module]
    x, y = rng.normal(0, 10, (2, n_hits))
    if straight:
        # kinks as small as those of real triplets
        x, y = (0.2 * z + rng.normal(0, 0.1, n_hits) for _ in range(2))
    pairs = np.unique(np.sort(rng.integers(0, max(n_hits, 1), (n_edges if n_hits else 0, 2)), axis=1), axis=0)
    source, target = pairs[module[pairs[:, 0]] < module[pairs[:, 1]]].T
    link = target[:, None] == source[None]
    first, second = np.nonzero(link & (rng.random(link.shape) < 0.7))
    return {
        "position": np.stack((x, y, z), axis=1).astype(np.float32),
        **{
            name: np.ascontiguousarray(index, dtype=np.int32)
            for name, index in (("source", source), ("target", target), ("first", first), ("second", second))
        },
    }


def joined(graphs):
    """Events as one batch."""
    hits = edges = 0
    parts = []
    for g in graphs:
        parts.append(
            {
                "position": g["position"],
                "source": g["source"] + np.int32(hits),
                "target": g["target"] + np.int32(hits),
                "first": g["first"] + np.int32(edges),
                "second": g["second"] + np.int32(edges),
            }
        )
        hits, edges = hits + len(g["position"]), edges + len(g["source"])
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def is_decided(graphs, gate_logit):
    """For each triplet of joined events whether all gates of its event are decided."""
    parts = np.split(gate_logit, np.cumsum([len(g["source"]) for g in graphs])[:-1])
    decided = [bool((np.abs(part) > 2 * TOLERANCE["atol"]).all()) for part in parts]
    return np.repeat(decided, [len(g["first"]) for g in graphs])


def assert_close(one, two, graphs):
    for name in ("gate_logit", "triplet_logit"):
        assert one[name].dtype == np.float32
        assert one[name].shape == two[name].shape
    np.testing.assert_allclose(one["gate_logit"], two["gate_logit"], **TOLERANCE)
    decided = is_decided(graphs, two["gate_logit"])
    np.testing.assert_allclose(one["triplet_logit"][decided], two["triplet_logit"][decided], **TOLERANCE)
    return decided


SIZES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 200)), min_size=1, max_size=4)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), sizes=SIZES, straight=st.booleans())
def test_logits_are_those_of_onnx_runtime(engines, seed, sizes, straight):
    rng = np.random.default_rng(seed)
    graphs = [random_graph(rng, *size, straight) for size in sizes]
    fused, onnxruntime = (engine.run(joined(graphs)) for engine in engines)
    assert_close(fused, onnxruntime, graphs)


def test_logits_are_those_of_onnx_runtime_over_several_blocks(engines):
    # blocks end between events once they hold some thousand edges: here are several, and one of two hits
    rng = np.random.default_rng(4)
    sizes = [(400, 3000), (2, 1), (500, 6000), (0, 0), (300, 2500), (300, 3000)]
    graphs = [random_graph(rng, *size, straight=True) for size in sizes]
    graph = joined(graphs)
    assert len(graph["source"]) > 3 * 4096
    fused, onnxruntime = (engine.run(graph) for engine in engines)
    assert assert_close(fused, onnxruntime, graphs).sum() > 1000


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), sizes=SIZES)
def test_an_event_has_the_same_logits_alone_and_in_a_batch(engines, seed, sizes):
    rng = np.random.default_rng(seed)
    graphs = [random_graph(rng, *size, straight=True) for size in sizes]
    fused = engines[0]
    alone = [fused.run(g) for g in graphs]
    assert_close(
        fused.run(joined(graphs)), {n: np.concatenate([a[n] for a in alone]) for n in alone[0]}, graphs
    )


def test_hits_that_no_edge_reaches_do_not_matter(engines):
    rng = np.random.default_rng(6)
    graph = random_graph(rng, 50, 150, straight=True)
    extra = rng.normal(0, 10, (20, 3)).astype(np.float32)
    shifted = {
        **graph,
        "position": np.concatenate((extra, graph["position"], extra)),
        "source": graph["source"] + np.int32(20),
        "target": graph["target"] + np.int32(20),
    }
    assert_close(engines[0].run(shifted), engines[0].run(graph), [graph])


def test_logits_do_not_change_when_the_detector_is_turned(engines):
    graph = random_graph(np.random.default_rng(7), 60, 200, straight=True)
    angle = np.float32(1.1)
    turn = np.array(
        [[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]], np.float32
    )
    turned = engines[0].run({**graph, "position": np.ascontiguousarray(graph["position"] @ turn)})
    straight = engines[0].run(graph)
    for name in turned:
        # rounding of the turned positions is a hundredth of a micron: some 1e-3 in a kink's logarithm
        np.testing.assert_allclose(turned[name], straight[name], atol=0.05, rtol=1e-2)


@pytest.mark.parametrize(("n_hits", "n_edges"), [(0, 0), (5, 0)])
def test_a_graph_without_edges_has_no_logits(engines, n_hits, n_edges):
    graph = random_graph(np.random.default_rng(0), n_hits, n_edges, straight=True)
    for engine in engines:
        outputs = engine.run(graph)
        assert [len(outputs[name]) for name in ("gate_logit", "triplet_logit")] == [0, 0]


def test_edges_without_triplets_get_logits(engines):
    graph = {
        "position": np.array([[1, 2, 0], [2, 3, 25], [9, 9, 0], [9, 9.5, 12.5]], np.float32),
        "source": np.array([0, 2], np.int32),
        "target": np.array([1, 3], np.int32),
        "first": np.zeros(0, np.int32),
        "second": np.zeros(0, np.int32),
    }
    fused, onnxruntime = (engine.run(graph) for engine in engines)
    assert fused["gate_logit"].shape == (2,)
    assert_close(fused, onnxruntime, [graph])
