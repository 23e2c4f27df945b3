"""Efficiency, ghosts and clones by the field's definitions, as counts that add up over batches.

- *Efficiency* of a category: particles with any matching track / all particles of the category. By best
  match, a track counts for its best particle only.
- *Ghost rate*: tracks that match no particle / all tracks.
- *Clone rate*: extra tracks matched to an already found particle / matched tracks, each track counting for
  its best particle.
- *Hit efficiency* of a matching pair: shared hits / the particle's hits. *Hit purity*: shared hits / the
  track's hits. Both are means over the pairs of a category.

Electrons are categories of their own and are left out of the others; ghosts and clones count all tracks.
In the range ``eta_2_5``, particles are chosen by their true eta, clones (and matched tracks) by that of
their best particle, and ghosts by the track's own eta from its slopes: a ghost has no particle to ask.
Both bounds are excluded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from math import sqrt
from typing import Any

import numpy as np

from egretta.kernels.batches import Float32, Int64, TrackBatch
from egretta.workflows.validation.matching import Bool, Float64, Matches, ParticleFlag, Truth, match

HIGH_MOMENTUM_MEV = 5000.0
RANGES: dict[str, tuple[float, float] | None] = {"all": None, "eta_2_5": (2.0, 5.0)}


def _with(flag: ParticleFlag) -> Callable[[Truth], Bool]:
    return lambda truth: ((truth.flags & flag) == flag) & ~truth.is_electron


def _electrons_with(flag: ParticleFlag) -> Callable[[Truth], Bool]:
    return lambda truth: ((truth.flags & flag) == flag) & truth.is_electron


CATEGORIES: dict[str, Callable[[Truth], Bool]] = {
    "velo": _with(ParticleFlag.HAS_VELO),
    "long": _with(ParticleFlag.IS_LONG),
    "long_p5": lambda truth: _with(ParticleFlag.IS_LONG)(truth) & (truth.p > HIGH_MOMENTUM_MEV),
    "long_beauty": _with(ParticleFlag.IS_LONG | ParticleFlag.FROM_BEAUTY),
    "long_strange": _with(ParticleFlag.IS_LONG | ParticleFlag.FROM_STRANGE),
    "velo_electrons": _electrons_with(ParticleFlag.HAS_VELO),
    "long_electrons": _electrons_with(ParticleFlag.IS_LONG),
}

RANGE_TITLES = {"all": "all particles", "eta_2_5": "2 < η < 5"}
TITLES = {
    "velo": "VELO",
    "long": "long",
    "long_p5": "long, p > 5 GeV",
    "long_beauty": "long from beauty",
    "long_strange": "long, strange",
    "velo_electrons": "VELO electrons",
    "long_electrons": "long electrons",
}


def ratio(part: float, whole: float) -> float | None:
    """The fraction, or None where there is nothing to take it of."""
    return part / whole if whole else None


def binomial_uncertainty(passed: int, total: int) -> float | None:
    """Half the width of the Wilson score interval at one standard deviation.

    Unlike sqrt(e (1 - e) / n) it does not vanish at 0 and 1 (Wilson, J. Am. Stat. Assoc. 22, 209).
    """
    if total == 0:
        return None
    return sqrt(passed * (total - passed) / total + 0.25) / (total + 1)


@dataclass(frozen=True, slots=True)
class CategoryCounts:
    """Counts of one category of particles; sums over the matching pairs for the hit figures."""

    particles: int = 0
    found: int = 0
    found_best: int = 0
    pairs: int = 0
    clones: int = 0
    hit_efficiency_sum: float = 0.0
    hit_purity_sum: float = 0.0

    def __add__(self, other: CategoryCounts) -> CategoryCounts:
        return CategoryCounts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @property
    def efficiency(self) -> float | None:
        """Found by any match / particles."""
        return ratio(self.found, self.particles)

    def to_dict(self) -> dict[str, Any]:
        """Fractions with their uncertainties, and the counts they come from."""
        return {
            "efficiency": self.efficiency,
            "efficiency_uncertainty": binomial_uncertainty(self.found, self.particles),
            "particles": self.particles,
            "found": self.found,
            "efficiency_best_match": ratio(self.found_best, self.particles),
            "clone_rate": ratio(self.clones, self.found_best + self.clones),
            "hit_efficiency": ratio(self.hit_efficiency_sum, self.pairs),
            "hit_purity": ratio(self.hit_purity_sum, self.pairs),
        }


@dataclass(frozen=True, slots=True)
class RangeCounts:
    """Counts of all tracks and of each category in a range of eta."""

    tracks: int
    ghosts: int
    clones: int
    categories: dict[str, CategoryCounts]

    def __add__(self, other: RangeCounts) -> RangeCounts:
        return RangeCounts(
            self.tracks + other.tracks,
            self.ghosts + other.ghosts,
            self.clones + other.clones,
            {name: counts + other.categories[name] for name, counts in self.categories.items()},
        )

    @property
    def matched(self) -> int:
        """Tracks that match a particle."""
        return self.tracks - self.ghosts

    @property
    def ghost_rate(self) -> float | None:
        """Ghosts / tracks."""
        return ratio(self.ghosts, self.tracks)

    @property
    def clone_rate(self) -> float | None:
        """Clones / matched tracks."""
        return ratio(self.clones, self.matched)

    def to_dict(self) -> dict[str, Any]:
        """Rates with their uncertainties, the counts they come from, and every category."""
        return {
            "ghost_rate": self.ghost_rate,
            "ghost_rate_uncertainty": binomial_uncertainty(self.ghosts, self.tracks),
            "clone_rate": self.clone_rate,
            "clone_rate_uncertainty": binomial_uncertainty(self.clones, self.matched),
            "tracks": self.tracks,
            "ghosts": self.ghosts,
            "clones": self.clones,
            **{name: counts.to_dict() for name, counts in self.categories.items()},
        }


@dataclass(frozen=True, slots=True)
class Metrics:
    """The figures of some events, by range of eta (``all``, ``eta_2_5``). Batches add up: ``a + b``."""

    events: int
    ranges: dict[str, RangeCounts]

    def __add__(self, other: Metrics) -> Metrics:
        ranges = {name: counts + other.ranges[name] for name, counts in self.ranges.items()}
        return Metrics(self.events + other.events, ranges)

    def __getitem__(self, name: str) -> RangeCounts:
        return self.ranges[name]

    @staticmethod
    def zero() -> Metrics:
        """The figures of no events, to start a sum from."""
        empty = {name: CategoryCounts() for name in CATEGORIES}
        return Metrics(0, {name: RangeCounts(0, 0, 0, dict(empty)) for name in RANGES})

    def to_dict(self) -> dict[str, Any]:
        """What ``egretta validate --json`` prints: rates are fractions, or None where undefined."""
        return {name: counts.to_dict() for name, counts in self.ranges.items()}


def track_eta(tracks: TrackBatch) -> Float64:
    """Pseudorapidity of each track, negative for those that fly towards -z, float64.

    A straight track shows no direction of flight. As it comes from near the beam line, its distance to it
    grows along its flight: a track flies backward where (x, y) . (tx, ty) < 0 at the hit of lowest z.
    """
    slope = np.hypot(tracks.tx.astype(np.float64), tracks.ty.astype(np.float64))
    with np.errstate(divide="ignore"):
        eta = np.arcsinh(1.0 / slope)
    backward = (tracks.x * tracks.tx + tracks.y * tracks.ty) < 0
    return np.where(backward, -eta, eta)


def _inside(eta: Float32 | Float64, bounds: tuple[float, float] | None) -> Bool:
    if bounds is None:
        return np.ones(len(eta), dtype=np.bool_)
    inside: Bool = (eta > bounds[0]) & (eta < bounds[1])
    return inside


def count(truth: Truth, tracks: TrackBatch, matches: Matches) -> Metrics:
    """Count a batch whose matches are known."""
    found, found_best = matches.is_found, matches.is_found_best
    ghost_eta = track_eta(tracks)[matches.is_ghost]
    best_particle = matches.particle[matches.is_best]
    tracks_of_particle = np.bincount(best_particle, minlength=truth.n_particles)
    hit_efficiency = matches.shared_hits / truth.n_hits[matches.particle]
    hit_purity = matches.shared_hits / np.diff(tracks.hit_offsets)[matches.track]
    members = {name: choose(truth) for name, choose in CATEGORIES.items()}
    ranges = {}
    for name, bounds in RANGES.items():
        inside = _inside(truth.eta, bounds)
        categories = {}
        for category, member in members.items():
            chosen = member & inside
            pairs = chosen[matches.particle]
            chosen_best = int(np.count_nonzero(found_best & chosen))
            categories[category] = CategoryCounts(
                particles=int(np.count_nonzero(chosen)),
                found=int(np.count_nonzero(found & chosen)),
                found_best=chosen_best,
                pairs=int(np.count_nonzero(pairs)),
                clones=int(tracks_of_particle[chosen].sum()) - chosen_best,
                hit_efficiency_sum=float(hit_efficiency[pairs].sum()),
                hit_purity_sum=float(hit_purity[pairs].sum()),
            )
        ghosts = int(np.count_nonzero(_inside(ghost_eta, bounds)))
        matched = int(tracks_of_particle[inside].sum())
        clones = matched - int(np.count_nonzero(found_best & inside))
        ranges[name] = RangeCounts(matched + ghosts, ghosts, clones, categories)
    return Metrics(truth.n_events, ranges)


def evaluate(truth: Truth, tracks: TrackBatch, hits_offsets: Int64) -> Metrics:
    """The figures of a batch: ``hits_offsets`` (int64, events + 1) cuts its hits into events.

    Raises CorruptInputError where the three do not belong together.
    """
    return count(truth, tracks, match(truth, tracks, hits_offsets))
