"""What an event sends and what others send, from a site's monitoring.

The traffic that leaves a site is a line over the rate of events: its slope is what an event sends, its
intercept the background. Monitoring holds samples that are off the line: gaps, bursts of somebody else, and,
once the link is full, a plateau. None of them may bend the line.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]

# A link that carries this part of its capacity is taken to be full.
_FULL = 0.9
# Beyond this many standard deviations a sample does not count (Tukey's biweight: 95 % efficient for normal
# noise).
_TUKEY = 4.685
# The median absolute deviation of normal noise in standard deviations.
_MAD = 0.6745
_ROUNDS = 50
_MOST_SLOPES = 1000


@dataclass(frozen=True, slots=True)
class Interval:
    """A fitted value with the ends of its confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class TrafficFit:
    """``sent_mbit_per_event`` in Mb and ``background_mbps`` in Mb/s; of ``samples`` samples ``used`` had
    weight, ``saturated`` lay where the link is full."""

    sent_mbit_per_event: Interval
    background_mbps: Interval
    samples: int
    used: int
    saturated: int


def fit_traffic(
    events_per_s: Sequence[float],
    site_mbps: Sequence[float],
    *,
    capacity_mbps: float | None = None,
    confidence: float = 0.95,
) -> TrafficFit:
    """Fit ``site_mbps = background + sent * events_per_s`` through samples of the two.

    With ``capacity_mbps`` samples on the plateau of a full link are left out. They are chosen by the event
    rate at which the line itself fills the link: to cut on the traffic would bend the line down.

    An MM-estimate: a repeated-median line, which nearly half the samples cannot move wherever they lie, then
    Tukey's biweight with the scale of that line's residuals (Yohai 1987). Intervals are those of the weighted
    estimate for large samples.
    Raises ValueError for samples that define no line.
    """
    rate, traffic = (np.asarray(column, dtype=np.float64) for column in (events_per_s, site_mbps))
    if rate.shape != traffic.shape or rate.ndim != 1:
        raise ValueError("event rates and traffic need one sample each for the same times")
    finite = np.isfinite(rate) & np.isfinite(traffic)
    rate, traffic = rate[finite], traffic[finite]
    below = np.ones(len(rate), bool)
    if capacity_mbps is not None:
        below = traffic < _FULL * capacity_mbps
        slope, intercept = _repeated_median(rate[below], traffic[below])
        if slope > 0:
            below = rate < (_FULL * capacity_mbps - intercept) / slope
    x, y = rate[below], traffic[below]
    slope, intercept = _repeated_median(x, y)
    scale = float(np.median(np.abs(y - intercept - slope * x))) / _MAD
    # samples without any noise have no scale; the smallest that arithmetic can tell keeps the weights finite
    scale = max(scale, 1e-9 * float(np.abs(y).max()), 1e-300)
    weight = np.zeros(len(x))
    for _ in range(_ROUNDS):
        weight = _biweight((y - intercept - slope * x) / scale)
        before = slope, intercept
        slope, intercept = _weighted_line(x, y, weight)
        if math.isclose(slope, before[0], rel_tol=1e-10) and math.isclose(
            intercept, before[1], rel_tol=1e-10, abs_tol=1e-12
        ):
            break
    errors = _standard_errors(x, (y - intercept - slope * x) / scale, scale)
    reach = NormalDist().inv_cdf(0.5 + confidence / 2)
    sent, background = (
        Interval(value, value - reach * error, value + reach * error)
        for value, error in zip((slope, intercept), errors, strict=True)
    )
    return TrafficFit(
        sent, background, len(rate), int(np.count_nonzero(weight)), int(np.count_nonzero(~below))
    )


def _repeated_median(x: Float64, y: Float64) -> tuple[float, float]:
    """Slope and intercept: the median over samples of the median slope to all others (Siegel 1982).

    Of more samples than some pairs allow, evenly spread ones make the slope.
    """
    if len(x) < 3 or np.ptp(x) == 0:
        raise ValueError(
            f"{len(x)} usable samples at {len(np.unique(x))} event rates define no line: three samples at "
            "two different rates are needed"
        )
    chosen = np.linspace(0, len(x) - 1, min(len(x), _MOST_SLOPES)).astype(np.int64)
    dx = x[chosen][None] - x[chosen][:, None]
    dy = y[chosen][None] - y[chosen][:, None]
    slopes = np.divide(dy, dx, out=np.full(dx.shape, np.nan), where=dx != 0)
    slope = float(np.median(np.nanmedian(slopes, axis=1)))
    return slope, float(np.median(y - slope * x))


def _biweight(deviation: Float64) -> Float64:
    inside = np.maximum(0.0, 1.0 - (deviation / _TUKEY) ** 2)
    return inside * inside


def _weighted_line(x: Float64, y: Float64, weight: Float64) -> tuple[float, float]:
    total = weight.sum()
    mx, my = float(weight @ x / total), float(weight @ y / total)
    slope = float(weight @ ((x - mx) * (y - my)) / (weight @ (x - mx) ** 2))
    return slope, my - slope * mx


def _standard_errors(x: Float64, deviation: Float64, scale: float) -> tuple[float, float]:
    """Of slope and intercept, from the influence that each sample has (Huber 1981, chapter 7)."""
    n = len(x)
    inside = np.abs(deviation) < _TUKEY
    part = (deviation / _TUKEY) ** 2
    influence = np.where(inside, deviation * (1 - part) ** 2, 0.0)
    steepness = float(np.where(inside, (1 - part) * (1 - 5 * part), 0.0).mean())
    variance = scale**2 * float(influence @ influence) / max(n - 2, 1) / steepness**2
    spread = float(((x - x.mean()) ** 2).sum())
    return math.sqrt(variance / spread), math.sqrt(variance * (1 / n + float(x.mean()) ** 2 / spread))
