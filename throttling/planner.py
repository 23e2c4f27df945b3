"""How many jobs may run at once, and why: a pure function of a site and of what a job sends."""

from __future__ import annotations

import math
from dataclasses import dataclass

from egretta.throttling.site import Site

# A quotient this close below a whole number is that number: 8200 / 164 must not lose a job to rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class JobTraffic:
    """What a job sends. ``sent_mbit_per_event`` in Mb, ``event_time_s`` the time of an event through all
    stages, the sending and everything else: a job that computes does not send."""

    sent_mbit_per_event: float
    event_time_s: float

    def __post_init__(self) -> None:
        if not (self.sent_mbit_per_event >= 0 and math.isfinite(self.sent_mbit_per_event)):
            raise ValueError(f"sent_mbit_per_event cannot be {self.sent_mbit_per_event}")
        if not (self.event_time_s > 0 and math.isfinite(self.event_time_s)):
            raise ValueError(f"event_time_s must be positive, not {self.event_time_s}")

    @property
    def job_mbps(self) -> float:
        """Mean rate of a job in Mb/s."""
        return self.sent_mbit_per_event / self.event_time_s


@dataclass(frozen=True, slots=True)
class BandwidthPlan:
    """``jobs`` at once at ``site``, each with ``job_mbps`` reserved; None where nothing is sent and bandwidth
    sets no bound. ``why`` says it in plain sentences."""

    site: str
    job_mbps: float
    reservable_mbps: float
    jobs: int | None
    why: str


def plan_bandwidth(site: Site, traffic: JobTraffic) -> BandwidthPlan:
    """Jobs at once: what the site has left over, divided by what a job takes, rounded down."""
    job, left = traffic.job_mbps, site.reservable_mbps
    jobs = None if job == 0 else math.floor(left / job * (1 + _ROUNDING))
    return BandwidthPlan(site.name, job, left, jobs, _why(site, traffic, jobs))


def event_time_for(jobs: int, site: Site, sent_mbit_per_event: float) -> float:
    """The least time of an event in seconds with which ``jobs`` jobs stay within what the site has left.

    More jobs than planned may run well where the declared time left out stages in which nothing is sent.
    """
    if jobs < 1:
        raise ValueError(f"a number of jobs must be positive, not {jobs}")
    if site.reservable_mbps == 0:
        return math.inf if sent_mbit_per_event > 0 else 0.0
    return jobs * sent_mbit_per_event / site.reservable_mbps


def _why(site: Site, traffic: JobTraffic, jobs: int | None) -> str:
    kept = f" and {site.headroom:.0%} kept free" if site.headroom else ""
    link = (
        f"{site.name} can send {_mbps(site.egress_mbps)}; with {_mbps(site.background_mbps)} of other "
        f"traffic{kept}, {_mbps(site.reservable_mbps)} are left."
    )
    if jobs is None:
        return f"{link} A job sends nothing, so that bandwidth sets no bound."
    job = (
        f"A job sends {_number(traffic.sent_mbit_per_event)} Mb an event and takes "
        f"{_number(traffic.event_time_s)} s for it: {_mbps(traffic.job_mbps)}."
    )
    if jobs == 0:
        return f"{link} {job} Not even one job fits."
    more = event_time_for(jobs + 1, site, traffic.sent_mbit_per_event)
    at_once = "1 job fits at once" if jobs == 1 else f"{jobs} jobs fit at once"
    return (
        f"{link} {job} So {at_once}; one more would fit if an event took {_number(more)} s, counted through "
        "all stages."
    )


def _mbps(value: float) -> str:
    return f"{_number(value / 1000)} Gb/s" if value >= 1000 else f"{_number(value)} Mb/s"


def _number(value: float) -> str:
    """Four significant digits, without zeros at the end and without an exponent."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = max(0, 3 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
