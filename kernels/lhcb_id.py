"""The LHCbID of a VELO cluster: one 32-bit number that names its sensor and pixel for ever.

Bits, from the top: 28-31 detector (2 is the VELO), 27 and 26 whether the cluster lies off the centre of its
pixel in x (column) and y (row), 18-25 sensor, 16-17 chip, 8-15 column within the chip, 0-7 row.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from egretta.kernels.batches import Int32, UInt32

VELO_DETECTOR = 2


@njit(cache=True, nogil=True, inline="always")
def pack_lhcb_id(sensor, column, row, off_x, off_y):  # type: ignore[no-untyped-def]
    """The ID from int64 scalars, for kernels; ``off_x`` and ``off_y`` are 0 or 1."""
    return (
        (VELO_DETECTOR << 28)
        | (off_x << 27)
        | (off_y << 26)
        | (sensor << 18)
        | ((column >> 8) << 16)
        | ((column & 0xFF) << 8)
        | row
    )


def velo_lhcb_id(
    sensor: ArrayLike, column: ArrayLike, row: ArrayLike, off_x: ArrayLike = 0, off_y: ArrayLike = 0
) -> UInt32:
    """IDs (uint32) of clusters in sensors 0..207, columns 0..767, rows 0..255; arrays broadcast."""
    parts = [np.asarray(part, dtype=np.uint32) for part in (sensor, column, row, off_x, off_y)]
    s, c, r, ox, oy = parts
    ids: NDArray[np.uint32] = (
        np.uint32(VELO_DETECTOR << 28)
        | (ox << np.uint32(27))
        | (oy << np.uint32(26))
        | (s << np.uint32(18))
        | ((c >> np.uint32(8)) << np.uint32(16))
        | ((c & np.uint32(0xFF)) << np.uint32(8))
        | r
    )
    return ids


def split_lhcb_id(lhcb_id: UInt32) -> tuple[Int32, Int32, Int32]:
    """Sensor, column (0..767 along the sensor) and row, int32, of VELO IDs (uint32)."""
    value = np.asarray(lhcb_id, dtype=np.uint32).astype(np.int64)
    column = ((value >> 16) & 3) * 256 + ((value >> 8) & 0xFF)
    return (
        ((value >> 18) & 0xFF).astype(np.int32),
        column.astype(np.int32),
        (value & 0xFF).astype(np.int32),
    )
