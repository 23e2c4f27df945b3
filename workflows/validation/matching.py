"""Which track found which particle: a track matches a particle if more than 70 % of its hits come from it.

Pure functions over a batch of events at once. Hits that two particles share let one track match both.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag

import numpy as np
from numpy.typing import NDArray

from egretta.kernels.batches import Float32, Int32, Int64, TrackBatch
from egretta.kernels.errors import CorruptInputError

Float64 = NDArray[np.float64]
Bool = NDArray[np.bool_]

# The field's fraction, as integers: 7 hits of 10 are exactly 70 % and no match.
MATCH_NUMERATOR = 7
MATCH_DENOMINATOR = 10

ELECTRON_PID = 11


class ParticleFlag(IntFlag):
    """Bits of ``Truth.flags``: what a particle left hits in, and what it came from."""

    IS_LONG = 1
    IS_DOWN = 2
    HAS_VELO = 4
    HAS_UT = 8
    HAS_SCIFI = 16
    FROM_BEAUTY = 32
    FROM_CHARM = 64
    FROM_STRANGE = 128


@dataclass(frozen=True, slots=True)
class Truth:
    """Simulated particles with VELO hits, of ``n`` events.

    ``offsets`` (int64, n + 1) cuts the particles into events. ``pid`` (int32) is the PDG number, ``p`` and
    ``pt`` (float32) are in MeV, ``eta`` float32, ``flags`` (int32) are :class:`ParticleFlag` bits.
    ``hit_offsets`` (int64, particles + 1) cuts ``hit_index`` (int32, within the event, in the order of its
    HitBatch) into particles.
    """

    entry: Int64
    event: Int64
    offsets: Int64
    pid: Int32
    p: Float32
    pt: Float32
    eta: Float32
    flags: Int32
    hit_offsets: Int64
    hit_index: Int32

    @property
    def n_events(self) -> int:
        """Number of events, empty ones included."""
        return len(self.offsets) - 1

    @property
    def n_particles(self) -> int:
        """Number of particles in the whole batch."""
        return len(self.pid)

    @property
    def n_hits(self) -> Int64:
        """Hits of each particle, int64."""
        return np.diff(self.hit_offsets)

    @property
    def is_electron(self) -> Bool:
        """Whether each particle is an electron or a positron."""
        electron: Bool = np.abs(self.pid) == ELECTRON_PID
        return electron


@dataclass(frozen=True, slots=True)
class Matches:
    """The pairs of a track and a particle that match, sorted by track and then by particle.

    ``track`` and ``particle`` (int64) count in the whole batch, ``shared_hits`` (int64) are the hits that
    the two have in common. ``is_best`` marks one pair a track: that with the most shared hits; of equals
    the particle with the fewest hits, then the first. ``n_tracks`` and ``n_particles`` size the batch.
    """

    track: Int64
    particle: Int64
    shared_hits: Int64
    is_best: Bool
    n_tracks: int
    n_particles: int

    @property
    def is_ghost(self) -> Bool:
        """Whether each track matches no particle, bool[n_tracks]."""
        ghost = np.ones(self.n_tracks, dtype=np.bool_)
        ghost[self.track] = False
        return ghost

    @property
    def is_found(self) -> Bool:
        """Whether any track matches each particle, bool[n_particles]."""
        found = np.zeros(self.n_particles, dtype=np.bool_)
        found[self.particle] = True
        return found

    @property
    def is_found_best(self) -> Bool:
        """Whether each particle is the best match of any track, bool[n_particles]."""
        found = np.zeros(self.n_particles, dtype=np.bool_)
        found[self.particle[self.is_best]] = True
        return found


def _global_hits(
    what: str,
    hit_index: Int32,
    owner_event: Int64,
    hits_per_owner: Int64,
    hits_offsets: Int64,
    event_number: Int64,
) -> Int64:
    """Turn indices within events into indices in the batch, refusing those outside their event."""
    event = np.repeat(owner_event, hits_per_owner)
    index = hit_index.astype(np.int64)
    bad = (index < 0) | (index >= np.diff(hits_offsets)[event])
    if bad.any():
        first = int(np.argmax(bad))
        where = int(event[first])
        n_hits = int(hits_offsets[where + 1] - hits_offsets[where])
        raise CorruptInputError(
            f"matching tracks with particles: a {what} of event {event_number[where]} names hit "
            f"{int(index[first])}, but the truth file gives that event {n_hits} hits",
            hint="check that the tracks were made from the file that holds the truth",
        )
    return index + hits_offsets[event]


def owner_events(offsets: Int64) -> Int64:
    """The event of each element that ``offsets`` (int64, n + 1) cuts into events, int64."""
    return np.repeat(np.arange(len(offsets) - 1, dtype=np.int64), np.diff(offsets))


def match(truth: Truth, tracks: TrackBatch, hits_offsets: Int64) -> Matches:
    """Find all pairs of a track and a particle of one event that match.

    ``hits_offsets`` (int64, events + 1) cuts the hits of the batch into events. Raises CorruptInputError
    if a hit index lies outside its event, or if the three do not hold equally many events.
    """
    if not truth.n_events == tracks.n_events == len(hits_offsets) - 1:
        raise CorruptInputError(
            f"matching tracks with particles: {tracks.n_events} events of tracks, {truth.n_events} of truth "
            f"and {len(hits_offsets) - 1} of hits",
            hint="give the same events in the same order to all three",
        )
    hits_offsets = np.asarray(hits_offsets, dtype=np.int64)
    track_hits = np.diff(tracks.hit_offsets)
    track_event = owner_events(tracks.offsets)
    of_tracks = _global_hits("track", tracks.hit_index, track_event, track_hits, hits_offsets, truth.event)
    particle_event = owner_events(truth.offsets)
    of_particles = _global_hits(
        "particle", truth.hit_index, particle_event, truth.n_hits, hits_offsets, truth.event
    )

    # Turn particle -> hits round into hit -> particles.
    particles_of_hit = np.repeat(np.arange(truth.n_particles, dtype=np.int64), truth.n_hits)
    particles_of_hit = particles_of_hit[np.argsort(of_particles, kind="stable")]
    per_hit = np.bincount(of_particles, minlength=int(hits_offsets[-1]))
    starts = np.concatenate(([0], np.cumsum(per_hit)))

    # Every hit of a track votes for each particle that left it.
    votes = per_hit[of_tracks]
    voter = np.repeat(np.repeat(np.arange(tracks.n_tracks, dtype=np.int64), track_hits), votes)
    first_vote = np.cumsum(votes) - votes
    position = np.arange(len(voter), dtype=np.int64) + np.repeat(starts[of_tracks] - first_vote, votes)
    stride = max(truth.n_particles, 1)
    keys, shared = np.unique(voter * stride + particles_of_hit[position], return_counts=True)
    track, particle = keys // stride, keys % stride

    matched = MATCH_DENOMINATOR * shared > MATCH_NUMERATOR * track_hits[track]
    track, particle, shared = track[matched], particle[matched], shared[matched].astype(np.int64)
    is_best = np.zeros(len(track), dtype=np.bool_)
    order = np.lexsort((particle, truth.n_hits[particle], -shared, track))
    sorted_track = track[order]
    is_best[order] = np.concatenate(([True], sorted_track[1:] != sorted_track[:-1]))[: len(order)]
    return Matches(track, particle, shared, is_best, tracks.n_tracks, truth.n_particles)
