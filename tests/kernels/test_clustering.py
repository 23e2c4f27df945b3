"""Clusters out of super-pixels agree with SciPy's labels of the same pixels."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import ndimage

from egretta.kernels.clustering import FIRST_GROUP, N_PIXELS
from egretta.kernels.decoding import decode_banks
from egretta.kernels.encoding import encode_superpixel
from egretta.kernels.geometry import PITCH_MM, VeloGeometry
from egretta.kernels.lhcb_id import velo_lhcb_id
from egretta.kernels.pixels import local_to_point

GEOMETRY = VeloGeometry.nominal()


def reference(pixels, sensor):
    """LHCbIDs and positions of the 8-connected groups of a map bool[768, 256], sorted by ID and position."""
    labels, n = ndimage.label(pixels, structure=np.ones((3, 3)))
    column, row = np.nonzero(pixels)
    label = labels[column, row] - 1
    size = np.bincount(label, minlength=n)
    local_x = GEOMETRY.local_x[column].astype(np.float64)
    sums = [np.bincount(label, values, minlength=n) for values in (column, row, local_x)]
    whole = [(sums[axis] // size).astype(np.int64) for axis in (0, 1)]
    off = [4 * (sums[axis] - whole[axis] * size) >= size for axis in (0, 1)]
    sensors = np.full(n, sensor)
    points = local_to_point(sensors, sums[2] / size, (sums[1] / size + 0.5) * PITCH_MM, GEOMETRY)
    return sorted(zip(velo_lhcb_id(sensors, *whole, *off).tolist(), *points.T, strict=True))


def decoded(pixels, sensor, version=2):
    column, row = np.nonzero(pixels)
    offsets = np.array([0, len(column)], dtype=np.int64)
    banks = encode_superpixel(offsets, np.full(len(column), sensor), column, row, version=version)
    hits, report = decode_banks(banks, GEOMETRY, "superpixel")
    assert not report.code.any()
    return sorted(zip(hits.lhcb_id.tolist(), hits.x, hits.y, hits.z, strict=True))


def assert_agree(pixels, sensor, version=2):
    got, expected = decoded(pixels, sensor, version), reference(pixels, sensor)
    assert [hit[0] for hit in got] == [hit[0] for hit in expected]
    np.testing.assert_allclose(np.array(got)[:, 1:], np.array(expected)[:, 1:], atol=1e-4) if got else None


@given(
    patch=hnp.arrays(np.bool_, st.tuples(st.integers(1, 14), st.integers(1, 14))),
    # edges of the sensor and of its chips, and the inside
    column=st.sampled_from([0, 1, 249, 250, 505, 400, 754]),
    row=st.sampled_from([0, 1, 2, 3, 100, 242]),
    sensor=st.integers(0, 207),
    version=st.sampled_from([2, 3, 4]),
)
@settings(max_examples=150, deadline=None)
def test_random_maps_cluster_as_scipy_labels_them(patch, column, row, sensor, version):
    pixels = np.zeros((768, 256), dtype=np.bool_)
    pixels[column : column + patch.shape[0], row : row + patch.shape[1]] = patch
    assert_agree(pixels, sensor, version)


def test_sparse_and_dense_whole_sensors_cluster_as_scipy_labels_them():
    random = np.random.default_rng(5)
    for density in (0.0, 0.002, 0.2):
        assert_agree(random.random((768, 256)) < density, 17)


def test_a_full_sensor_is_one_cluster():
    assert len(decoded(np.ones((768, 256), dtype=np.bool_), 3)) == 1


def test_a_snake_through_the_sensor_is_one_cluster():
    pixels = np.zeros((768, 256), dtype=np.bool_)
    pixels[::2] = True
    pixels[1::4, 0] = True
    pixels[3::4, 255] = True
    assert_agree(pixels, 200)
    assert len(decoded(pixels, 200)) == 1


def test_a_cluster_of_one_pixel_lies_at_its_centre():
    pixels = np.zeros((768, 256), dtype=np.bool_)
    pixels[255, 7] = True
    [(lhcb_id, *point)] = decoded(pixels, 9)
    assert lhcb_id == velo_lhcb_id(9, 255, 7)
    expected = local_to_point([9], [GEOMETRY.local_x[255]], [7.5 * PITCH_MM], GEOMETRY)[0]
    np.testing.assert_allclose(point, expected, atol=1e-5)


def test_no_mask_of_a_superpixel_has_more_than_two_groups():
    masks = np.arange(256)
    rest = masks ^ FIRST_GROUP
    assert np.array_equal(FIRST_GROUP[rest], rest)
    assert np.array_equal(N_PIXELS, [bin(mask).count("1") for mask in masks])
