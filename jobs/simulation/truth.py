"""What is known of simulated particles: which are listed, their hits, and the flags of ``mc_flags``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from egretta.jobs.simulation.digitise import Clusters
from egretta.jobs.simulation.particles import ELECTRON, Bool, Flag, Float64, Int32, Particles, signed_pid

Int64 = NDArray[np.int64]

# LHCb's rule: a particle can be found in the VELO if it crosses three modules.
MIN_MODULES = 3

# Chance to leave hits in the UT, in the SciFi after the UT, and in the SciFi past the UT's beam hole, by
# pseudorapidity (rows begin at these edges) and momentum in MeV (columns). Read off LHCb simulation; zero
# below the first row.
_ETA_EDGES = np.array([1.4, 1.7, 2.0, 2.5, 4.5, 4.9, 5.1, 5.4])
_P_EDGES_MEV = np.array([0, 300, 500, 1000, 1250, 1500, 1750, 2000, 2500, 3000, 4000, 6000, 10000, 20000])
_UT = np.array(
    [
        [0.06, 0.07, 0.05, 0.04, 0.04, 0.04, 0.03, 0.03, 0.03, 0.04, 0.02, 0.04, 0.06, 0.05],
        [0.27, 0.36, 0.42, 0.41, 0.44, 0.46, 0.45, 0.46, 0.48, 0.49, 0.44, 0.50, 0.47, 0.47],
        [0.53, 0.72, 0.83, 0.85, 0.85, 0.86, 0.86, 0.89, 0.89, 0.89, 0.89, 0.89, 0.91, 0.85],
        [0.57, 0.76, 0.85, 0.86, 0.88, 0.87, 0.87, 0.89, 0.89, 0.90, 0.90, 0.90, 0.88, 0.86],
        [0.50, 0.60, 0.70, 0.68, 0.68, 0.70, 0.72, 0.70, 0.70, 0.83, 0.84, 0.90, 0.93, 0.93],
        [0.40, 0.50, 0.60, 0.55, 0.52, 0.52, 0.52, 0.52, 0.46, 0.44, 0.27, 0.31, 0.20, 0.16],
        [0.40, 0.50, 0.50, 0.40, 0.30, 0.25, 0.22, 0.20, 0.15, 0.14, 0.04, 0.00, 0.00, 0.00],
        [0.40, 0.40, 0.30, 0.20, 0.10, 0.05, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00],
    ]
)
_UT_ELECTRON = np.array(
    [
        [0.02, 0.04, 0.05, 0.10, 0.10, 0.10, 0.10, 0.10, 0.10, 0.10, 0.10, 0.10, 0.10, 0.10],
        [0.08, 0.36, 0.46, 0.60, 0.60, 0.60, 0.60, 0.60, 0.60, 0.60, 0.60, 0.60, 0.60, 0.60],
        [0.27, 0.92, 0.96, 0.98, 0.98, 0.99, 0.99, 0.99, 0.97, 0.97, 0.99, 0.99, 0.99, 0.99],
        [0.60, 0.93, 0.95, 0.95, 0.97, 0.98, 0.97, 0.98, 0.99, 0.99, 0.99, 1.00, 0.99, 0.99],
        [0.67, 0.82, 0.81, 0.82, 0.86, 0.86, 0.86, 0.90, 0.90, 0.92, 0.93, 0.99, 0.98, 1.00],
        [0.64, 0.71, 0.77, 0.75, 0.65, 0.60, 0.62, 0.64, 0.55, 0.45, 0.49, 0.43, 0.30, 0.22],
        [0.46, 0.70, 0.67, 0.55, 0.45, 0.40, 0.35, 0.18, 0.17, 0.15, 0.08, 0.08, 0.02, 0.02],
        [0.47, 0.40, 0.30, 0.20, 0.10, 0.05, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00],
    ]
)
_SCIFI_AFTER_UT = np.array(
    [
        [0.00, 0.00, 0.00, 0.18, 0.40, 0.40, 0.40, 0.45, 0.45, 0.45, 0.45, 0.45, 0.45, 0.45],
        [0.00, 0.00, 0.00, 0.08, 0.33, 0.44, 0.44, 0.41, 0.44, 0.40, 0.36, 0.41, 0.45, 0.45],
        [0.00, 0.00, 0.00, 0.01, 0.16, 0.27, 0.32, 0.45, 0.51, 0.61, 0.76, 0.83, 0.86, 0.89],
        [0.00, 0.00, 0.00, 0.00, 0.02, 0.19, 0.40, 0.62, 0.78, 0.86, 0.88, 0.87, 0.84, 0.84],
        [0.00, 0.00, 0.00, 0.00, 0.00, 0.10, 0.33, 0.75, 0.77, 0.84, 0.86, 0.86, 0.70, 0.61],
        [0.00, 0.00, 0.00, 0.00, 0.00, 0.05, 0.30, 0.58, 0.70, 0.81, 0.86, 0.86, 0.78, 0.46],
        [0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.20, 0.50, 0.60, 0.70, 0.80, 0.80, 0.70, 0.40],
        [0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00],
    ]
)
_SCIFI_AFTER_UT_ELECTRON = np.array(
    [
        [0.00, 0.00, 0.00, 0.00, 0.05, 0.10, 0.10, 0.10, 0.10, 0.10, 0.10, 0.10, 0.10, 0.10],
        [0.00, 0.00, 0.00, 0.00, 0.05, 0.20, 0.20, 0.30, 0.40, 0.40, 0.40, 0.40, 0.40, 0.40],
        [0.00, 0.00, 0.00, 0.00, 0.08, 0.35, 0.32, 0.40, 0.57, 0.55, 0.73, 0.75, 0.75, 0.75],
        [0.00, 0.00, 0.00, 0.00, 0.00, 0.01, 0.15, 0.35, 0.55, 0.64, 0.76, 0.79, 0.79, 0.76],
        [0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.14, 0.37, 0.48, 0.57, 0.71, 0.86, 0.90, 0.74],
        [0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.10, 0.22, 0.30, 0.33, 0.67, 0.54, 0.57, 0.50],
        [0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.10, 0.22, 0.30, 0.33, 0.50, 0.50, 0.50, 0.50],
        [0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00],
    ]
)
_SCIFI_WITHOUT_UT = np.array(
    [
        [0.00, 0.00, 0.00, 0.05, 0.11, 0.13, 0.10, 0.08, 0.10, 0.12, 0.09, 0.02, 0.00, 0.00],
        [0.00, 0.00, 0.00, 0.01, 0.05, 0.07, 0.07, 0.10, 0.08, 0.06, 0.09, 0.05, 0.04, 0.00],
        [0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.01, 0.03, 0.05, 0.04, 0.01, 0.00, 0.00, 0.00],
        [0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.01, 0.00, 0.00, 0.00, 0.00, 0.00],
        [0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.10, 0.40, 0.32, 0.38, 0.30, 0.31, 0.12, 0.02],
        [0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.20, 0.70, 0.65, 0.63, 0.68, 0.60, 0.52, 0.24],
        [0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.20, 0.70, 0.73, 0.77, 0.62, 0.65, 0.44, 0.15],
        [0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.00, 0.60, 0.60, 0.60, 0.72, 0.64, 0.64, 0.15],
    ]
)


@dataclass(frozen=True, slots=True)
class SimulatedTruth:
    """Listed particles of ``n`` events.

    ``offsets`` (int64, n + 1) cuts the particles into events. ``key`` (int32) is unique within an event and
    ascending; ``pid`` int32; ``p``, ``pt`` float64 in MeV; ``eta``, ``phi`` float64; ``charge``, ``flags``
    int32. ``hit_offsets`` (int64, particles + 1) cuts ``hit_index`` (int32, within the event) into particles.
    """

    offsets: Int64
    key: Int32
    pid: Int32
    p: Float64
    pt: Float64
    eta: Float64
    phi: Float64
    charge: Int32
    flags: Int32
    hit_offsets: Int64
    hit_index: Int32

    @property
    def n_particles(self) -> int:
        """Number of particles in the whole batch."""
        return len(self.pid)


def _tracker_flags(rng: np.random.Generator, p: Float64, eta: Float64, electron: Bool) -> Int32:
    eta_bin = np.searchsorted(_ETA_EDGES, eta, side="right") - 1
    p_bin = np.searchsorted(_P_EDGES_MEV, p, side="right") - 1
    forward = eta_bin >= 0
    in_ut = np.where(electron, _UT_ELECTRON[eta_bin, p_bin], _UT[eta_bin, p_bin])
    ut = forward & (rng.random(len(p)) < in_ut)
    after = np.where(electron, _SCIFI_AFTER_UT_ELECTRON[eta_bin, p_bin], _SCIFI_AFTER_UT[eta_bin, p_bin])
    chance = np.where(ut, after, _SCIFI_WITHOUT_UT[eta_bin, p_bin])
    scifi = forward & (rng.random(len(p)) < chance)
    flags = np.where(ut, Flag.HAS_UT, 0) | np.where(scifi, Flag.HAS_SCIFI | Flag.IS_LONG, 0)
    return (flags | np.where(ut & scifi, Flag.IS_DOWN, 0)).astype(np.int32)


def list_particles(
    rng: np.random.Generator,
    particles: Particles,
    n_modules: Int32,
    clusters: Clusters,
    n_events: int,
    hit_offsets: Int64,
) -> SimulatedTruth:
    """The particles that a truth tree lists: those that cross three modules and have a hit.

    ``particles`` in any order, ``n_modules`` (int32) the modules that each crosses, ``hit_offsets`` (int64,
    n_events + 1) the events' hits among ``clusters``.
    """
    n_hits = np.bincount(clusters.owner_particle, minlength=len(particles))
    listed = (n_modules >= MIN_MODULES) & (n_hits > 0)
    index = np.flatnonzero(listed)
    index = index[np.argsort(particles.event[index], kind="stable")]
    chosen = particles.take(index)
    # owners are sorted by particle: each particle's clusters lie together
    first = np.concatenate(([0], np.cumsum(n_hits)))
    counts = n_hits[index]
    offsets_of_hits = np.concatenate(([0], np.cumsum(counts)))
    at = np.repeat(first[index] - offsets_of_hits[:-1], counts) + np.arange(offsets_of_hits[-1])
    hits = clusters.owner_cluster[at] - np.repeat(hit_offsets[chosen.event], counts)
    p, pt = chosen.p, chosen.pt
    eta = np.arctanh(np.clip(chosen.pz / p, -1 + 1e-12, 1 - 1e-12))
    flags = chosen.flags | np.int32(Flag.HAS_VELO)
    flags |= _tracker_flags(rng, p, eta, chosen.species == ELECTRON)
    offsets = np.concatenate(([0], np.cumsum(np.bincount(chosen.event, minlength=n_events))))
    # number within the event among all that was simulated: gaps stand for what is not listed
    by_event = np.argsort(particles.event, kind="stable")
    rank = np.empty(len(particles), dtype=np.int64)
    rank[by_event] = np.arange(len(particles))
    start = np.searchsorted(particles.event[by_event], np.arange(n_events))
    return SimulatedTruth(
        offsets=offsets.astype(np.int64),
        key=(rank[index] - start[chosen.event]).astype(np.int32),
        pid=signed_pid(chosen.species, chosen.charge),
        p=p,
        pt=pt,
        eta=eta,
        phi=np.arctan2(chosen.py, chosen.px),
        charge=chosen.charge,
        flags=flags,
        hit_offsets=offsets_of_hits.astype(np.int64),
        hit_index=hits.astype(np.int32),
    )
