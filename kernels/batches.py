"""Batches: many events at once as flat arrays and offsets, the form of all data on its way.

Event ``e`` of a batch owns the elements ``offsets[e]`` to ``offsets[e + 1]`` of each flat array.
``entry`` is the event's position in its input file (what the ledger counts); ``event`` is the number
that the experiment gave it (what an analyst looks for).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float32 = NDArray[np.float32]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt32 = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class BankBatch:
    """Raw banks of ``n`` events.

    ``bank_offsets`` (int64, n + 1) cuts the banks into events, ``word_offsets`` (int64, banks + 1) the
    words (uint32) into banks. ``bank_type``, ``bank_version`` and ``bank_source`` are int32, one a bank.
    """

    entry: Int64
    event: Int64
    bank_offsets: Int64
    bank_type: Int32
    bank_version: Int32
    bank_source: Int32
    word_offsets: Int64
    words: UInt32

    @property
    def n_events(self) -> int:
        """Number of events, empty ones included."""
        return len(self.entry)


@dataclass(frozen=True, slots=True)
class HitBatch:
    """Hits of ``n`` events, within an event in ascending order of module.

    ``offsets`` is int64, n + 1. ``x``, ``y``, ``z`` are float32 in mm; ``module`` is int32, 0 to 51;
    ``lhcb_id`` is uint32, 0 where the input does not hold it.
    """

    entry: Int64
    event: Int64
    offsets: Int64
    x: Float32
    y: Float32
    z: Float32
    module: Int32
    lhcb_id: UInt32

    @property
    def n_events(self) -> int:
        """Number of events, empty ones included."""
        return len(self.entry)

    @property
    def n_hits(self) -> int:
        """Number of hits in the whole batch."""
        return len(self.x)


@dataclass(frozen=True, slots=True)
class TrackBatch:
    """Straight tracks of ``n`` events.

    ``offsets`` (int64, n + 1) cuts the tracks into events, ``hit_offsets`` (int64, tracks + 1) the hits
    into tracks. The state is taken at the track's first hit (lowest z): ``x``, ``y``, ``z`` in mm and the
    slopes ``tx = dx/dz``, ``ty = dy/dz``, float32. ``chi2`` (float32) is the line fit's, for
    ``2 * hits - 4`` degrees of freedom. ``hit_index`` (int32) counts within the event, in the order of
    its HitBatch; ``lhcb_id`` (uint32) names the same hits.
    """

    entry: Int64
    event: Int64
    offsets: Int64
    x: Float32
    y: Float32
    z: Float32
    tx: Float32
    ty: Float32
    chi2: Float32
    hit_offsets: Int64
    hit_index: Int32
    lhcb_id: UInt32

    @property
    def n_events(self) -> int:
        """Number of events, empty ones included."""
        return len(self.entry)

    @property
    def n_tracks(self) -> int:
        """Number of tracks in the whole batch."""
        return len(self.x)
