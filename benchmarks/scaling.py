"""Campaigns with one and two workers over the same file: ``python -m benchmarks.scaling``.

``egretta run`` processes the file in two units, then a quarter of it in two units. The steady rate is that of
the events which the larger campaign has more: what the runner and the jobs take to start cancels out.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
from pathlib import Path

from benchmarks.events import repeated, with_truth
from benchmarks.processes import run_job, timed_process
from benchmarks.tables import Setting, Table, number, standalone, times

_GOAL = "≥ 1.8x"
_UNITS = 2


def measure(setting: Setting) -> list[Table]:
    sample = with_truth(setting, "bsphiphi")
    file = setting.work / "long.root"
    n_long = repeated(sample, setting.size(24, 4), file, setting.size(150, 20))
    n_short = n_long // 4
    run_job(setting.work, file, 1)
    # alternated, so that what else the machine does falls on both alike
    seconds: dict[tuple[int, int], list[float]] = {}
    for _ in range(setting.size(2, 1)):
        for workers in (1, 2):
            for events in (n_short, n_long):
                seconds.setdefault((workers, events), []).append(_campaign_s(setting, file, events, workers))
    best = {key: min(values) for key, values in seconds.items()}
    whole = {w: n_long / best[w, n_long] for w in (1, 2)}
    more_s = {w: best[w, n_long] - best[w, n_short] for w in (1, 2)}
    # not a number where the machine was so busy that more events took no longer
    steady = {w: (n_long - n_short) / s if s > 0 else math.nan for w, s in more_s.items()}
    rows = [
        [str(w), number(whole[w]), times(whole[w], whole[1]), number(steady[w]), times(steady[w], steady[1])]
        for w in (1, 2)
    ]
    rows[1].append(_GOAL)
    rows[0].append("")
    return [
        Table.of(
            f"Campaign with one and two workers, {sample.title} over and over, {n_long:,} events",
            ("workers", "events/s, whole", "ratio", "events/s, steady", "ratio", "to reach"),
            rows,
            f"{len(os.sched_getaffinity(0))} cores; the shortest of {len(seconds[1, n_long])} runs of "
            f"`egretta run` on {_UNITS} units; steady: the events of {n_long:,} beyond the first {n_short:,}",
        )
    ]


def _campaign_s(setting: Setting, file: Path, events: int, workers: int) -> float:
    directory = setting.work / "campaign"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    spec = directory / "campaign.toml"
    spec.write_text(
        f"""[campaign]
name = "scaling"
pipeline = "velo"
[input]
files = ["{file}"]
max_events = {events}
[splitting]
by = "entries"
entries_per_unit = {-(-events // _UNITS)}
[backend]
name = "local"
workers = {workers}
"""
    )
    egretta = Path(sys.executable).parent / "egretta"
    return timed_process([str(egretta), "run", str(spec)])[0]


if __name__ == "__main__":
    standalone(measure, __doc__)
