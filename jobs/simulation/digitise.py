"""From crossings to pixels to hits.

A crossing lights the pixels along its path through the silicon, widened a little by diffusion. Pixels that
touch (eight neighbours) make one cluster, whosever they are, and its position is their mean, in quarters of a
pixel as VPRetinaCluster banks hold it. So clusters shared by close tracks come about by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from egretta.jobs.simulation import config
from egretta.jobs.simulation.particles import Int32
from egretta.jobs.simulation.propagation import Crossings
from egretta.kernels.geometry import N_COLUMNS, N_ROWS, N_SENSORS, PITCH_MM, PIXELS_PER_CHIP

Int64 = NDArray[np.int64]

# Fired pixels as one sortable number: event and sensor, column, row, particle (0: noise, else its index + 1).
_ROW_BITS, _COLUMN_BITS, _PARTICLE_BITS = 8, 10, 24
_PARTICLE_MASK = (1 << _PARTICLE_BITS) - 1


@dataclass(frozen=True, slots=True)
class Pixels:
    """Fired pixels of ``n`` events, sorted by event, sensor, column, row; each once.

    ``event`` (within the block), ``sensor``, ``column`` and ``row`` are int64.
    """

    event: Int64
    sensor: Int64
    column: Int64
    row: Int64


@dataclass(frozen=True, slots=True)
class Clusters:
    """Clusters sorted by event and sensor, within a sensor by their first pixel.

    ``event``, ``sensor`` int32; ``column_quarters``, ``row_quarters`` int32, the position in quarters of a
    pixel; ``owner_cluster`` (int64) and ``owner_particle`` (int32): which particle lit pixels of which
    cluster, each pair once, sorted by particle and cluster.
    """

    event: Int32
    sensor: Int32
    column_quarters: Int32
    row_quarters: Int32
    owner_cluster: Int64
    owner_particle: Int32


@njit(cache=True, nogil=True)
def _column_coordinate(x_mm: float) -> float:
    """Local x as a pixel coordinate whose integer part is the column; columns at chip edges are 2.5 wide."""
    at = x_mm / PITCH_MM
    column = 0.0
    for _ in range(2):
        if at < PIXELS_PER_CHIP - 1:
            return column + at
        if at < PIXELS_PER_CHIP + 4:
            return column + PIXELS_PER_CHIP - 1 + (at - PIXELS_PER_CHIP + 1) / 2.5
        # behind the gap the next chip begins with the wide column that was passed already
        at -= PIXELS_PER_CHIP + 3
        column += PIXELS_PER_CHIP
    return column + at


@njit(cache=True, nogil=True)
def _light(
    base: Int64,
    particle: Int64,
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    tx: NDArray[np.float64],
    ty: NDArray[np.float64],
    thickness_pixels: float,
    diffusion: float,
    threshold: float,
) -> Int64:
    n = len(base)
    keys = np.empty(6 * n + 64, np.int64)
    count = 0
    for i in range(n):
        u, v = _column_coordinate(x[i]), y[i] / PITCH_MM
        du = max(0.5 * abs(tx[i]) * thickness_pixels - threshold, 0.0) + diffusion
        dv = max(0.5 * abs(ty[i]) * thickness_pixels - threshold, 0.0) + diffusion
        du, dv = min(du, 40.0), min(dv, 40.0)
        if tx[i] < 0.0:
            du = -du
        if ty[i] < 0.0:
            dv = -dv
        # an even number, so that the crossing itself, which is on the sensor, is among them
        steps = 2 + 2 * int(4.0 * max(abs(du), abs(dv)))
        if int(u - du) == int(u + du) and int(v - dv) == int(v + dv) and u > 1.0 and v > 1.0:
            # most crossings stay in one pixel
            steps = 1
        last = np.int64(-1)
        for k in range(steps + 1):
            at = 2.0 * k / steps - 1.0
            column, row = int(np.floor(u + at * du)), int(np.floor(v + at * dv))
            if not (0 <= column < N_COLUMNS and 0 <= row < N_ROWS):
                continue
            key = (base[i] * 1024 + column) * 256 + row
            if key == last:
                continue
            last = key
            if count == len(keys):
                bigger = np.empty(2 * count, np.int64)
                bigger[:count] = keys
                keys = bigger
            keys[count] = (key << _PARTICLE_BITS) | particle[i]
            count += 1
    return keys[:count]


@njit(cache=True, nogil=True)
def _root(parent: Int64, i: int) -> int:
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@njit(cache=True, nogil=True)
def _cluster(pixel: Int64) -> tuple[Int64, int]:
    """Cluster of each sorted, unique pixel; clusters are numbered by their first pixel."""
    n = len(pixel)
    parent = np.arange(n)
    window = 0
    for i in range(n):
        sensor, column, row = pixel[i] >> 18, (pixel[i] >> 8) & 1023, pixel[i] & 255
        # only this column and the one before can touch
        while (pixel[window] >> 18) != sensor or ((pixel[window] >> 8) & 1023) < column - 1:
            window += 1
        for j in range(window, i):
            if abs((pixel[j] & 255) - row) <= 1:
                a, b = _root(parent, j), _root(parent, i)
                if a < b:
                    parent[b] = a
                elif b < a:
                    parent[a] = b
    label = np.empty(n, np.int64)
    count = 0
    for i in range(n):
        root = _root(parent, i)
        if root == i:
            label[i] = count
            count += 1
        else:
            label[i] = label[root]
    return label, count


@njit(cache=True, nogil=True)
def _means(pixel: Int64, label: Int64, count: int) -> tuple[Int64, Int32, Int32]:
    """Sensor key and mean position, in quarters of a pixel and rounded, of each cluster."""
    where = np.empty(count, np.int64)
    columns = np.zeros(count, np.int64)
    rows = np.zeros(count, np.int64)
    sizes = np.zeros(count, np.int64)
    for i in range(len(pixel)):
        c = label[i]
        where[c] = pixel[i] >> 18
        columns[c] += (pixel[i] >> 8) & 1023
        rows[c] += pixel[i] & 255
        sizes[c] += 1
    column_quarters = np.empty(count, np.int32)
    row_quarters = np.empty(count, np.int32)
    for c in range(count):
        column_quarters[c] = (8 * columns[c] + sizes[c]) // (2 * sizes[c])
        row_quarters[c] = (8 * rows[c] + sizes[c]) // (2 * sizes[c])
    return where, column_quarters, row_quarters


def noise(rng: np.random.Generator, n_events: int) -> Int64:
    """Keys of single pixels that fire by themselves."""
    event = np.repeat(np.arange(n_events, dtype=np.int64), rng.poisson(config.NOISE_HITS, n_events))
    sensor = rng.integers(0, N_SENSORS, len(event))
    column = rng.integers(0, N_COLUMNS, len(event))
    row = rng.integers(0, N_ROWS, len(event))
    key = ((event * N_SENSORS + sensor) << (_COLUMN_BITS + _ROW_BITS)) | (column << _ROW_BITS) | row
    return key << _PARTICLE_BITS


def digitise(crossings: Crossings, event: Int32, noise_keys: Int64 | None = None) -> tuple[Pixels, Clusters]:
    """Pixels and clusters of crossings. ``event`` (int32) is the event of each particle, below 10,000."""
    base = event[crossings.particle].astype(np.int64) * N_SENSORS + crossings.sensor
    keys = _light(
        base,
        crossings.particle.astype(np.int64) + 1,
        crossings.x,
        crossings.y,
        crossings.tx,
        crossings.ty,
        config.SENSOR_THICKNESS_MM / PITCH_MM,
        config.DIFFUSION_PIXELS,
        config.THRESHOLD_PIXELS,
    )
    if noise_keys is not None:
        keys = np.concatenate((keys, noise_keys))
    keys = np.sort(keys)
    shared = keys >> _PARTICLE_BITS
    first = np.ones(len(keys), dtype=np.bool_)
    first[1:] = shared[1:] != shared[:-1]
    pixel = shared[first]
    label, count = _cluster(pixel)
    where, column_quarters, row_quarters = _means(pixel, label, count)
    owner = keys & _PARTICLE_MASK
    real = owner > 0
    cluster_of_key = label[np.cumsum(first) - 1]
    pairs = _unique((owner[real] << 32) | cluster_of_key[real])
    pixels = Pixels(
        (pixel >> 18) // N_SENSORS,
        (pixel >> 18) % N_SENSORS,
        (pixel >> _ROW_BITS) & ((1 << _COLUMN_BITS) - 1),
        pixel & ((1 << _ROW_BITS) - 1),
    )
    clusters = Clusters(
        (where // N_SENSORS).astype(np.int32),
        (where % N_SENSORS).astype(np.int32),
        column_quarters,
        row_quarters,
        pairs & 0xFFFFFFFF,
        ((pairs >> 32) - 1).astype(np.int32),
    )
    return pixels, clusters


def _unique(values: Int64) -> Any:
    values = np.sort(values)
    keep = np.ones(len(values), dtype=np.bool_)
    keep[1:] = values[1:] != values[:-1]
    return values[keep]
