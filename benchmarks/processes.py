"""Jobs as a backend runs them: a process for a unit, on one core, watched from outside."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from egretta.jobs.manifest import Manifest
from egretta.jobs.unit import Unit

_LOOK_EVERY_S = 0.02
_ONE_THREAD = ("EGRETTA_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class JobRun:
    """One job: its manifest; its process's wall time and memory, seen from outside."""

    manifest: Manifest
    wall_s: float
    outside_peak_mb: float

    @property
    def events(self) -> int:
        """Events that came through."""
        return self.manifest.events_processed

    @property
    def events_per_s(self) -> float:
        """Start-up included."""
        return self.events / self.wall_s

    def stage_ms(self, stage: str) -> float:
        """Milliseconds an event."""
        return 1e3 * self.manifest.stage_seconds.get(stage, 0.0) / self.events


def one_core() -> int:
    """Confine this process and its children to one thread on one core; which core.

    Call it before NumPy is imported: its BLAS reads the number of threads once.
    """
    for variable in _ONE_THREAD:
        os.environ[variable] = "1"
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


def timed_process(words: list[str], *, ok: bool = True) -> tuple[float, float]:
    """Run a command: its wall seconds, and its largest resident set in MB as seen from outside.

    The peak is VmHWM, read every 20 ms until the end. Raises RuntimeError with its output if it fails.
    """
    began = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    peak_kb = 0
    while process.poll() is None:
        peak_kb = max(peak_kb, _high_water_kb(process.pid))
        try:
            process.wait(_LOOK_EVERY_S)
        except subprocess.TimeoutExpired:
            continue
    wall_s = time.perf_counter() - began
    said = process.stdout.read() if process.stdout else ""
    if process.returncode and ok:
        raise RuntimeError(f"{' '.join(words)} ended with {process.returncode}: {said[-2000:]}")
    return wall_s, peak_kb * 1024 / 1e6


def _high_water_kb(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


def run_job(
    work: Path,
    file: Path,
    stop: int,
    *,
    start: int = 0,
    tree: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> JobRun:
    """Run ``python -m egretta.jobs`` on entries [start, stop) of a file. Raises RuntimeError if it fails."""
    number = len(list(work.glob("b*.unit.json")))
    unit = Unit(
        unit_id=f"b{number:04d}",
        attempt=1,
        campaign="benchmark",
        config_hash="0" * 16,
        pipeline="velo",
        file=str(file),
        file_uuid="",
        start=start,
        stop=stop,
        output_directory=str(work),
        tree=tree,
        pipeline_options=dict(options or {}),
    )
    order = work / f"{unit.unit_id}.unit.json"
    unit.write(order)
    wall_s, outside_mb = timed_process([sys.executable, "-m", "egretta.jobs", str(order)])
    return JobRun(Manifest.load(unit.manifest_path), wall_s, outside_mb)


def output_of(work: Path, run: JobRun) -> Path:
    """The tracks that a job wrote."""
    return work / str(run.manifest.output)


def entries(file: Path, tree: str | None = None) -> int:
    """Number of events in a file of any format."""
    from egretta.jobs.readers import open_source

    with open_source(str(file), tree) as source:
        return source.n_entries


def steady_events_per_s(short: JobRun, long: JobRun) -> float:
    """The rate of the events that the longer run has more: what start-up takes cancels out.

    Not a number where the longer run took no longer: too few events for a machine as busy as this one.
    """
    more_s = long.wall_s - short.wall_s
    return (long.events - short.events) / more_s if more_s > 0 else math.nan
