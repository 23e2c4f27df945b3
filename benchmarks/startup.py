"""What starting takes: ``python -m benchmarks.startup``. Wall time of whole processes."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

from benchmarks.events import with_truth
from benchmarks.processes import run_job, timed_process
from benchmarks.tables import Setting, Table, number, standalone, times


def measure(setting: Setting) -> list[Table]:
    sample = with_truth(setting, "bsphiphi")
    run_job(setting.work, sample.path, 1, tree="Velo")  # compiled kernels are on disk from here on
    egretta = str(Path(sys.executable).parent / "egretta")
    libraries = "import awkward, numba, onnx, uproot"
    repeats = setting.size(10, 3)
    python_s = _median_s([sys.executable, "-c", "pass"], repeats)
    rows = []
    for name, seconds, goal in (
        ("python -c pass", python_s, ""),
        ("egretta --help", _median_s([egretta, "--help"], repeats), "≤ 0.5 s"),
        (f"python -c '{libraries}'", _median_s([sys.executable, "-c", libraries], repeats), ""),
        ("python -m egretta.jobs, a unit of 0 events", _job_s(setting, sample.path, 0, repeats), ""),
        ("python -m egretta.jobs, a unit of 1 event", _job_s(setting, sample.path, 1, repeats), ""),
    ):
        rows.append([name, number(seconds), times(seconds, python_s), goal])
    return [
        Table.of(
            f"Start-up, median of {repeats}",
            ("command", "s", "against bare Python", "to reach"),
            rows,
            "files in the system's cache, kernels compiled before; the third line is the libraries' own "
            "share of a job's start",
        )
    ]


def _median_s(words: list[str], repeats: int) -> float:
    timed_process(words)
    return statistics.median(timed_process(words)[0] for _ in range(repeats))


def _job_s(setting: Setting, file: Path, events: int, repeats: int) -> float:
    return statistics.median(run_job(setting.work, file, events, tree="Velo").wall_s for _ in range(repeats))


if __name__ == "__main__":
    standalone(measure, __doc__)
