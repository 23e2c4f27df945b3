"""Efficiency and ghost rate against what they depend on, as histograms that add up over batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from egretta.kernels.batches import Int64, TrackBatch
from egretta.workflows.validation.matching import Float64, Matches, Truth, owner_events
from egretta.workflows.validation.metrics import CATEGORIES

MEV_PER_GEV = 1000.0
ETA_RANGE = (2.0, 5.0)
# Categories that are drawn, in the order of their colours.
DRAWN = ("velo", "long", "long_electrons")


@dataclass(frozen=True, slots=True)
class Variable:
    """What a curve is drawn against. Values outside the edges count in the first or the last bin."""

    label: str
    unit: str
    edges: tuple[float, ...]
    log: bool = False

    @property
    def axis_title(self) -> str:
        """The label with its unit."""
        return f"{self.label} [{self.unit}]" if self.unit else self.label


def _decades(low: float, high: float, bins: int) -> tuple[float, ...]:
    return tuple(float(f"{edge:.4g}") for edge in np.geomspace(low, high, bins + 1))


VARIABLES: dict[str, Variable] = {
    "p": Variable("p", "GeV", _decades(0.5, 100.0, 16), log=True),
    "pt": Variable("pT", "GeV", _decades(0.05, 10.0, 14), log=True),
    "eta": Variable("η", "", tuple(np.linspace(-5.0, 6.0, 23).tolist())),
    "occupancy": Variable("Hits per event", "", tuple(np.linspace(0.0, 9000.0, 13).tolist())),
    "track_hits": Variable("Hits on the track", "", tuple(np.arange(2.5, 21.0).tolist())),
}


@dataclass(frozen=True, slots=True)
class Curve:
    """How many passed of how many in each bin of a variable (float64 arrays, one element a bin)."""

    variable: str
    passed: Float64
    total: Float64

    def __add__(self, other: Curve) -> Curve:
        return Curve(self.variable, self.passed + other.passed, self.total + other.total)

    def to_dict(self) -> dict[str, Any]:
        """Edges and counts as plain lists."""
        return {
            "variable": self.variable,
            "edges": list(VARIABLES[self.variable].edges),
            "passed": self.passed.tolist(),
            "total": self.total.tolist(),
        }


Curves = dict[str, Curve]


def wilson_interval(passed: Float64, total: Float64) -> tuple[Float64, Float64]:
    """Bounds of the fraction ``passed / total`` at one standard deviation; NaN where total is 0.

    The score interval of E. B. Wilson, J. Am. Stat. Assoc. 22 (1927) 209: it stays within 0 and 1.
    """
    n = np.where(total > 0, total, np.nan)
    centre = (passed + 0.5) / (n + 1)
    half = np.sqrt(passed * (n - passed) / n + 0.25) / (n + 1)
    return np.clip(centre - half, 0.0, 1.0), np.clip(centre + half, 0.0, 1.0)


def _curve(variable: str, values: Any, passed: Any) -> Curve:
    edges = np.array(VARIABLES[variable].edges)
    clipped = np.clip(np.asarray(values, dtype=np.float64), edges[0], np.nextafter(edges[-1], edges[0]))
    total, _ = np.histogram(clipped, bins=edges)
    accepted, _ = np.histogram(clipped[passed], bins=edges)
    return Curve(variable, accepted.astype(np.float64), total.astype(np.float64))


def curves(truth: Truth, tracks: TrackBatch, hits_offsets: Int64, matches: Matches) -> Curves:
    """Curves of a batch: ``efficiency.CATEGORY.VARIABLE`` and ``ghost_rate.VARIABLE``.

    Efficiencies (any match) are those of particles with 2 < eta < 5, but against eta of all.
    """
    event_hits = np.diff(hits_offsets)
    values = {
        "p": truth.p / MEV_PER_GEV,
        "pt": truth.pt / MEV_PER_GEV,
        "eta": truth.eta,
        "occupancy": event_hits[owner_events(truth.offsets)],
    }
    found = matches.is_found
    inside = (truth.eta > ETA_RANGE[0]) & (truth.eta < ETA_RANGE[1])
    result: Curves = {}
    for category in DRAWN:
        member = CATEGORIES[category](truth)
        for variable, value in values.items():
            chosen = member if variable == "eta" else member & inside
            result[f"efficiency.{category}.{variable}"] = _curve(variable, value[chosen], found[chosen])
    ghost = matches.is_ghost
    result["ghost_rate.occupancy"] = _curve("occupancy", event_hits[owner_events(tracks.offsets)], ghost)
    result["ghost_rate.track_hits"] = _curve("track_hits", np.diff(tracks.hit_offsets), ghost)
    return result


def add(total: Curves, part: Curves) -> Curves:
    """The sum of two sets of curves; either may be empty."""
    if not total:
        return part
    return {name: curve + part[name] for name, curve in total.items()} if part else total
