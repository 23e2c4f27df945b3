"""Clusters or pixels to raw VELO banks: the inverse of `decoding`, for simulation and round-trip tests.

A bank is written for every sensor (versions 2 and 3) or pair of sensors (version 4) of an event, empty ones
included, as the detector does. Within a bank, clusters keep the order in which they are given.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from egretta.kernels.batches import BankBatch, HitBatch, Int32, Int64, UInt32
from egretta.kernels.clustering import COLUMNS_PER_SUPERPIXEL, ROWS_PER_SUPERPIXEL
from egretta.kernels.decoding import VP_RETINA_CLUSTER, VP_SUPERPIXEL
from egretta.kernels.errors import CodeError
from egretta.kernels.geometry import N_COLUMNS, N_ROWS, N_SENSORS, VeloGeometry
from egretta.kernels.lhcb_id import VELO_DETECTOR, split_lhcb_id
from egretta.kernels.pixels import point_to_cluster

VERSIONS = (2, 3, 4)
NO_NEIGHBOUR = 1 << 31
# Decoders skip a word of 0, which is what the corner pixel's centre would be; a bit that they mask saves it.
_NOT_ZERO = 1 << 31


def fraction_steps(version: int) -> int:
    """Steps into which a retina bank of a version divides the way from one pixel's centre to the next."""
    return 8 if version == 2 else 4


def encode_retina(
    offsets: Int64,
    sensor: ArrayLike,
    column: ArrayLike,
    row: ArrayLike,
    fx: ArrayLike,
    fy: ArrayLike,
    *,
    version: int = 3,
    entry: Int64 | None = None,
    event: Int64 | None = None,
) -> BankBatch:
    """VPRetinaCluster banks (type 73) of clusters.

    ``offsets`` (int64, n + 1) cuts the clusters into events; ``sensor`` 0..207, ``column`` 0..767 and
    ``row`` 0..255 are integers; ``fx`` and ``fy``, fractions in [0, 1), are cut down to quarters (version
    2: eighths). ``entry`` and ``event`` number the events, by default from 0.

    Raises CodeError for values out of range or an unknown version.
    """
    sensor, column, row = _checked(offsets, version, sensor, column, row)
    steps = fraction_steps(version)
    fractions = []
    for fraction in (np.asarray(fx, dtype=np.float64), np.asarray(fy, dtype=np.float64)):
        if fraction.shape != sensor.shape or not np.all((fraction >= 0) & (fraction < 1)):
            raise CodeError("cannot encode retina banks: a fraction a cluster is needed, in [0, 1)")
        fractions.append((fraction * steps).astype(np.int64))
    bits = steps.bit_length() - 1
    words = fractions[1] | (row << bits) | (fractions[0] << (bits + 8)) | (column << (2 * bits + 8))
    if version == 4:
        words |= (sensor & 1) << 22
    words[words == 0] = _NOT_ZERO
    return _pack(VP_RETINA_CLUSTER, version, offsets, _event_of(offsets), sensor, words, entry, event)


def encode_superpixel(
    offsets: Int64,
    sensor: ArrayLike,
    column: ArrayLike,
    row: ArrayLike,
    *,
    version: int = 2,
    entry: Int64 | None = None,
    event: Int64 | None = None,
) -> BankBatch:
    """VP super-pixel banks (type 63) of pixels that fired; a pixel given twice fires once.

    Parameters and errors as for `encode_retina`, a pixel an element. Super-pixels are written in ascending
    order of column and row, with the flag "no neighbour" where it is true.
    """
    sensor, column, row = _checked(offsets, version, sensor, column, row)
    source = _event_of(offsets) * N_SENSORS + sensor
    source, words = _superpixels(source, column, row, (len(offsets) - 1) * N_SENSORS)
    owner, sensor = np.divmod(source, N_SENSORS)
    if version == 4:
        words |= (sensor & 1) << 23
    return _pack(VP_SUPERPIXEL, version, offsets, owner, sensor, words, entry, event)


