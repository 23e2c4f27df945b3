"""A site's network as seen by those who share it: what may leave, what already does, what is kept free."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Site:
    """A site's egress. Rates are in Mb/s.

    ``egress_mbps`` is what the site's link carries, ``background_mbps`` what others send over it,
    ``headroom`` the part of the link, 0 to 1, that nobody may reserve. ``limit`` names the concurrency limit
    whose units are Mb/s.
    """

    name: str
    egress_mbps: float
    background_mbps: float
    headroom: float
    limit: str

    def __post_init__(self) -> None:
        if not (self.egress_mbps > 0 and math.isfinite(self.egress_mbps)):
            raise ValueError(f"egress_mbps of {self.name} must be positive, not {self.egress_mbps}")
        if not (self.background_mbps >= 0 and math.isfinite(self.background_mbps)):
            raise ValueError(f"background_mbps of {self.name} cannot be {self.background_mbps}")
        if not 0 <= self.headroom < 1:
            raise ValueError(f"headroom of {self.name} must be in [0, 1), not {self.headroom}")

    @property
    def reservable_mbps(self) -> float:
        """What campaigns may reserve together; 0 where others leave nothing."""
        return max(0.0, self.egress_mbps * (1 - self.headroom) - self.background_mbps)


def background_quantile(samples_mbps: Sequence[float], quantile: float = 0.95) -> float:
    """The background that is exceeded a fraction ``1 - quantile`` of the time, in Mb/s.

    A mean would be exceeded half the time. Samples that are not finite are gaps in the monitoring and left
    out; ValueError where none remains.
    """
    samples = np.asarray(samples_mbps, dtype=np.float64)
    samples = samples[np.isfinite(samples)]
    if len(samples) == 0:
        raise ValueError("no sample of the background is a number")
    return float(np.quantile(samples, quantile))
