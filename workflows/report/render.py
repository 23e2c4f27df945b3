"""The report's data as one HTML file that needs nothing else: style and charts are inside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from egretta.jobs import histograms
from egretta.jobs.plain import write_text
from egretta.kernels.version import __version__
from egretta.workflows.report import charts
from egretta.workflows.report.data import ReportData
from egretta.workflows.report.physics import curve_charts, range_tables
from egretta.workflows.summary import Trouble

_TROUBLES_SHOWN = 20
_TEXT_SHOWN = 300
_STANDING = {"pending": "to be tried again", "running": "being tried again"}
_STAGE_ORDER = ("start", "read", "decode", "embed", "knn", "link", "gnn", "wcc", "peel", "write")
# Colours of what became of events: good, mild, bad, none yet.
_EVENT_COLOURS = {"processed": 2, "quarantined": 6, "failed": 4, "pending": 5}

Chart = tuple[str, Markup, list[tuple[str, int]]]


def render(data: ReportData) -> str:
    """The report as HTML."""
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(number=_number, duration=_duration, moment=_moment, shorten=_shorten)
    room = files("egretta.workflows.report")
    template = environment.from_string((room / "report.html.j2").read_text(encoding="utf-8"))
    event_parts = _event_parts(data)
    bar = [(name, size, colour) for name, size, colour in event_parts if size]
    validation = data.validation or {}
    return template.render(
        data=data,
        css=Markup((room / "report.css").read_text(encoding="utf-8")),
        version=__version__,
        tiles=_tiles(data),
        events_bar=charts.stacked_bar(bar, label="Events by what became of them"),
        event_parts=[(name, _number(size), colour) for name, size, colour in event_parts],
        troubles=[_trouble(trouble) for trouble in data.troubles[:_TROUBLES_SHOWN]],
        more_troubles=max(0, len(data.troubles) - _TROUBLES_SHOWN),
        facts=_facts(data),
        charts=_charts(data),
        validation=range_tables(validation),
        curves=curve_charts(validation.get("curves", {})),
        **_stages(data),
    )


def write_report(data: ReportData, path: str | Path) -> None:
    """Write the report, whole or not at all. Raises SiteError or ResourceError."""
    write_text(path, render(data), what="the report")


def _event_parts(data: ReportData) -> list[tuple[str, int, int]]:
    events = data.events
    sizes = (events.processed, events.quarantined, events.failed, events.remaining)
    return [(name, size, colour) for (name, colour), size in zip(_EVENT_COLOURS.items(), sizes, strict=True)]


def _tiles(data: ReportData) -> list[tuple[str, str]]:
    events = data.events
    tiles = [
        (_number(events.processed), f"of {_number(events.expected)} events processed"),
        (_number(data.units.get("done", 0)), f"of {_number(sum(data.units.values()))} units done"),
    ]
    if data.span_s > 0:
        tiles.append((f"{charts.compact(round(events.processed / data.span_s, 1))} / s", "events, all jobs"))
        tiles.append((_duration(data.span_s), "from first to last job"))
    failed = data.attempts.get("failed", 0)
    tiles.append((_number(failed), "failed attempts"))
    if data.output_bytes:
        tiles.append((_bytes(data.output_bytes), "of tracks written"))
    return tiles


def _trouble(trouble: Trouble) -> dict[str, Any]:
    shown = asdict(trouble)
    shown["standing"] = _STANDING.get(trouble.state, trouble.state)
    if trouble.what == "file":
        shown["standing"] = "left out"
    return {key: _shorten(value, 1000) if isinstance(value, str) else value for key, value in shown.items()}


def _stages(data: ReportData) -> dict[str, Any]:
    """The stages in the order of an event's way, and what of the wall time is in none of them."""
    if data.events.processed == 0 or not data.stage_seconds:
        return {"stages": [], "stage_bar": "", "ms_per_event": ""}
    named = dict(sorted(data.stage_seconds.items(), key=lambda item: _place(item[0])))
    total = max(data.wall_s, sum(named.values()))
    rest = total - sum(named.values())
    if rest > 0.005 * total:
        named["other"] = rest
    per_event = 1000.0 / data.events.processed
    rows = []
    for index, (name, seconds) in enumerate(named.items()):
        counts = data.histograms.get(f"{histograms.TIME_PREFIX}{name}", [])
        rows.append(
            {
                "name": name,
                "colour": index % charts.N_COLOURS,
                "mean": _milliseconds(seconds * per_event),
                "share": f"{100 * seconds / total:.1f} %" if total else "-",
                "median": _quantile_ms(name, counts, 0.5),
                "high": _quantile_ms(name, counts, 0.95),
            }
        )
    parts = [(name, seconds, i) for i, (name, seconds) in enumerate(named.items())]
    return {
        "stages": rows,
        "stage_bar": charts.stacked_bar(parts, label="Time per event by stage"),
        "ms_per_event": f"{_milliseconds(total * per_event)} ms",
    }


