"""Training events: hits and the particles that made them, as flat arrays of many events.

The arrays come from one ``.npz`` (written by ``python -m egretta.engines.training prepare``), so that
training needs neither ROOT nor uproot and can run on a bare GPU machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from egretta.kernels.batches import Float32, Int32, Int64

# A hit belongs to more than one particle in about 1 % of cases, to more than this many practically never.
MAX_PARTICLES_PER_HIT = 4


@dataclass(frozen=True, slots=True)
class TruthHits:
    """Hits of many events with their particles.

    ``offsets`` int64[events + 1]; ``position`` float32[hits, 3] in mm; ``module`` int32[hits];
    ``particles`` int32[hits, 4], numbers of the particles unique in the whole sample, -1 for none;
    ``n_stations`` int32[particles], how many stations each particle has hits on.
    """

    offsets: Int64
    position: Float32
    module: Int32
    particles: Int32
    n_stations: Int32

    @property
    def n_events(self) -> int:
        """Number of events."""
        return len(self.offsets) - 1

    def events(self, first: int, last: int) -> TruthHits:
        """The events from ``first`` up to, not including, ``last``; particle numbers stay as they are."""
        begin, end = self.offsets[first], self.offsets[last]
        return TruthHits(
            self.offsets[first : last + 1] - begin,
            self.position[begin:end],
            self.module[begin:end],
            self.particles[begin:end],
            self.n_stations,
        )


def load_truth(path: Path, samples: list[str]) -> TruthHits:
    """Join the named samples of one ``.npz``."""
    parts = []
    n_particles = 0
    with np.load(path) as archive:
        for sample in samples:
            parts.append(_sample(archive, sample, n_particles))
            n_particles += len(parts[-1].n_stations)
    bounds = np.concatenate([np.diff(part.offsets) for part in parts])
    return TruthHits(
        np.concatenate([[0], np.cumsum(bounds)]).astype(np.int64),
        np.concatenate([part.position for part in parts]),
        np.concatenate([part.module for part in parts]),
        np.concatenate([part.particles for part in parts]),
        np.concatenate([part.n_stations for part in parts]),
    )


def _sample(archive: Any, name: str, first_particle: int) -> TruthHits:
    offsets = archive[f"{name}/hoff"]
    position = np.stack([archive[f"{name}/{axis}"] for axis in "xyz"], axis=1)
    module = archive[f"{name}/module"].astype(np.int32)
    particles, n_stations = _particles_of_hits(
        offsets,
        module,
        archive[f"{name}/poff"],
        archive[f"{name}/nhits"],
        archive[f"{name}/mchit"],
        first_particle,
    )
    return TruthHits(offsets, position, module, particles, n_stations)


@njit(cache=True)
def _particles_of_hits(hit_offsets, module, particle_offsets, n_hits, hit_index, first):  # type: ignore[no-untyped-def]
    particles = np.full((hit_offsets[-1], MAX_PARTICLES_PER_HIT), -1, np.int32)
    n_stations = np.zeros(particle_offsets[-1], np.int32)
    at = 0
    for e in range(len(hit_offsets) - 1):
        for p in range(particle_offsets[e], particle_offsets[e + 1]):
            stations = np.int64(0)
            for _ in range(n_hits[p]):
                hit = hit_offsets[e] + hit_index[at]
                at += 1
                stations |= np.int64(1) << (module[hit] >> 1)
                for slot in range(MAX_PARTICLES_PER_HIT):
                    if particles[hit, slot] < 0:
                        particles[hit, slot] = first + p
                        break
            while stations:
                stations &= stations - 1
                n_stations[p] += 1
    return particles, n_stations


def successors(truth: TruthHits) -> tuple[Int64, Int64]:
    """Pairs (i, j) of hits, ``j`` on the particle's next station after ``i``'s or beside it on the same one.

    Hits count in the whole sample; pairs ascend. These are the edges that an embedding has to find.
    """
    hit, slot = np.nonzero(truth.particles >= 0)
    particle = truth.particles[hit, slot].astype(np.int64)
    order = np.lexsort((hit, particle))
    pairs = _successors(hit[order], particle[order], truth.module)
    unique = np.unique(pairs)
    return unique >> 32, unique & 0xFFFFFFFF


@njit(cache=True)
def _successors(hit, particle, module):  # type: ignore[no-untyped-def]
    pairs = []
    for a in range(len(hit)):
        next_station = -1
        for b in range(a + 1, len(hit)):
            if particle[b] != particle[a]:
                break
            gap = (module[hit[b]] >> 1) - (module[hit[a]] >> 1)
            if gap == 0:
                if module[hit[b]] != module[hit[a]]:
                    pairs.append((hit[a] << 32) | hit[b])
                continue
            if next_station < 0:
                next_station = gap
            if gap != next_station or gap > 2:
                break
            pairs.append((hit[a] << 32) | hit[b])
    return np.array(pairs, np.int64)


def share_particle(particles: Int32, *hits: NDArray[np.integer[Any]]) -> tuple[NDArray[np.bool_], Int32]:
    """Whether hits belong to one particle, and which (the first found; -1 for none).

    Each of ``hits`` is an index array of one length: row by row, its elements are compared.
    """
    candidates = particles[hits[0]]
    common = candidates >= 0
    for other in hits[1:]:
        rows = particles[other]
        common &= (candidates[:, :, None] == rows[:, None, :]).any(axis=2)
    found = common.any(axis=1)
    which = np.where(found, candidates[np.arange(len(candidates)), common.argmax(axis=1)], -1)
    return found, which.astype(np.int32)
