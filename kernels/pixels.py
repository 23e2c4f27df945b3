"""Between pixels, a sensor's local frame and the global one.

A sensor's local frame has x along its columns and y along its rows, both in mm, z across; a pixel's centre
lies at ``local_x[column]`` and ``(row + 0.5) * pitch``. The readout names a cluster by the pixel whose
centre is the last one at or below its mean in x and y, and a fraction of the step to the next centre. A
particle hits the pixel whose cell holds the point.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from egretta.kernels.batches import Int32
from egretta.kernels.geometry import N_COLUMNS, N_ROWS, PITCH_MM, PIXELS_PER_CHIP, VeloGeometry

Float64 = NDArray[np.float64]


def pixel_to_local(
    column: ArrayLike, row: ArrayLike, fx: ArrayLike, fy: ArrayLike, geometry: VeloGeometry
) -> tuple[Float64, Float64]:
    """Local x and y (float64, mm) of columns 0..767, rows 0..255 and fractions in [0, 1)."""
    column = np.asarray(column, dtype=np.int64)
    local_x = geometry.local_x[column].astype(np.float64)
    x = local_x + np.asarray(fx) * geometry.x_pitch[column].astype(np.float64)
    y = (np.asarray(row, dtype=np.float64) + np.asarray(fy) + 0.5) * PITCH_MM
    return x, y


def local_to_point(sensor: ArrayLike, x: ArrayLike, y: ArrayLike, geometry: VeloGeometry) -> Float64:
    """Global positions (float64, (n, 3), mm) of points in the planes of sensors 0..207."""
    sensor = np.asarray(sensor, dtype=np.int64)
    rotation = geometry.rotation[sensor].astype(np.float64)
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    points: Float64 = rotation[:, :, 0] * x[:, None] + rotation[:, :, 1] * y[:, None]
    points += geometry.translation[sensor]
    return points


def point_to_local(
    sensor: ArrayLike, points: ArrayLike, geometry: VeloGeometry
) -> tuple[Float64, Float64, Float64]:
    """Local x, y, z (float64, mm) of global ``points`` (n, 3); z is the distance from the sensor's plane."""
    sensor = np.asarray(sensor, dtype=np.int64)
    shifted = np.asarray(points, dtype=np.float64) - geometry.translation[sensor]
    # rotations are orthogonal: the inverse is the transpose
    local = np.einsum("nij,ni->nj", geometry.rotation[sensor].astype(np.float64), shifted)
    return local[:, 0], local[:, 1], local[:, 2]


def local_to_pixel(
    x: ArrayLike, y: ArrayLike, geometry: VeloGeometry
) -> tuple[Int32, Int32, NDArray[np.bool_]]:
    """The pixel whose cell holds a point: column, row (int32), and whether the point is on the sensor.

    Cells are one pitch long in x, but the two where chips meet, which are longer: their cells begin where
    their neighbours' end and meet half-way between their centres. Column and row of a point off the sensor
    are those of the nearest pixel.
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    centres = geometry.local_x.astype(np.float64)
    borders = (centres[1:] + centres[:-1]) / 2
    for edge in range(PIXELS_PER_CHIP, N_COLUMNS, PIXELS_PER_CHIP):
        borders[edge - 2] = centres[edge - 2] + PITCH_MM / 2
        borders[edge] = centres[edge + 1] - PITCH_MM / 2
    column = np.searchsorted(borders, x, side="right")
    row = np.floor(y / PITCH_MM)
    inside = (x >= centres[0] - PITCH_MM / 2) & (x < centres[-1] + PITCH_MM / 2) & (row >= 0) & (row < N_ROWS)
    return column.astype(np.int32), np.clip(row, 0, N_ROWS - 1).astype(np.int32), inside


def local_to_cluster(
    x: ArrayLike, y: ArrayLike, geometry: VeloGeometry
) -> tuple[Int32, Int32, Float64, Float64]:
    """The readout's name of a mean: column, row (int32) and fractions in [0, 1) towards the next centres.

    The inverse of `pixel_to_local`. Below the first centre and beyond the last, the fraction is 0.
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    column = np.clip(np.searchsorted(geometry.local_x.astype(np.float64), x, "right") - 1, 0, N_COLUMNS - 1)
    fx = (x - geometry.local_x[column]) / geometry.x_pitch[column].astype(np.float64)
    in_pitches = np.clip(y / PITCH_MM - 0.5, 0, N_ROWS - 1)
    row = np.floor(in_pitches)
    below_one = np.nextafter(1.0, 0.0)
    fx = np.where(column == N_COLUMNS - 1, 0.0, np.clip(fx, 0.0, below_one))
    return column.astype(np.int32), row.astype(np.int32), fx, in_pitches - row


def point_to_cluster(
    sensor: ArrayLike, points: ArrayLike, geometry: VeloGeometry
) -> tuple[Int32, Int32, Float64, Float64]:
    """`local_to_cluster` for global ``points`` (n, 3) in the planes of their sensors."""
    x, y, _ = point_to_local(sensor, points, geometry)
    return local_to_cluster(x, y, geometry)