@njit(cache=True, nogil=True)
def _superpixels(source: Int64, column: Int64, row: Int64, n_sources: int) -> tuple[Int64, Int64]:
    """Source and word (int64) of every super-pixel; a source is an event's sensor, ``n_sources`` in all."""
    n = len(source)
    # pixels by source: a counting sort
    starts = np.zeros(n_sources + 1, np.int64)
    for i in range(n):
        starts[source[i] + 1] += 1
    for s in range(n_sources):
        starts[s + 1] += starts[s]
    order = np.empty(n, np.int64)
    ahead = starts[:-1].copy()
    for i in range(n):
        order[ahead[source[i]]] = i
        ahead[source[i]] += 1
    # the masks of one sensor, with an empty border, so that every super-pixel has eight neighbours
    width = N_ROWS // ROWS_PER_SUPERPIXEL + 2
    grid = np.zeros((N_COLUMNS // COLUMNS_PER_SUPERPIXEL + 2) * width, np.uint8)
    cells = np.empty(n, np.int64)
    sources = np.empty(n, np.int64)
    words = np.empty(n, np.int64)
    count = 0
    for s in range(n_sources):
        found = 0
        for k in range(starts[s], starts[s + 1]):
            c, r = column[order[k]], row[order[k]]
            cell = (c // COLUMNS_PER_SUPERPIXEL + 1) * width + r // ROWS_PER_SUPERPIXEL + 1
            if grid[cell] == 0:
                cells[found] = cell
                found += 1
            bit = ROWS_PER_SUPERPIXEL * (c % COLUMNS_PER_SUPERPIXEL) + r % ROWS_PER_SUPERPIXEL
            grid[cell] |= np.uint8(1 << bit)
        cells[:found].sort()
        for cell in cells[:found]:
            word = np.int64(grid[cell]) | ((cell % width - 1) << 8) | ((cell // width - 1) << 14)
            around = grid[cell - 1] | grid[cell + 1]
            for step in range(width - 1, width + 2):
                around |= grid[cell - step] | grid[cell + step]
            sources[count] = s
            words[count] = word | NO_NEIGHBOUR if around == 0 else word
            count += 1
        for cell in cells[:found]:
            grid[cell] = 0
    return sources[:count], words[:count]


def clusters_of_hits(
    hits: HitBatch, geometry: VeloGeometry, *, version: int = 3
) -> tuple[Int32, Int32, Int32, NDArray[np.float64], NDArray[np.float64]]:
    """What `encode_retina` needs of decoded hits: sensor, column, row (int32) and fractions (float64).

    The sensor is the LHCbID's; the pixel and the fractions, rounded to the version's steps, follow from the
    position, so that encoding and decoding a decoded hit gives it back.

    Raises CodeError for hits without LHCbIDs of the VELO.
    """
    if np.any(hits.lhcb_id >> np.uint32(28) != VELO_DETECTOR):
        raise CodeError("cannot encode hits without VELO LHCbIDs: their sensors are not known")
    sensor, _, _ = split_lhcb_id(hits.lhcb_id)
    points = np.stack([hits.x, hits.y, hits.z], axis=1)
    column, row, fx, fy = point_to_cluster(sensor, points, geometry)
    steps = fraction_steps(version)
    in_x, in_y = (np.rint(fraction * steps).astype(np.int32) for fraction in (fx, fy))
    # a fraction that rounds to 1 belongs to the next pixel
    return sensor, column + in_x // steps, row + in_y // steps, in_x % steps / steps, in_y % steps / steps


def _event_of(offsets: Int64) -> Int64:
    return np.repeat(np.arange(len(offsets) - 1, dtype=np.int64), np.diff(offsets))


def _checked(
    offsets: Int64, version: int, sensor: ArrayLike, column: ArrayLike, row: ArrayLike
) -> tuple[Int64, Int64, Int64]:
    if version not in VERSIONS:
        raise CodeError(f"cannot encode banks of version {version}: 2, 3 and 4 are known")
    n = int(offsets[-1]) if len(offsets) else 0
    if len(offsets) == 0 or offsets[0] != 0 or np.any(np.diff(offsets) < 0):
        raise CodeError("cannot encode banks: the events' offsets do not ascend from 0")
    arrays = []
    for name, values, end in (
        ("sensor", sensor, N_SENSORS),
        ("column", column, N_COLUMNS),
        ("row", row, N_ROWS),
    ):
        array = np.asarray(values, dtype=np.int64)
        if array.shape != (n,) or np.any((array < 0) | (array >= end)):
            raise CodeError(f"cannot encode banks: {n} values of {name} from 0 to {end - 1} are needed")
        arrays.append(array)
    return arrays[0], arrays[1], arrays[2]


def _pack(
    kind: int,
    version: int,
    offsets: Int64,
    owner: Int64,
    sensor: Int64,
    words: Int64,
    entry: Int64 | None,
    event: Int64 | None,
) -> BankBatch:
    """Sort words into the banks of their events and sensors; ``owner`` is the event of each word."""
    n_events = len(offsets) - 1
    sensors_per_bank, counts_ahead = (2, 0) if version == 4 else (1, 1)
    banks_per_event = N_SENSORS // sensors_per_bank
    bank = owner * banks_per_event + sensor // sensors_per_bank
    n_banks = n_events * banks_per_event
    word_offsets, out = _lay_out(bank, words, n_banks, counts_ahead)
    default = np.arange(n_events, dtype=np.int64)
    source = np.tile(np.arange(banks_per_event, dtype=np.int32), n_events)
    return BankBatch(
        default if entry is None else entry,
        default if event is None else event,
        banks_per_event * np.arange(n_events + 1, dtype=np.int64),
        np.full(n_banks, kind, dtype=np.int32),
        np.full(n_banks, version, dtype=np.int32),
        source,
        word_offsets,
        out,
    )


@njit(cache=True, nogil=True)
def _lay_out(bank: Int64, words: Int64, n_banks: int, ahead: int) -> tuple[Int64, UInt32]:
    """Offsets and words (uint32) of the banks, ``words`` in their order; ``ahead`` 1 puts a count first."""
    offsets = np.zeros(n_banks + 1, np.int64)
    for i in range(len(bank)):
        offsets[bank[i] + 1] += 1
    for b in range(n_banks):
        offsets[b + 1] += offsets[b] + ahead
    out = np.empty(offsets[n_banks], np.uint32)
    at = offsets[:-1] + ahead
    if ahead:
        for b in range(n_banks):
            out[offsets[b]] = offsets[b + 1] - at[b]
    for i in range(len(bank)):
        out[at[bank[i]]] = words[i]
        at[bank[i]] += 1
    return offsets, out
