"""From crossings to clusters: every crossing leaves one, near where it was; close ones share it."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from egretta.jobs.simulation.digitise import Clusters, digitise
from egretta.jobs.simulation.propagation import SENSOR_X_MM, SENSOR_Y_MM, Crossings
from egretta.kernels.geometry import N_SENSORS, PITCH_MM, VeloGeometry
from egretta.kernels.pixels import local_to_pixel, pixel_to_local

slope = st.floats(-3, 3)
crossing = st.tuples(
    st.integers(0, N_SENSORS - 1),
    st.floats(0.001, SENSOR_X_MM - 0.001),
    st.floats(0.001, SENSOR_Y_MM - 0.001),
    slope,
    slope,
)


def crossings_of(rows: list[tuple[int, float, float, float, float]]) -> Crossings:
    sensor, x, y, tx, ty = (np.array(column) for column in zip(*rows, strict=True))
    particle = np.arange(len(rows), dtype=np.int32)
    x, y, tx, ty = (values.astype(np.float64) for values in (x, y, tx, ty))
    return Crossings(particle, sensor.astype(np.int32), x, y, tx, ty, np.ones(len(rows), np.int32))


def positions(clusters: Clusters) -> tuple[np.ndarray, np.ndarray]:
    column, row = clusters.column_quarters, clusters.row_quarters
    return pixel_to_local(column >> 2, row >> 2, (column & 3) / 4, (row & 3) / 4, VeloGeometry.nominal())


@settings(deadline=None, max_examples=60)
@given(st.lists(crossing, min_size=1, max_size=30))
def test_every_crossing_has_one_cluster_and_every_cluster_its_pixels(
    rows: list[tuple[int, float, float, float, float]],
) -> None:
    crossings = crossings_of(rows)
    event = (np.arange(len(rows)) % 3).astype(np.int32)
    pixels, clusters = digitise(crossings, event)
    np.testing.assert_array_equal(clusters.owner_particle, np.arange(len(rows)))
    np.testing.assert_array_equal(clusters.sensor[clusters.owner_cluster], crossings.sensor)
    np.testing.assert_array_equal(clusters.event[clusters.owner_cluster], event)
    assert len(clusters.sensor) <= len(rows) <= len(pixels.row)
    order = np.lexsort((pixels.row, pixels.column, pixels.sensor, pixels.event))
    np.testing.assert_array_equal(order, np.arange(len(pixels.row)))
    key = clusters.event.astype(np.int64) * N_SENSORS + clusters.sensor
    assert np.all(np.diff(key) >= 0)


@settings(deadline=None, max_examples=100)
@given(crossing)
def test_a_lone_cluster_lies_where_the_particle_crossed(
    row: tuple[int, float, float, float, float],
) -> None:
    _, clusters = digitise(crossings_of([row]), np.zeros(1, dtype=np.int32))
    x, y = positions(clusters)
    # pixels where two chips meet are 2.5 times as long; steep paths may leave the sensor at its rim
    reach = 0.2 * np.abs(row[3:]) / 2 if _near_rim(row) else np.zeros(2)
    assert abs(x[0] - row[1]) < 1.4 * PITCH_MM * 2.5 + reach[0]
    assert abs(y[0] - row[2]) < 0.9 * PITCH_MM + reach[1]


def _to_border(at_mm: float) -> float:
    """Pitches to the nearest multiple of half a pitch: borders of cells lie on these only."""
    halves = 2 * at_mm / PITCH_MM
    return abs(halves - round(halves)) / 2


def _near_rim(row: tuple[int, float, float, float, float]) -> bool:
    return min(row[1], SENSOR_X_MM - row[1]) < 0.4 or min(row[2], SENSOR_Y_MM - row[2]) < 0.4


# where the chips meet, columns 255 and 256, 511 and 512 are 2.5 pitches long
chip_edge = st.tuples(st.sampled_from([257.5, 516.5]), st.floats(-6, 6)).map(lambda at: sum(at) * PITCH_MM)


@settings(deadline=None, max_examples=200)
@given(st.floats(0.001, SENSOR_X_MM - 0.001) | chip_edge, st.floats(0.001, SENSOR_Y_MM - 0.001))
def test_the_pixel_of_a_perpendicular_crossing_fires(x: float, y: float) -> None:
    pixels, _ = digitise(crossings_of([(7, x, y, 0.0, 0.0)]), np.zeros(1, dtype=np.int32))
    column, row, inside = local_to_pixel([x], [y], VeloGeometry.nominal())
    assert inside[0]
    # on a border, the two may round to either side
    assume(min(_to_border(x), _to_border(y)) > 1e-5)
    assert (column[0], row[0]) in set(zip(pixels.column.tolist(), pixels.row.tolist(), strict=True))
    assert len(pixels.row) <= 4


def test_two_particles_in_touching_pixels_share_a_cluster_and_farther_ones_do_not() -> None:
    centre = 100.5 * PITCH_MM
    rows = [
        (3, centre, centre, 0.0, 0.0),
        (3, centre + PITCH_MM, centre + PITCH_MM, 0.0, 0.0),
        (3, centre + 4 * PITCH_MM, centre, 0.0, 0.0),
        (4, centre, centre, 0.0, 0.0),
    ]
    _, clusters = digitise(crossings_of(rows), np.zeros(4, dtype=np.int32))
    assert clusters.owner_cluster.tolist() == [0, 0, 1, 2]


def test_the_same_place_in_two_events_makes_two_clusters() -> None:
    rows = [(3, 5.0, 5.0, 0.1, 0.0)] * 2
    _, clusters = digitise(crossings_of(rows), np.array([0, 1], dtype=np.int32))
    assert clusters.owner_cluster.tolist() == [0, 1]
    assert clusters.event.tolist() == [0, 1]


@pytest.mark.parametrize("steep", [0.0, 0.5, 2.0])
def test_steeper_tracks_light_longer_clusters(steep: float) -> None:
    rng = np.random.default_rng(1)
    rows = [(i % N_SENSORS, *rng.uniform(3, 10, 2), steep, 0.0) for i in range(N_SENSORS)]
    pixels, clusters = digitise(crossings_of(rows), np.zeros(N_SENSORS, dtype=np.int32))
    expected = 1 + 0.2 * steep / PITCH_MM
    assert len(pixels.row) / len(clusters.sensor) == pytest.approx(expected, abs=0.5)
