"""The VELO's nominal geometry: 26 stations of two modules, four sensors a module, three chips a sensor.

Positions follow the LHCb upgrade VELO: no field, modules perpendicular to the beam (z), sensors turned by
45 degrees about it, one module of a station on either side. All lengths are in mm.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from egretta.kernels.batches import Float32
from egretta.kernels.errors import CorruptInputError, MissingInputError

N_MODULES = 52
N_STATIONS = N_MODULES // 2
SENSORS_PER_MODULE = 4
N_SENSORS = N_MODULES * SENSORS_PER_MODULE
CHIPS_PER_SENSOR = 3
PIXELS_PER_CHIP = 256
N_COLUMNS = CHIPS_PER_SENSOR * PIXELS_PER_CHIP
N_ROWS = PIXELS_PER_CHIP
PITCH_MM = 0.055

# Sensors 0 and 3 sit upstream of their module's plane, 1 and 2 downstream.
_SENSOR_DZ_MM = (-0.581, 0.581, 0.581, -0.581)
# Origin of each sensor's local frame on modules of odd number; even ones are turned by 180 degrees.
_SENSOR_ORIGIN_MM = (
    (-12.932983, 40.0576),
    (26.339727, 20.541452),
    (9.956063, -17.168552),
    (49.935883, 3.0547013),
)
# Directions of the local axes (x, y, z) of each sensor on odd modules, in units of 1/sqrt(2) for x and y.
_SENSOR_AXES = (
    ((1, -1), (-1, -1), -1),
    ((-1, 1), (-1, -1), 1),
    ((1, 1), (-1, 1), 1),
    ((-1, -1), (-1, 1), -1),
)


def _module_z_mm() -> Float32:
    upstream = [-287.5 + 12.5 * i for i in range(8)] + [-137.5, -125.0]
    central = [-62.5 + 12.5 * i for i in range(28)]
    downstream = [312.5, 325.0, 387.5, 400.0, 487.5, 500.0, 587.5, 600.0]
    last = [637.5, 650.0, 687.5, 700.0, 737.5, 750.0]
    return np.array(upstream + central + downstream + last, dtype=np.float32)


def _column_pitch_mm() -> Float32:
    pitch = np.full(N_COLUMNS, PITCH_MM, dtype=np.float32)
    for edge in (PIXELS_PER_CHIP, 2 * PIXELS_PER_CHIP):
        # pixels are longer where two chips meet; the step from one chip's last to the next one's first is 2.5
        pitch[edge - 2 : edge + 1] = (1.75 * PITCH_MM, 2.5 * PITCH_MM, 1.75 * PITCH_MM)
    return pitch


@dataclass(frozen=True, slots=True)
class VeloGeometry:
    """What turns a pixel into a point.

    ``module_z`` float32[52]; ``local_x`` float32[768], centre of each pixel column along the sensor;
    ``x_pitch`` float32[768], step from a column's centre to the next; ``rotation`` float32[208, 3, 3] and
    ``translation`` float32[208, 3] take a sensor's local frame to the global one. All in mm.
    """

    module_z: Float32
    local_x: Float32
    x_pitch: Float32
    rotation: Float32
    translation: Float32

    @staticmethod
    @cache
    def nominal() -> VeloGeometry:
        """The design geometry, computed from the constants above."""
        module_z = _module_z_mm()
        pitch = _column_pitch_mm()
        local_x = np.empty(N_COLUMNS, dtype=np.float32)
        local_x[0] = PITCH_MM / 2
        local_x[1:] = PITCH_MM / 2 + np.cumsum(pitch[:-1], dtype=np.float64)
        rotation = np.zeros((N_MODULES, SENSORS_PER_MODULE, 3, 3), dtype=np.float32)
        translation = np.zeros((N_MODULES, SENSORS_PER_MODULE, 3), dtype=np.float32)
        side = np.where(np.arange(N_MODULES) % 2 == 1, 1.0, -1.0)
        for sensor in range(SENSORS_PER_MODULE):
            axis_x, axis_y, axis_z = _SENSOR_AXES[sensor]
            for row in range(2):
                rotation[:, sensor, row, 0] = side * axis_x[row] / np.sqrt(2)
                rotation[:, sensor, row, 1] = side * axis_y[row] / np.sqrt(2)
                translation[:, sensor, row] = side * _SENSOR_ORIGIN_MM[sensor][row]
            rotation[:, sensor, 2, 2] = axis_z
            translation[:, sensor, 2] = module_z + np.float32(_SENSOR_DZ_MM[sensor])
        return VeloGeometry(
            module_z,
            local_x,
            pitch,
            rotation.reshape(N_SENSORS, 3, 3),
            translation.reshape(N_SENSORS, 3),
        )

    @staticmethod
    def load(path: str | Path) -> VeloGeometry:
        """Read a geometry from LHCb's little-endian binary dump (counts as u64, values as f32)."""
        path = Path(path)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise MissingInputError(
                f"cannot read the VELO geometry {path}: {error.strerror}",
                hint="leave out `geometry` to use the nominal one, or give the path of an existing file",
            ) from error
        expected = 8 + 4 * N_MODULES + 2 * (8 + 4 * N_COLUMNS) + 16 + 48 * N_SENSORS
        counts_at = {0: N_MODULES, 8 + 4 * N_MODULES: N_COLUMNS}
        if len(data) != expected or any(
            struct.unpack_from("<Q", data, at)[0] != count for at, count in counts_at.items()
        ):
            raise CorruptInputError(
                f"{path} is not a VELO geometry of {expected} bytes: {len(data)} bytes, or wrong counts",
                hint="give the binary geometry dump of an LHCb upgrade VELO",
            )
        at = 8
        module_z = np.frombuffer(data, "<f4", N_MODULES, at).copy()
        at += 4 * N_MODULES + 8
        local_x = np.frombuffer(data, "<f4", N_COLUMNS, at).copy()
        at += 4 * N_COLUMNS + 8
        x_pitch = np.frombuffer(data, "<f4", N_COLUMNS, at).copy()
        at += 4 * N_COLUMNS + 16
        sensors = np.frombuffer(data, "<f4", 12 * N_SENSORS, at).reshape(N_SENSORS, 12)
        rotation = np.ascontiguousarray(sensors[:, :9]).reshape(N_SENSORS, 3, 3)
        return VeloGeometry(module_z, local_x, x_pitch, rotation, np.ascontiguousarray(sensors[:, 9:]))
