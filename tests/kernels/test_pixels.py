"""Pixels, local points and global points turn into each other without loss."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from egretta.kernels.geometry import PITCH_MM, VeloGeometry
from egretta.kernels.lhcb_id import split_lhcb_id, velo_lhcb_id
from egretta.kernels.pixels import (
    local_to_cluster,
    local_to_pixel,
    local_to_point,
    pixel_to_local,
    point_to_cluster,
    point_to_local,
)

GEOMETRY = VeloGeometry.nominal()
sensors, columns, rows = st.integers(0, 207), st.integers(0, 767), st.integers(0, 255)
fractions = st.floats(0.01, 0.99)


@given(sensors, columns, rows)
def test_lhcb_ids_split_into_what_they_were_made_of(sensor, column, row):
    for off in ((0, 0), (0, 1), (1, 0), (1, 1)):
        lhcb_id = velo_lhcb_id([sensor], [column], [row], *off)
        assert lhcb_id.dtype == np.uint32
        assert lhcb_id[0] >> 26 == 2 << 2 | off[0] << 1 | off[1]
        assert [int(part[0]) for part in split_lhcb_id(lhcb_id)] == [sensor, column, row]


@given(sensors, st.integers(0, 766), st.integers(0, 254), fractions, fractions)
@settings(deadline=None)
def test_clusters_survive_the_way_to_global_points_and_back(sensor, column, row, fx, fy):
    x, y = pixel_to_local([column], [row], [fx], [fy], GEOMETRY)
    points = local_to_point([sensor], x, y, GEOMETRY)
    back = point_to_local([sensor], points, GEOMETRY)
    np.testing.assert_allclose(np.ravel(back), [x[0], y[0], 0.0], atol=1e-5)
    got = point_to_cluster([sensor], points, GEOMETRY)
    assert (int(got[0][0]), int(got[1][0])) == (column, row)
    np.testing.assert_allclose([got[2][0], got[3][0]], [fx, fy], atol=1e-3)


@given(columns, rows)
def test_a_pixels_centre_lies_in_its_cell(column, row):
    x, y = pixel_to_local([column], [row], [0], [0], GEOMETRY)
    got_column, got_row, inside = local_to_pixel(x, y, GEOMETRY)
    assert (int(got_column[0]), int(got_row[0]), bool(inside[0])) == (column, row, True)


def test_the_cells_where_chips_meet_are_as_long_as_their_pixels():
    # in pitches from the sensor's edge: chip 0 ends behind a pixel of 2.5, chip 1 begins with another
    borders = np.array([254, 255, 257.5, 260, 261, 513, 514, 516.5, 519, 520]) * PITCH_MM
    before, _, _ = local_to_pixel(borders - 1e-4, np.ones(10), GEOMETRY)
    behind, _, _ = local_to_pixel(borders + 1e-4, np.ones(10), GEOMETRY)
    assert before.tolist() == [253, 254, 255, 256, 257, 509, 510, 511, 512, 513]
    assert behind.tolist() == [column + 1 for column in before]


def test_points_off_the_sensor_are_told():
    edge_x, edge_y = GEOMETRY.local_x[-1] + 0.6 * PITCH_MM, 256.1 * PITCH_MM
    x, y = [-0.01, 1.0, edge_x, 1.0, 1.0], [1.0, -0.01, 1.0, edge_y, 1.0]
    column, row, inside = local_to_pixel(x, y, GEOMETRY)
    assert inside.tolist() == [False, False, False, False, True]
    assert np.all((column >= 0) & (column < 768) & (row >= 0) & (row < 256))
    column, row, fx, fy = local_to_cluster(x, y, GEOMETRY)
    assert np.all((column >= 0) & (column < 768) & (row >= 0) & (row < 256))
    assert np.all((fx >= 0) & (fx < 1) & (fy >= 0) & (fy < 1))
