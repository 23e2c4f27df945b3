"""Clusters or pixels to raw VELO banks: the inverse of `decoding`, for simulation and round-trip tests.

A bank is written for every sensor (versions 2 and 3) or pair of sensors (version 4) of an event, empty ones
included, as the detector does. Within a bank, clusters keep the order in which they are given.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from egretta.kernels.batches import BankBatch, HitBatch, Int32, Int64
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
    owner = _event_of(offsets)
    # a grid with an empty border, so that a step to a neighbour never lands in another column or sensor
    width = N_ROWS // ROWS_PER_SUPERPIXEL + 2
    height = N_COLUMNS // COLUMNS_PER_SUPERPIXEL + 2
    cell = (column // COLUMNS_PER_SUPERPIXEL + 1) * width + row // ROWS_PER_SUPERPIXEL + 1
    key = (owner * N_SENSORS + sensor) * (width * height) + cell
    bit = 1 << (ROWS_PER_SUPERPIXEL * (column % COLUMNS_PER_SUPERPIXEL) + row % ROWS_PER_SUPERPIXEL)
    order = np.argsort(key, kind="stable")
    keys, first = np.unique(key[order], return_index=True)
    masks = np.bitwise_or.reduceat(bit[order], first) if len(keys) else np.zeros(0, dtype=np.int64)
    lonely = np.ones(len(keys), dtype=np.bool_)
    for step in (1, width - 1, width, width + 1):
        there = np.minimum(np.searchsorted(keys, keys + step), max(len(keys) - 1, 0))
        pairs = np.flatnonzero(keys[there] == keys + step)
        lonely[pairs] = False
        lonely[there[pairs]] = False
    source, cell = np.divmod(keys, width * height)
    superpixel_column, superpixel_row = cell // width - 1, cell % width - 1
    words = masks | (superpixel_row << 8) | (superpixel_column << 14) | np.where(lonely, NO_NEIGHBOUR, 0)
    owner, sensor = np.divmod(source, N_SENSORS)
    if version == 4:
        words |= (sensor & 1) << 23
    return _pack(VP_SUPERPIXEL, version, offsets, owner, sensor, words, entry, event)


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
    count = np.bincount(bank, minlength=n_banks)
    word_offsets = np.zeros(n_banks + 1, dtype=np.int64)
    np.cumsum(count + counts_ahead, out=word_offsets[1:])
    out = np.zeros(int(word_offsets[-1]), dtype=np.uint32)
    if counts_ahead:
        out[word_offsets[:-1]] = count
    order = np.argsort(bank, kind="stable")
    ahead = counts_ahead * (bank[order] + 1)
    out[np.arange(len(words)) + ahead] = words[order]
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
