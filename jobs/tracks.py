"""Batches of tracks put together and taken apart."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egretta.kernels.batches import Int64, TrackBatch

STATE = ("x", "y", "z", "tx", "ty", "chi2")
"""The fields of a TrackBatch that hold one float32 a track."""


def offsets_of(lengths: Any) -> Int64:
    """Offsets (int64, n + 1) of lists with these lengths (n)."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _joined_offsets(parts: list[Int64]) -> Int64:
    return offsets_of(np.concatenate([np.diff(part) for part in parts]))


def concatenate(batches: list[TrackBatch]) -> TrackBatch:
    """The events of all batches, in order, as one batch. Raises ValueError for no batch at all."""
    if len(batches) == 1:
        return batches[0]
    joined = {
        field.name: np.concatenate([getattr(batch, field.name) for batch in batches])
        for field in fields(TrackBatch)
        if field.name not in ("offsets", "hit_offsets")
    }
    offsets = _joined_offsets([batch.offsets for batch in batches])
    hit_offsets = _joined_offsets([batch.hit_offsets for batch in batches])
    return TrackBatch(offsets=offsets, hit_offsets=hit_offsets, **joined)


def without_events(tracks: TrackBatch, rejected: NDArray[np.bool_]) -> TrackBatch:
    """The batch without the events marked in ``rejected`` (bool, one an event)."""
    keep = ~rejected
    keep_track = np.repeat(keep, np.diff(tracks.offsets))
    keep_hit = np.repeat(keep_track, np.diff(tracks.hit_offsets))
    kept: dict[str, Any] = {name: getattr(tracks, name)[keep_track] for name in STATE}
    return TrackBatch(
        entry=tracks.entry[keep],
        event=tracks.event[keep],
        offsets=offsets_of(np.diff(tracks.offsets)[keep]),
        hit_offsets=offsets_of(np.diff(tracks.hit_offsets)[keep_track]),
        hit_index=tracks.hit_index[keep_hit],
        lhcb_id=tracks.lhcb_id[keep_hit],
        **kept,
    )
