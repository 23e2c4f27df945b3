"""Speed of a whole VELO job, file to file on one core, beside velopix: ``python -m benchmarks.velo_speed``.

A job is ``python -m egretta.jobs UNIT.json``. It runs on a short file and on the same events over and over;
the steady rate is that of the events which the long run has more, so that start-up cancels out.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.events import Sample, repeated, simulated, with_truth
from benchmarks.processes import JobRun, one_core, run_job, steady_events_per_s
from benchmarks.tables import Setting, Table, number, standalone, times

_STAGES = ("read", "decode", "embed", "knn", "link", "gnn", "wcc", "peel", "write", "other")
_GOAL = "≥ 5x, aim 10x"


@dataclass(frozen=True, slots=True)
class PeerRate:
    """velopix in events a second: its search alone, and from the file to lists of tracks."""

    search: float
    from_file: float


def measure(setting: Setting) -> list[Table]:
    one_core()
    sample = with_truth(setting, "bsphiphi")
    short_events = setting.size(150, 20)
    copies = setting.size(20, 5)
    short_file, medium_file, long_file = (
        setting.work / f"{name}.root" for name in ("short", "medium", "long")
    )
    repeated(sample, 1, short_file, short_events)
    n_medium = repeated(sample, max(copies // 5, 2), medium_file, short_events)
    n_long = repeated(sample, copies, long_file, short_events)
    run_job(setting.work, short_file, 1)  # compiled kernels are on disk from here on
    short = _median([run_job(setting.work, short_file, short_events) for _ in range(setting.size(5, 1))])
    long = _median([run_job(setting.work, long_file, n_long) for _ in range(setting.size(3, 1))])
    peer = _velopix(sample, short_events, setting.size(3, 1))
    return [
        _whole(sample, short, long, peer),
        _stages(short, long),
        _engines(setting, short_file, medium_file, n_medium),
        _inputs(setting),
    ]


def _median(runs: list[JobRun]) -> JobRun:
    return sorted(runs, key=lambda run: run.wall_s)[len(runs) // 2]


def _velopix(sample: Sample, n_events: int, repeats: int) -> PeerRate:
    """The median of some passes over the events."""
    from velopix.DetectorEvent import Event
    from velopix.ReconstructionAlgorithms import SearchByTripletTrie

    from benchmarks.velopix_peer import peer_events, read_hits

    read_hits(str(sample.path), 1)  # uproot's first use is not velopix's to pay
    solver = SearchByTripletTrie()
    passes = []
    for _ in range(repeats):
        search_s = 0.0
        began = time.perf_counter()
        for event in peer_events(read_hits(str(sample.path), n_events)):
            peer_event = Event(event.data)
            search_began = time.perf_counter()
            solver.solve(peer_event)
            search_s += time.perf_counter() - search_began
        passes.append((time.perf_counter() - began, search_s))
    whole_s, search_s = sorted(passes)[repeats // 2]
    return PeerRate(n_events / search_s, n_events / whole_s)


def _whole(sample: Sample, short: JobRun, long: JobRun, peer: PeerRate) -> Table:
    steady = steady_events_per_s(short, long)
    rates = (
        (f"Egretta job, {short.events:,} events, start-up included", short.events_per_s),
        (f"Egretta job, {long.events:,} events, start-up included", long.events_per_s),
        ("Egretta job, steady", steady),
        ("velopix, from file to tracks in memory", peer.from_file),
        ("velopix, search alone", peer.search),
    )
    rows = [
        [name, number(rate), number(1e3 / rate), times(rate, peer.from_file), times(rate, peer.search)]
        for name, rate in rates
    ]
    rows[2].append(_GOAL)
    return Table.of(
        f"Whole job on one core, {sample.title}",
        ("", "events/s", "ms/event", "over velopix from file", "over its search alone", "to reach"),
        [row if len(row) == 6 else [*row, ""] for row in rows],
        "the long file holds the short one's events over and over; start-up, "
        f"{_start_up_s(short, steady):.2f} s of the short run, is Python, libraries, models and loading "
        "compiled kernels; medians of repeated runs",
        "a job reads hits, tracks, fits and writes a ROOT file with its checksum; velopix only finds tracks: "
        "`search alone` is timed without making its objects, `from file` with uproot reading and making "
        "them; neither fits or writes",
    )


def _start_up_s(short: JobRun, steady: float) -> float:
    return short.wall_s - short.events / steady


def _steady_ms(short: JobRun, long: JobRun, stage: str) -> float:
    """Milliseconds an event in a stage, of the events that the longer run has more."""
    seconds = [run.manifest.stage_seconds.get(stage, 0.0) for run in (short, long)]
    return 1e3 * (seconds[1] - seconds[0]) / (long.events - short.events)


def _stages(short: JobRun, long: JobRun) -> Table:
    steady = [_steady_ms(short, long, stage) for stage in _STAGES]
    rows = [
        [
            stage,
            number(ms),
            f"{100 * ms / sum(steady):.1f} %",
            number(long.stage_ms(stage)),
            number(short.stage_ms(stage)),
        ]
        for stage, ms in zip(_STAGES, steady, strict=True)
    ]
    whole = [sum(run.stage_ms(stage) for stage in _STAGES) for run in (long, short)]
    rows.append(["all of these", number(sum(steady)), "100 %", *[number(ms) for ms in whole]])
    runs = (long, short)
    for name, values in (
        ("start (once a job), ms", [1e3 * r.manifest.stage_seconds.get("start", 0.0) for r in runs]),
        ("hits/event", [r.manifest.counts["hits"] / r.events for r in runs]),
        ("tracks/event", [r.manifest.counts["tracks"] / r.events for r in runs]),
        ("kB read/event", [r.manifest.bytes_read / r.events / 1e3 for r in runs]),
        ("kB written/event", [r.manifest.output_bytes / r.events / 1e3 for r in runs]),
        ("peak memory by the manifest, MB", [r.manifest.peak_memory_mb for r in runs]),
        ("peak memory from outside (VmHWM), MB", [r.outside_peak_mb for r in runs]),
    ):
        rows.append([name, "", "", *[number(value) for value in values]])
    return Table.of(
        "Where a job's time goes, ms an event by the manifest",
        ("", "steady", "share", f"{long.events:,} events", f"{short.events:,} events"),
        rows,
        "steady: the events that the long run has more; the runs' own figures hold the loading of compiled "
        "kernels too. For hits, `decode` is their check",
    )


def _engines(setting: Setting, short_file: Path, medium_file: Path, n_medium: int) -> Table:
    rows, fused = [], None
    for engine in ("fused", "onnxruntime"):
        options = {"inference": {"engine": engine}}
        short = run_job(setting.work, short_file, setting.size(150, 20), options=options)
        medium = run_job(setting.work, medium_file, n_medium, options=options)
        steady = steady_events_per_s(short, medium)
        fused = steady if fused is None else fused
        embed, gnn = medium.stage_ms("embed"), medium.stage_ms("gnn")
        memory = medium.manifest.peak_memory_mb
        cells = [number(value) for value in (steady, embed, gnn, memory)]
        rows.append([engine, *cells, times(steady, fused)])
    return Table.of(
        f"Engines, same events and weights, one core, {n_medium:,} events",
        ("engine", "steady events/s", "embed ms/event", "gnn ms/event", "peak MB", "against fused"),
        rows,
    )


def _inputs(setting: Setting) -> Table:
    n_events = setting.size(1000, 20)
    sample = simulated(setting, n_events, "bsphiphi")
    kinds: tuple[tuple[str, str, Mapping[str, Any]], ...] = (
        ("hits", "Velo", {}),
        ("retina banks", "RawEvent", {"pipeline": {"banks": "retina"}}),
        ("super-pixel banks", "RawEvent", {"pipeline": {"banks": "superpixel"}}),
    )
    rows, hits_ms = [], 0.0
    for name, tree, options in kinds:
        short, long = (
            run_job(setting.work, sample.path, events, tree=tree, options=options)
            for events in (n_events // 5, n_events)
        )
        whole_ms = sum(_steady_ms(short, long, stage) for stage in _STAGES)
        hits_ms = hits_ms or whole_ms
        read, decode = (_steady_ms(short, long, stage) for stage in ("read", "decode"))
        values = (read, decode, whole_ms, long.manifest.bytes_read / long.events / 1e3)
        rows.append([name, *[number(value) for value in values], times(whole_ms, hits_ms)])
    return Table.of(
        f"Input, {n_events:,} simulated bsphiphi events with both trees, one core, steady",
        ("input", "read ms/event", "decode ms/event", "whole ms/event", "kB read/event", "against hits"),
        rows,
        "an event's banks of both kinds lie in one tree, so that a job reads both whichever it decodes",
    )


if __name__ == "__main__":
    standalone(measure, __doc__)
