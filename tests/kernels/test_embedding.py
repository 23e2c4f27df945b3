"""The embedding's kernel computes what ONNX Runtime computes from the same file."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egretta.engines.models import shipped
from egretta.engines.opening import open_engine
from egretta.kernels.embedding import EmbeddingWeights, embed

# float32 sums taken in another order
TOLERANCE = {"atol": 1e-4, "rtol": 1e-4}


@pytest.fixture(scope="module")
def engines():
    return [open_engine(name, shipped("velo-embedding")) for name in ("fused", "onnxruntime")]


def positions(rng, n):
    return (rng.uniform(-1, 1, (n, 3)) * [50, 50, 800]).astype(np.float32)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.sampled_from([0, 1, 2, 100, 8191, 8192, 8193, 20_000]))
def test_queries_and_keys_are_those_of_onnx_runtime(engines, seed, n):
    position = positions(np.random.default_rng(seed), n)
    fused, onnxruntime = (engine.run({"position": position}) for engine in engines)
    for name in ("query", "key"):
        assert fused[name].dtype == np.float32
        assert fused[name].shape == onnxruntime[name].shape
        np.testing.assert_allclose(fused[name], onnxruntime[name], **TOLERANCE)


def test_a_hit_has_the_same_embedding_whatever_the_others(engines):
    position = positions(np.random.default_rng(1), 20_000)
    together = engines[0].run({"position": position})
    for rows in (slice(0, 1), slice(8000, 8400), slice(19_999, 20_000)):
        alone = engines[0].run({"position": position[rows]})
        for name in ("query", "key"):
            np.testing.assert_allclose(alone[name], together[name][rows], **TOLERANCE)


def test_turning_a_hit_about_the_beam_turns_its_first_two_coordinates(engines):
    position = positions(np.random.default_rng(2), 500)
    angle = 0.7
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]], np.float32)
    turned = position.copy()
    turned[:, :2] = position[:, :2] @ turn
    before, after = (engines[0].run({"position": p}) for p in (position, turned))
    for name in ("query", "key"):
        np.testing.assert_allclose(after[name][:, :2], before[name][:, :2] @ turn, atol=1e-3)
        np.testing.assert_allclose(after[name][:, 2:], before[name][:, 2:], atol=1e-3)


def test_a_hit_on_the_beam_line_has_a_finite_embedding(engines):
    outputs = engines[0].run({"position": np.zeros((1, 3), np.float32)})
    assert all(np.isfinite(values).all() for values in outputs.values())


def test_the_network_is_dense_layers_of_radius_z_and_inverse_radius():
    rng = np.random.default_rng(3)
    widths = [3, 6, 2 * (4 - 1)]
    layers = tuple(
        (rng.normal(size=pair).astype(np.float32), rng.normal(size=pair[1]).astype(np.float32))
        for pair in pairwise(widths)
    )
    position = positions(rng, 50)
    x, y, z = position.astype(float).T
    radius = np.sqrt(x * x + y * y + 1e-6)
    row = np.stack((radius / 20, z / 400, 5 / (radius + 5)), axis=1)
    (one, one_bias), (two, two_bias) = layers
    out = np.maximum(row @ one + one_bias, 0) @ two + two_bias
    query, key = embed(position, EmbeddingWeights(layers))
    assert EmbeddingWeights(layers).dimensions == 4
    for found, columns in ((query, out[:, :3]), (key, out[:, 3:])):
        wanted = np.stack(
            (columns[:, 0] * x / radius, columns[:, 0] * y / radius, columns[:, 1], columns[:, 2]), axis=1
        )
        np.testing.assert_allclose(found, wanted, atol=1e-4, rtol=1e-4)
