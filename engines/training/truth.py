"""Training events: hits and the particles that made them, as flat arrays of many events.

The arrays come from one ``.npz`` (written by ``python -m egretta.engines.training prepare``), so that
training needs neither ROOT nor uproot and can run on a bare GPU machine.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from egretta.kernels.batches import Float32, Int32, Int64
from egretta.kernels.errors import CorruptInputError, MissingInputError, UsageError
from egretta.kernels.geometry import N_MODULES

# What one sample is in the file, each array under NAME/ARRAY: ``hoff`` int64[events + 1] cuts the hits into
# events, ``x``, ``y``, ``z`` (float32, mm) and ``module`` (int8, ascending within an event) are the hits;
# ``poff`` int64[events + 1] cuts the particles, ``nhits`` int32 is a particle's number of hits, ``mchit``
# int32 all particles' hits one after another, counted within the event.
SAMPLE_ARRAYS = ("hoff", "x", "y", "z", "module", "poff", "nhits", "mchit")

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


def load_truth(path: Path, samples: Sequence[str]) -> TruthHits:
    """Join the named samples of one ``.npz``.

    Raises MissingInputError for a file that is not there, UsageError for a sample that is not in it, and
    CorruptInputError for arrays that do not fit each other.
    """
    parts: list[TruthHits] = []
    n_particles = 0
    with _open(path) as archive:
        for sample in samples:
            try:
                arrays = {name: archive[f"{sample}/{name}"] for name in SAMPLE_ARRAYS}
            except KeyError as error:
                held = sorted({key.rpartition("/")[0] for key in archive.files})
                raise UsageError(
                    f"{path} holds no whole sample {sample!r}: {error.args[0]}",
                    hint=f"it holds {', '.join(held) or 'none'}",
                ) from error
            parts.append(truth_of(arrays, f"sample {sample} of {path}", n_particles))
            n_particles += len(parts[-1].n_stations)
    if n_particles == 0:
        raise UsageError(
            f"{path} names no particle in {', '.join(samples) or 'no samples'}",
            hint="take events with truth, such as egretta simulate velo makes",
        )
    n_hits = np.concatenate([np.diff(part.offsets) for part in parts])
    return TruthHits(
        np.concatenate([[0], np.cumsum(n_hits)]).astype(np.int64),
        np.concatenate([part.position for part in parts]),
        np.concatenate([part.module for part in parts]),
        np.concatenate([part.particles for part in parts]),
        np.concatenate([part.n_stations for part in parts]),
    )


def _open(path: Path) -> Any:
    try:
        archive = np.load(path)
    except OSError as error:
        raise MissingInputError(
            f"cannot read the training events {path}: {error.strerror or error}",
            hint="make them with python -m egretta.engines.training prepare",
        ) from error
    except (ValueError, zipfile.BadZipFile) as error:
        raise CorruptInputError(
            f"cannot read the training events {path}: {error}",
            hint="make them again with python -m egretta.engines.training prepare",
        ) from error
    return archive


def truth_of(arrays: Mapping[str, NDArray[Any]], source: str, first_particle: int = 0) -> TruthHits:
    """One sample from its arrays (``SAMPLE_ARRAYS``), its particles numbered from ``first_particle``.

    Raises CorruptInputError, naming ``source``, where the arrays do not fit each other.
    """
    fault = _fault(arrays)
    if fault:
        raise CorruptInputError(
            f"cannot train with {source}: {fault}", hint="leave this sample out, or make its file again"
        )
    offsets = arrays["hoff"].astype(np.int64)
    module = arrays["module"].astype(np.int32)
    particles, n_stations = _particles_of_hits(
        offsets,
        module,
        arrays["poff"].astype(np.int64),
        arrays["nhits"].astype(np.int32),
        arrays["mchit"].astype(np.int32),
        first_particle,
    )
    position = np.stack([arrays[axis].astype(np.float32) for axis in "xyz"], axis=1)
    return TruthHits(offsets, position, module, particles, n_stations)


def _fault(arrays: Mapping[str, NDArray[Any]]) -> str | None:
    """What keeps the arrays of a sample from being used; the kernels below do not look."""
    hoff, poff, module = arrays["hoff"], arrays["poff"], arrays["module"]
    for offsets, length in ((hoff, len(module)), (poff, len(arrays["nhits"]))):
        if len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != length or (np.diff(offsets) < 0).any():
            return "its offsets do not cover its arrays"
    if len(hoff) != len(poff):
        return f"it has hits of {len(hoff) - 1} events and particles of {len(poff) - 1}"
    if any(len(arrays[axis]) != len(module) for axis in "xyz"):
        return "x, y, z and module differ in length"
    if not all(np.isfinite(arrays[axis]).all() for axis in "xyz"):
        return "a position is NaN or infinite"
    if ((module < 0) | (module >= N_MODULES)).any():
        return f"a module is not one of 0 to {N_MODULES - 1}"
    event = np.repeat(np.arange(len(hoff) - 1), np.diff(hoff))
    if (np.diff(event * N_MODULES + module) < 0).any():
        return "the hits of an event are not in ascending order of module"
    n_hits, index = arrays["nhits"], arrays["mchit"]
    if (n_hits < 0).any() or n_hits.sum() != len(index):
        return f"its particles count {n_hits.sum()} hits, {len(index)} are listed"
    event = np.repeat(np.repeat(np.arange(len(poff) - 1), np.diff(poff)), n_hits)
    if ((index < 0) | (index >= np.diff(hoff)[event])).any():
        return "a particle lists a hit that its event does not have"
    return None


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