def _place(stage: str) -> tuple[int, str]:
    """Where a stage comes on an event's way; those of other pipelines before the writing, by name."""
    if stage in _STAGE_ORDER:
        return 2 * _STAGE_ORDER.index(stage), ""
    return 2 * _STAGE_ORDER.index("write") - 1, stage


def _quantile_ms(stage: str, counts: list[float], fraction: float) -> str:
    """The geometric middle of the bin that a quantile falls into."""
    filled = np.cumsum(counts)
    if len(filled) == 0 or filled[-1] <= 0:
        return "-"
    edges = histograms.edges(f"{histograms.TIME_PREFIX}{stage}")
    bin_ = int(np.searchsorted(filled, fraction * filled[-1]))
    return _milliseconds(float(np.sqrt(edges[bin_] * edges[bin_ + 1])))


def _charts(data: ReportData) -> list[Chart]:
    found: list[Chart] = []
    line = data.timeline
    chart = charts.throughput(line.start, line.bin_s, line.rates)
    if chart:
        found.append(("Throughput", chart, [(host or "(unknown)", i) for i, host in enumerate(line.rates)]))
    for name, title in ((histograms.HITS, "Hits per event"), (histograms.TRACKS, "Tracks per event")):
        counts = data.histograms.get(name)
        if counts:
            chart = charts.histogram(
                counts, histograms.edges(name).tolist(), x_title=title.lower(), label=title
            )
            if chart:
                found.append((title, chart, []))
    return found


def _facts(data: ReportData) -> list[tuple[str, str]]:
    facts = [
        ("Pipeline", data.pipeline),
        ("Configuration hash", data.config_hash),
        ("Egretta version of the jobs", ", ".join(data.versions) or "-"),
        ("First job began", _moment(data.first_start)),
        ("Last job ended", _moment(data.last_end)),
        ("Wall time of all jobs", _duration(data.wall_s)),
        ("CPU time of all jobs", _duration(data.cpu_s)),
        ("Peak memory of a job", f"{data.peak_memory_mb:.0f} MB"),
        ("Read", _bytes(data.bytes_read)),
        ("Units", _in_words(data.units)),
        ("Attempts", _in_words(data.attempts)),
        ("Campaign file", data.spec_path),
        ("Output", data.output_directory),
    ]
    return facts + [(f"Total {name}", _number(count)) for name, count in data.counts.items()]


def _in_words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{_number(count)} {name}" for name, count in counts.items() if count) or "none"


def _number(value: float) -> str:
    return f"{value:,.0f}"


def _milliseconds(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _duration(seconds: float) -> str:
    unit, scale = charts.time_unit(seconds)
    return f"{seconds / scale:.1f} {unit}"


def _bytes(value: float) -> str:
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= scale:
            return f"{value / scale:.1f} {unit}"
    return f"{value:.0f} B"


def _moment(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _shorten(text: str, length: int = _TEXT_SHOWN) -> str:
    """Long texts cut in their middle, since both ends of a path say most."""
    if len(text) <= length:
        return text
    return f"{text[: length // 2]} … {text[-length // 2 :]}"
