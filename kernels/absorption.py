"""Absorption: giving tracks the free hits that lie on them.

A particle may leave two hits in one station, where the modules of both sides overlap, and the graph may have
lost a hit at a track's end. Such hits lie close to the track's line and would otherwise stay behind, or make
clones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from egretta.kernels.batches import Float32, Int32, Int64
from egretta.kernels.geometry import N_MODULES
from egretta.kernels.knn import module_starts


@dataclass(frozen=True, slots=True)
class AbsorptionConfig:
    """How far from the line a free hit may lie.

    ``between_mm`` between two hits of the track; beyond its ends ``between_mm`` plus ``beyond_mrad`` times
    the distance. ``beyond_modules`` is how many modules past either end are looked at.
    """

    between_mm: float = 0.1
    beyond_mrad: float = 2.0
    beyond_modules: int = 2


def absorb(
    hit_offsets: Int64,
    module: Int32,
    x: Float32,
    y: Float32,
    z: Float32,
    track_offsets: Int64,
    hit: Int32,
    config: AbsorptionConfig,
) -> tuple[Int64, Int32]:
    """Tracks with the free hits that lie on them: int64[tracks + 1] offsets, int32 hits ascending in z.

    ``hit_offsets`` int64[events + 1] cuts the hits (``module`` int32 ascending; ``x``, ``y``, ``z`` float32,
    mm) into events; ``track_offsets`` int64[tracks + 1] cuts ``hit`` int32 (three or more hits a track,
    counted in the batch, ascending in z) into tracks. A track gets at most one hit in a module it has none
    in, the closest; a hit goes to the first track that takes it, in the order of the tracks.
    """
    return _absorb(  # type: ignore[no-any-return]
        hit_offsets,
        module,
        x,
        y,
        z,
        track_offsets,
        hit,
        np.float32(config.between_mm),
        np.float32(config.beyond_mrad * 1e-3),
        config.beyond_modules,
    )


@njit(cache=True, nogil=True)
def _absorb(  # type: ignore[no-untyped-def]
    hit_offsets, module, x, y, z, track_offsets, hit, between, beyond, beyond_modules
):
    n_tracks = len(track_offsets) - 1
    used = np.zeros(len(x), np.bool_)
    for h in hit:
        used[h] = True
    offsets = np.zeros(n_tracks + 1, np.int64)
    out = np.empty(len(hit) + np.count_nonzero(~used), np.int32)
    starts = np.empty(N_MODULES + 1, np.int64)
    event = -1
    at = 0
    for t in range(n_tracks):
        begin, end = track_offsets[t], track_offsets[t + 1]
        moved = False
        while event < 0 or hit[begin] >= hit_offsets[event + 1]:
            event += 1
            moved = True
        if moved:
            module_starts(module, hit_offsets[event], hit_offsets[event + 1], starts)
        lowest = max(0, module[hit[begin]] - beyond_modules)
        highest = min(N_MODULES - 1, module[hit[end - 1]] + beyond_modules)
        following = begin
        for m in range(lowest, highest + 1):
            taken = False
            while following < end and module[hit[following]] <= m:
                taken = taken or module[hit[following]] == m
                out[at] = hit[following]
                at += 1
                following += 1
            if taken:
                continue
            # the line through the hits on either side, or through the two that span the nearer end
            if following == begin:
                a, b = hit[begin], hit[min(begin + 2, end - 1)]
                tolerance_slope = beyond
            elif following == end:
                a, b = hit[max(end - 3, begin)], hit[end - 1]
                tolerance_slope = beyond
            else:
                a, b = hit[following - 1], hit[following]
                tolerance_slope = np.float32(0)
            span = z[b] - z[a]
            if span <= 0:
                continue
            tx, ty = (x[b] - x[a]) / span, (y[b] - y[a]) / span
            near = z[a] if following == begin else z[b]
            nearest = np.int64(-1)
            nearest2 = np.float32(np.inf)
            for h in range(starts[m], starts[m + 1]):
                if used[h]:
                    continue
                dz = z[h] - z[a]
                dx, dy = x[h] - x[a] - tx * dz, y[h] - y[a] - ty * dz
                tolerance = between + tolerance_slope * abs(z[h] - near)
                distance2 = dx * dx + dy * dy
                if distance2 < tolerance * tolerance and distance2 < nearest2:
                    nearest, nearest2 = np.int64(h), distance2
            if nearest >= 0:
                used[nearest] = True
                out[at] = nearest
                at += 1
        offsets[t + 1] = at
    return offsets, out[:at].copy()
