"""Time and memory against the size of events: ``python -m benchmarks.occupancy``.

The pipeline, compiled and warm, on one core over simulated events of growing pile-up and over Upgrade 2's;
and the peak memory of a job for every file of events that there is.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import TYPE_CHECKING

from benchmarks.events import all_files, crowded
from benchmarks.processes import entries, one_core, run_job
from benchmarks.tables import Setting, Table, number, standalone

if TYPE_CHECKING:
    from egretta.jobs.pipelines.base import Pipeline
    from egretta.kernels.batches import HitBatch

_PILE_UPS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
_PARTS = 4
_STAGES = ("embed", "knn", "link", "gnn", "wcc", "peel")
_LIMIT_MB = 1000.0


@dataclass(frozen=True, slots=True)
class Point:
    """Events of about one size: milliseconds an event, in all and by stage."""

    name: str
    events: int
    hits: float
    ms: float
    stages_ms: tuple[float, ...]


def measure(setting: Setting) -> list[Table]:
    one_core()
    return [_growth(setting), _memory(setting)]


def _growth(setting: Setting) -> Table:
    from egretta.jobs.pipelines import make_pipeline
    from egretta.jobs.simulation.velo import generate_events

    pipeline = make_pipeline("velo", {})
    repeats = setting.size(2, 1)
    rows = []
    before: Point | None = None
    for pile_up in _PILE_UPS:
        n_events = setting.size(max(10, int(400 / pile_up)), 5)
        hits = generate_events(n_events, seed=11, preset="minbias", pile_up=pile_up).hits
        point = _time(pipeline, f"simulated, pile-up {pile_up:g}", hits, repeats)
        rows.append(_cells(point, before))
        before = point
    before = None
    name, parts = _by_size(setting)
    for number_of_part, part in enumerate(parts, 1):
        point = _time(pipeline, f"{name}, quarter {number_of_part} by hits", part, repeats)
        rows.append(_cells(point, before))
        before = point
    pipeline.close()
    return Table.of(
        "Time against hits, one core, the pipeline without reading and writing",
        ("events", "n", "hits/event", "ms/event", "us/hit", "exponent", *(f"{s} ms" for s in _STAGES)),
        rows,
        "exponent: d ln(time) / d ln(hits) from the row above; 1 is linear, 2 quadratic",
    )


def _by_size(setting: Setting) -> tuple[str, list[HitBatch]]:
    """The crowded events in order of their hits, in four parts."""
    import numpy as np

    from egretta.jobs.readers import open_source
    from egretta.kernels.batches import HitBatch

    sample = crowded(setting)
    with open_source(str(sample.path), "Velo") as source:
        n_events = min(source.n_entries, setting.size(10**9, 8))
        batches = [b for b in source.batches(0, n_events, 1) if isinstance(b, HitBatch)]
    batches.sort(key=lambda batch: batch.n_hits)
    cuts = np.linspace(0, len(batches), _PARTS + 1).astype(int)
    return sample.title, [_joined(batches[a:b]) for a, b in pairwise(cuts)]


def _joined(batches: list[HitBatch]) -> HitBatch:
    """Batches of one event each as one."""
    import numpy as np

    from egretta.kernels.batches import HitBatch

    joined = {
        f.name: np.concatenate([getattr(b, f.name) for b in batches])
        for f in fields(HitBatch)
        if f.name != "offsets"
    }
    offsets = np.cumsum([0, *[b.n_hits for b in batches]]).astype(np.int64)
    return HitBatch(offsets=offsets, **joined)


def _time(pipeline: Pipeline, name: str, hits: HitBatch, repeats: int) -> Point:
    seconds, stages = float("inf"), {}
    for _ in range(repeats + 1):  # the first is not to count, and is the slowest
        began = time.perf_counter()
        result = pipeline.process(hits)
        spent = time.perf_counter() - began
        if spent < seconds:
            seconds, stages = spent, dict(result.stage_seconds)
    n = hits.n_events
    per_stage = tuple(1e3 * stages.get(stage, 0.0) / n for stage in _STAGES)
    return Point(name, n, hits.n_hits / n, 1e3 * seconds / n, per_stage)


def _cells(point: Point, before: Point | None) -> list[str]:
    exponent = ""
    if before is not None and point.hits > 1.05 * before.hits:
        exponent = f"{math.log(point.ms / before.ms) / math.log(point.hits / before.hits):.2f}"
    return [
        point.name,
        str(point.events),
        number(point.hits),
        number(point.ms),
        number(1e3 * point.ms / point.hits),
        exponent,
        *[number(ms) for ms in point.stages_ms],
    ]


def _memory(setting: Setting) -> Table:
    rows = []
    for sample in all_files(setting):
        n_events = min(entries(sample.path), setting.size(10**9, 20))
        run = run_job(setting.work, sample.path, n_events)
        peak_mb = run.manifest.peak_memory_mb
        rows.append(
            [
                sample.title,
                f"{n_events:,}",
                number(run.manifest.counts["hits"] / n_events),
                number(peak_mb),
                number(run.outside_peak_mb),
                number(peak_mb / _LIMIT_MB),
            ]
        )
    return Table.of(
        "Peak memory of a job, every file",
        (
            "file",
            "events",
            "hits/event",
            "MB by manifest",
            "MB from outside",
            "of 1 GB",
        ),
        rows,
        f"batches of 200 events; to hold: at most {_LIMIT_MB:.0f} MB for any file",
    )


if __name__ == "__main__":
    standalone(measure, __doc__)
