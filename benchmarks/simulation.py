"""Speed of the VELO generator: ``python benchmarks/simulation.py [--events N] [--workers N]``.

Reports events a second by wall clock and by CPU time (all threads), for making events alone and for making
and writing them. Numba's compilation is left out.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from egretta.jobs.simulation.velo import BLOCK_EVENTS, generate_block
from egretta.jobs.simulation.writing import Format, simulate_velo

FORMATS: dict[str, tuple[Format, ...]] = {
    "hits": ("hits",),
    "banks": ("banks",),
    "both": ("banks", "hits"),
}


def measured(work: Callable[[], object], n_events: int) -> dict[str, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"events_per_second": n_events / wall, "events_per_cpu_second": n_events / cpu}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--preset", default="bsphiphi")
    options = parser.parse_args()
    n_events = max(options.events // BLOCK_EVENTS, 1) * BLOCK_EVENTS
    generate_block(0, seed=0, preset=options.preset)

    def generate() -> None:
        for block in range(n_events // BLOCK_EVENTS):
            generate_block(block, seed=1, preset=options.preset)

    results: dict[str, dict[str, float]] = {"generate": measured(generate, n_events)}
    with tempfile.TemporaryDirectory() as directory:
        for name, formats in FORMATS.items():
            path = Path(directory) / f"{name}.root"

            def write(path: Path = path, formats: tuple[Format, ...] = formats) -> None:
                simulate_velo(path, n_events, preset=options.preset, formats=formats, workers=options.workers)

            # the writers' imports and kernels are loaded before the clock starts
            simulate_velo(path, BLOCK_EVENTS, preset=options.preset, formats=formats)
            results[name] = measured(write, n_events)
            results[name]["kilobytes_per_event"] = path.stat().st_size / n_events / 1e3
    peak = psutil.Process().memory_info().rss / 1e6
    print(
        json.dumps({"events": n_events, "workers": options.workers, "memory_mb": peak, **results}, indent=1)
    )


if __name__ == "__main__":
    main()
