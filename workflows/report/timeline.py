"""Throughput over time from the intervals in which units ran."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from egretta.workflows.report.data import Timeline

BINS = 60
NAMED_HOSTS = 4
OTHERS = "other hosts"


def make_timeline(
    hosts: Sequence[str],
    start: NDArray[np.float64],
    end: NDArray[np.float64],
    events: NDArray[np.float64],
    *,
    bins: int = BINS,
) -> Timeline:
    """Spread each unit's events evenly over its run and add them up in ``bins`` equal bins of time.

    All four have one element a unit; times are in seconds. The area under the rates is the number of events.
    """
    if len(hosts) == 0:
        return Timeline()
    # clocks are whole milliseconds, and a unit of no events may take none
    end = np.maximum(end, start + 1e-3)
    edges = np.linspace(start.min(), end.max(), bins + 1)
    bin_s = float(edges[1] - edges[0])
    names, code = np.unique(np.asarray(hosts, dtype=object).astype(str), return_inverse=True)
    cumulative = np.empty((bins + 1, len(names)))
    for i, edge in enumerate(edges):
        done = events * np.clip((edge - start) / (end - start), 0.0, 1.0)
        cumulative[i] = np.bincount(code, done, minlength=len(names))
    rates = np.diff(cumulative, axis=0).T / bin_s
    busiest = np.argsort(-rates.sum(axis=1), kind="stable")
    named = {str(names[i]): tuple(rates[i].tolist()) for i in busiest[:NAMED_HOSTS]}
    if len(busiest) > NAMED_HOSTS:
        named[OTHERS] = tuple(rates[busiest[NAMED_HOSTS:]].sum(axis=0).tolist())
    return Timeline(float(edges[0]), bin_s, named)
