"""Clusters of touching pixels out of super-pixels, by flood fill over 2 x 4 masks instead of pixels.

A super-pixel is 2 columns by 4 rows of pixels, one bit each (bit k: row k % 4, column k // 4). A cluster is
an 8-connected group of pixels, within and across super-pixels of a sensor. Two facts make it fast: eight
pixels in 2 x 4 form at most two groups, so tables of 256 entries split a mask; and which pixels of a
neighbour touch a mask is a table too, so that the fill advances by whole masks.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from egretta.kernels.geometry import N_COLUMNS, N_ROWS

COLUMNS_PER_SUPERPIXEL = 2
ROWS_PER_SUPERPIXEL = 4
N_SUPERPIXEL_COLUMNS = N_COLUMNS // COLUMNS_PER_SUPERPIXEL
N_SUPERPIXEL_ROWS = N_ROWS // ROWS_PER_SUPERPIXEL

# The grid of a sensor has an empty border, so that no neighbour needs a check of range.
GRID_STRIDE = N_SUPERPIXEL_ROWS + 2
GRID_SIZE = (N_SUPERPIXEL_COLUMNS + 2) * GRID_STRIDE

_STEPS = [(dc, dr) for dc in (-1, 0, 1) for dr in (-1, 0, 1) if dc or dr]


def _pixels(mask: int) -> list[tuple[int, int]]:
    return [(bit // 4, bit % 4) for bit in range(8) if mask >> bit & 1]


def _touching(mask: int, candidates: int, shift: tuple[int, int] = (0, 0)) -> int:
    """Bits of ``candidates``, moved by ``shift`` pixels (columns, rows), that touch a pixel of ``mask``."""
    found = 0
    for column, row in _pixels(candidates):
        at = (column + shift[0], row + shift[1])
        if any(abs(at[0] - c) <= 1 and abs(at[1] - r) <= 1 for c, r in _pixels(mask)):
            found |= 1 << (4 * column + row)
    return found


def _first_group(mask: int) -> int:
    group = mask & -mask
    while (grown := group | _touching(group, mask)) != group:
        group = grown
    return group


def _table(values: list[int]) -> NDArray[np.uint8]:
    table = np.array(values, dtype=np.uint8)
    table.setflags(write=False)
    return table


FIRST_GROUP = _table([_first_group(mask) for mask in range(256)])
N_PIXELS = _table([mask.bit_count() for mask in range(256)])
N_IN_SECOND_COLUMN = _table([(mask >> 4).bit_count() for mask in range(256)])
SUM_OF_ROWS = _table([sum(row for _, row in _pixels(mask)) for mask in range(256)])
REACH = np.stack(
    [_table([_touching(mask, 255, (2 * dc, 4 * dr)) for mask in range(256)]) for dc, dr in _STEPS]
)
STEP = np.array([dc * GRID_STRIDE + dr for dc, dr in _STEPS], dtype=np.int64)


@njit(cache=True, nogil=True)
def take_cluster(grid, seed, stack_at, stack_mask, local_x):  # type: ignore[no-untyped-def]
    """Take the cluster that holds the lowest pixel of the super-pixel at ``seed`` out of the grid.

    ``grid`` (uint8) holds a sensor's masks at ``(column + 1) * GRID_STRIDE + row + 1``, several sensors' one
    after another, each GRID_SIZE long; it is not 0 at ``seed``; the cluster's pixels are cleared. The stacks
    need two places a super-pixel. Returns the number of pixels, the sums of their columns and rows, and the
    sum of ``local_x`` (mm) over their columns.
    """
    mask = FIRST_GROUP[grid[seed]]
    grid[seed] ^= mask
    stack_at[0] = seed
    stack_mask[0] = mask
    depth = 1
    n_pixels = np.int64(0)
    sum_column = np.int64(0)
    sum_row = np.int64(0)
    sum_x = 0.0
    while depth > 0:
        depth -= 1
        at = stack_at[depth]
        mask = stack_mask[depth]
        grid_column = at // GRID_STRIDE
        row = 4 * (at - grid_column * GRID_STRIDE - 1)
        column = 2 * (grid_column % (N_SUPERPIXEL_COLUMNS + 2) - 1)
        n = np.int64(N_PIXELS[mask])
        n_second = np.int64(N_IN_SECOND_COLUMN[mask])
        n_pixels += n
        sum_column += n * column + n_second
        sum_row += n * row + np.int64(SUM_OF_ROWS[mask])
        sum_x += (n - n_second) * np.float64(local_x[column]) + n_second * np.float64(local_x[column + 1])
        for direction in range(8):
            neighbour = at + STEP[direction]
            present = grid[neighbour]
            if present == 0:
                continue
            touched = REACH[direction, mask]
            # at most two groups: the first, and the rest
            group = FIRST_GROUP[present]
            rest = present ^ group
            if group & touched:
                grid[neighbour] ^= group
                stack_at[depth] = neighbour
                stack_mask[depth] = group
                depth += 1
            if rest & touched:
                grid[neighbour] ^= rest
                stack_at[depth] = neighbour
                stack_mask[depth] = rest
                depth += 1
    return n_pixels, sum_column, sum_row, sum_x
