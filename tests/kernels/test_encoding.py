"""Encoded clusters and pixels come back from the decoder."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egretta.kernels.batches import HitBatch
from egretta.kernels.decoding import decode_banks
from egretta.kernels.encoding import clusters_of_hits, encode_retina, encode_superpixel, fraction_steps
from egretta.kernels.errors import CodeError
from egretta.kernels.geometry import VeloGeometry
from egretta.kernels.lhcb_id import velo_lhcb_id
from egretta.kernels.pixels import local_to_point, pixel_to_local

GEOMETRY = VeloGeometry.nominal()

clusters = st.tuples(
    st.integers(0, 207), st.integers(0, 767), st.integers(0, 255), st.integers(0, 7), st.integers(0, 7)
)
events_of_clusters = st.lists(st.lists(clusters, max_size=12), max_size=4)


def flat(events):
    offsets = np.cumsum([0, *map(len, events)], dtype=np.int64)
    rows = [cluster for event in events for cluster in event]
    return offsets, np.array(rows, dtype=np.int64).reshape(len(rows), 5).T


def same_hits(one: HitBatch, other: HitBatch) -> bool:
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("entry", "event", "offsets", "x", "y", "z", "module", "lhcb_id")
    )


@pytest.mark.parametrize("version", [2, 3, 4])
@given(events=events_of_clusters)
@settings(max_examples=60, deadline=None)
def test_retina_clusters_come_back(version, events):
    offsets, (sensor, column, row, fx, fy) = flat(events)
    steps = fraction_steps(version)
    fx, fy = fx % steps, fy % steps
    banks = encode_retina(offsets, sensor, column, row, fx / steps, fy / steps, version=version)
    hits, report = decode_banks(banks, GEOMETRY)
    # within a module, the order of the banks: by sensor, or by pair of sensors
    bank = sensor // 2 if version == 4 else sensor
    owner = np.repeat(np.arange(len(events)), np.diff(offsets))
    order = np.lexsort((np.arange(len(sensor)), bank, owner))
    assert not report.code.any()
    assert np.array_equal(hits.offsets, offsets)
    assert np.array_equal(hits.module, sensor[order] // 4)
    off = (fx > 0, fy > 0) if version > 2 else (0 * fx, 0 * fy)
    assert np.array_equal(hits.lhcb_id, velo_lhcb_id(sensor, column, row, *off)[order])
    points = local_to_point(sensor, *pixel_to_local(column, row, fx / steps, fy / steps, GEOMETRY), GEOMETRY)
    for got, expected in zip((hits.x, hits.y, hits.z), points[order].T, strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-4)


@pytest.mark.parametrize("version", [2, 3, 4])
@given(events=events_of_clusters)
@settings(max_examples=40, deadline=None)
def test_decoded_hits_encode_to_the_same_hits(version, events):
    offsets, (sensor, column, row, fx, fy) = flat(events)
    # beyond the last centre there is no next pixel to take a fraction towards
    column, row = np.minimum(column, 766), np.minimum(row, 254)
    steps = fraction_steps(version)
    banks = encode_retina(
        offsets, sensor, column, row, fx % steps / steps, fy % steps / steps, version=version
    )
    hits, _ = decode_banks(banks, GEOMETRY)
    again = encode_retina(hits.offsets, *clusters_of_hits(hits, GEOMETRY, version=version), version=version)
    assert same_hits(hits, decode_banks(again, GEOMETRY)[0])


@pytest.mark.parametrize("version", [2, 3, 4])
@given(events=events_of_clusters)
@settings(max_examples=40, deadline=None)
def test_every_version_of_superpixels_gives_the_same_clusters(version, events):
    offsets, (sensor, column, row, *_) = flat(events)
    hits, report = decode_banks(encode_superpixel(offsets, sensor, column, row, version=version), GEOMETRY)
    reference, _ = decode_banks(encode_superpixel(offsets, sensor, column, row, version=2), GEOMETRY)
    assert not report.code.any()
    assert np.array_equal(hits.offsets, reference.offsets)
    owner = np.repeat(np.arange(len(events)), np.diff(hits.offsets))
    # versions differ in the order of a pair's sensors at most
    one, other = (np.lexsort((batch.lhcb_id, owner)) for batch in (hits, reference))
    for name in ("x", "y", "z", "module", "lhcb_id"):
        assert np.array_equal(getattr(hits, name)[one], getattr(reference, name)[other])


def test_the_no_neighbour_flag_is_true():
    # (0, 0) and (3, 3) lie in neighbouring super-pixels though the pixels do not touch; (100, 100) is alone
    banks = encode_superpixel(np.array([0, 3]), [5, 5, 5], [0, 3, 100], [0, 3, 100])
    words = banks.words[banks.word_offsets[5] + 1 : banks.word_offsets[6]]
    assert (words >> 31).tolist() == [0, 0, 1]


def test_the_corner_pixel_is_not_lost():
    banks = encode_retina(np.array([0, 1]), [0], [0], [0], [0.0], [0.0])
    hits, _ = decode_banks(banks, GEOMETRY)
    assert hits.lhcb_id.tolist() == velo_lhcb_id([0], [0], [0]).tolist()


@pytest.mark.parametrize(
    ("sensor", "column", "row", "fx"),
    [(208, 0, 0, 0), (0, 768, 0, 0), (0, 0, 256, 0), (0, 0, 0, 1.0), (-1, 0, 0, 0)],
)
def test_values_out_of_range_are_refused(sensor, column, row, fx):
    with pytest.raises(CodeError, match="cannot encode"):
        encode_retina(np.array([0, 1]), [sensor], [column], [row], [fx], [0.0])
