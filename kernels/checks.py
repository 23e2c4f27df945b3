"""Whether decoded hits can be used, event by event.

Files are written by others: a position that is not a number, a module that does not exist, or hits out of
order would turn into wrong tracks further on. Such events are named here and left out whole. Hits out of
order are refused rather than sorted, because indices of hits, in truth and in tracks, count in the file's
order.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from egretta.kernels.batches import HitBatch, Int32
from egretta.kernels.geometry import N_MODULES


class HitStatus(IntEnum):
    """What is wrong with an event's hits."""

    OK = 0
    NOT_FINITE = 1
    MODULE_OUT_OF_RANGE = 2
    MODULES_NOT_ASCENDING = 3

    @property
    def text(self) -> str:
        """The status in words."""
        return _TEXTS[self]


_TEXTS = {
    HitStatus.OK: "good",
    HitStatus.NOT_FINITE: "a position is NaN or infinite",
    HitStatus.MODULE_OUT_OF_RANGE: f"a module is not one of 0 to {N_MODULES - 1}",
    HitStatus.MODULES_NOT_ASCENDING: "the hits are not in ascending order of module",
}


@dataclass(frozen=True, slots=True)
class HitReport:
    """``code`` uint8[n], a HitStatus an event; ``hit`` int32[n], its first bad hit, -1 if none."""

    code: NDArray[np.uint8]
    hit: Int32

    def reason(self, event: int) -> str:
        """What is wrong with event number ``event`` of the batch, in words."""
        text = HitStatus(int(self.code[event])).text
        return text if self.hit[event] < 0 else f"{text} (hit {self.hit[event]} of the event)"


def check_hits(batch: HitBatch) -> HitReport:
    """Look at every hit of a batch; of several faults of an event the first of HitStatus is told."""
    code = np.zeros(batch.n_events, dtype=np.uint8)
    hit = np.full(batch.n_events, -1, dtype=np.int32)
    backwards = np.zeros(batch.n_hits, dtype=np.bool_)
    backwards[1:] = batch.module[1:] < batch.module[:-1]
    starts = batch.offsets[:-1]
    # an event's first hit follows nothing
    backwards[starts[starts < batch.n_hits]] = False
    faults = {
        HitStatus.MODULES_NOT_ASCENDING: backwards,
        HitStatus.MODULE_OUT_OF_RANGE: (batch.module < 0) | (batch.module >= N_MODULES),
        HitStatus.NOT_FINITE: ~(np.isfinite(batch.x) & np.isfinite(batch.y) & np.isfinite(batch.z)),
    }
    for status, bad in faults.items():
        # backwards, so that the first bad hit of an event is the one that stays
        hits = np.flatnonzero(bad)[::-1]
        events = np.searchsorted(batch.offsets, hits, side="right") - 1
        code[events] = status
        hit[events] = hits - batch.offsets[events]
    return HitReport(code, hit)


def without_events(batch: HitBatch, bad: NDArray[np.bool_]) -> HitBatch:
    """The batch with the hits of the events in ``bad`` (bool[n]) taken out; the events stay, empty."""
    if not bad.any():
        return batch
    n_hits = np.diff(batch.offsets)
    keep = np.repeat(~bad, n_hits)
    offsets = np.zeros(batch.n_events + 1, dtype=np.int64)
    np.cumsum(np.where(bad, 0, n_hits), out=offsets[1:])
    return HitBatch(
        batch.entry,
        batch.event,
        offsets,
        batch.x[keep],
        batch.y[keep],
        batch.z[keep],
        batch.module[keep],
        batch.lhcb_id[keep],
    )
