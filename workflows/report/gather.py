"""From a campaign's ledger and manifests to the data of its report. Reads, changes nothing."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egretta.workflows.campaign import Campaign, Status, require_started
from egretta.workflows.ledger import Ledger
from egretta.workflows.report.data import Check, Events, FileRow, HostRow, QuarantinedRow, ReportData
from egretta.workflows.report.timeline import make_timeline
from egretta.workflows.states import UnitState
from egretta.workflows.validation.metrics import RANGES

LISTED = 50
VALIDATION = "validation.json"


@dataclass(slots=True)
class _Sums:
    """What the manifests that stand add up to."""

    units: int = 0
    processed: int = 0
    quarantined: int = 0
    bytes_read: int = 0
    output_bytes: int = 0
    stage_seconds: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    histograms: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    versions: set[str] = field(default_factory=set)
    hosts: list[str] = field(default_factory=list)
    start: list[float] = field(default_factory=list)
    end: list[float] = field(default_factory=list)
    events: list[float] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)
    cpu_of_unit: list[float] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)

    def add(self, manifest: dict[str, Any]) -> None:
        self.units += 1
        self.processed += manifest["events_processed"]
        self.quarantined += len(manifest["quarantined"])
        self.bytes_read += manifest["bytes_read"]
        self.output_bytes += manifest["output_bytes"]
        self.stage_seconds.update(manifest["stage_seconds"])
        self.counts.update(manifest["counts"])
        for name, counts in manifest["histograms"].items():
            self.histograms[name] = self.histograms.get(name, 0.0) + np.asarray(counts)
        self.versions.add(manifest["version"])
        self.hosts.append(manifest["host"])
        self.events.append(manifest["events_processed"])
        self.wall_s.append(manifest["wall_seconds"])
        self.cpu_of_unit.append(manifest["cpu_seconds"])
        self.memory_mb.append(manifest["peak_memory_mb"])
        end = _seconds(manifest["finished_at"])
        self.end.append(end)
        self.start.append(_seconds(manifest["started_at"]) or end - manifest["wall_seconds"])


def gather(campaign: Campaign, *, now: float | None = None) -> ReportData:
    """Read all that the report shows. Raises UsageError for a campaign that has not been started."""
    require_started(campaign)
    status = campaign.status()
    with campaign.ledger() as ledger:
        sums = _Sums()
        # the ledger checked them when it took them in; to check them again would take ten times longer
        for (text,) in ledger.connection.execute("SELECT text FROM manifests ORDER BY unit"):
            sums.add(json.loads(text))
        files, n_files = _files(ledger)
        quarantined, n_quarantined = _quarantined(ledger)
        attempts = dict(ledger.connection.execute("SELECT state, count(*) FROM attempts GROUP BY state"))
        events = Events(**status.totals.events())
        validation, note = _validation(campaign.layout.directory)
        hosts = _hosts(sums)
        known = [moment for moment in sums.start if moment > 0]
        return ReportData(
            campaign=campaign.spec.campaign.name,
            pipeline=campaign.spec.campaign.pipeline,
            config_hash=str(ledger.meta("config_hash")),
            state=state_of(status),
            sentence=sentence_of(status),
            generated_at=time.time() if now is None else now,
            spec_path=str(campaign.spec.path),
            output_directory=str(campaign.layout.directory),
            versions=tuple(sorted(sums.versions)),
            units={str(state): count for state, count in status.totals.units.items()},
            events=events,
            checks=_checks(ledger, events, sums),
            first_start=min(known, default=None),
            last_end=max(sums.end) if known else None,
            wall_s=sum(sums.wall_s),
            cpu_s=sum(sums.cpu_of_unit),
            peak_memory_mb=max(sums.memory_mb, default=0.0),
            bytes_read=sums.bytes_read,
            output_bytes=sums.output_bytes,
            attempts=attempts,
            stage_seconds=dict(sums.stage_seconds),
            counts=dict(sums.counts),
            histograms={name: counts.tolist() for name, counts in sums.histograms.items()},
            timeline=make_timeline(
                sums.hosts, np.array(sums.start), np.array(sums.end), np.array(sums.events, dtype=np.float64)
            ),
            hosts=hosts[:LISTED],
            n_hosts=len(hosts),
            troubles=status.troubles,
            quarantined=quarantined,
            n_quarantined_events=n_quarantined,
            files=files,
            n_files=n_files,
            configuration=str(ledger.meta("spec_text") or ""),
            validation=validation,
            validation_note=note,
        )


def state_of(status: Status) -> str:
    """One word: running, done, incomplete or failed."""
    if status.running:
        return "running"
    if status.flawless:
        return "done"
    return "failed" if status.finished else "incomplete"


def sentence_of(status: Status) -> str:
    """Where the campaign stands, in a sentence."""
    totals = status.totals
    kept = f"{totals.processed:,} of {totals.expected:,} events are processed"
    waiting = totals.units[UnitState.PENDING] + totals.units[UnitState.RUNNING]
    lost = totals.units[UnitState.FAILED] + totals.units[UnitState.QUARANTINED]
    if totals.expected == 0:
        return "The input holds no events, so there was nothing to do."
    if status.running:
        return f"A runner is at work: {kept}, {waiting:,} units wait or run."
    if status.flawless and totals.quarantined:
        return f"{kept}; the other {totals.quarantined:,} are quarantined and named below."
    if status.flawless:
        return f"All {totals.expected:,} events are processed, each once."
    if status.finished:
        return f"Nothing is left to run, but {lost:,} units failed or are quarantined: {kept}."
    return f"Not finished: {kept}, {waiting:,} units wait. `egretta run` continues."


def _checks(ledger: Ledger, events: Events, sums: _Sums) -> tuple[Check, ...]:
    """Recount from the rows themselves what must hold if every event was processed once."""
    db = ledger.connection
    overlaps = db.execute(
        "SELECT count(*) FROM (SELECT start, lag(stop, 1, 0) OVER "
        "(PARTITION BY file ORDER BY start) AS before FROM units) WHERE start != before"
    ).fetchone()[0]
    uncovered = db.execute(
        "SELECT count(*) FROM (SELECT used, coalesce(sum(stop - start), 0) AS covered FROM files "
        "LEFT JOIN units USING (file) GROUP BY file) WHERE used != covered"
    ).fetchone()[0]
    done, processed, alone = db.execute(
        "SELECT count(*), coalesce(sum(processed), 0), coalesce(sum(quarantined), 0) FROM units "
        "WHERE state = 'done'"
    ).fetchone()
    unequal = db.execute(
        "SELECT count(*) FROM units WHERE state = 'done' AND processed + quarantined != stop - start"
    ).fetchone()[0]
    return (
        Check(
            "Units cover every entry once",
            overlaps == 0 and uncovered == 0,
            "in every file, each unit begins where the one before it ends, from the first entry to the last"
            if not overlaps and not uncovered
            else f"{overlaps:,} units begin elsewhere, {uncovered:,} files are not covered",
        ),
        Check(
            "Every finished unit has one manifest",
            done == sums.units,
            f"{done:,} units done, {sums.units:,} manifests; a second one would have been turned away",
        ),
        Check(
            "Every manifest accounts for all events of its unit",
            unequal == 0 and (processed, alone) == (sums.processed, sums.quarantined),
            f"the manifests add up to {sums.processed:,} processed and {sums.quarantined:,} quarantined"
            + (f"; {unequal:,} units do not add up" if unequal else ""),
        ),
        Check(
            "Nothing lost, nothing twice",
            events.accounted == events.expected,
            f"{events.expected:,} expected, {events.accounted:,} accounted for",
        ),
    )


def _files(ledger: Ledger) -> tuple[tuple[FileRow, ...], int]:
    """The first files, those in trouble before the others, and the number of all."""
    rows = ledger.connection.execute(
        "SELECT path, entries, used, count(unit), coalesce(sum(processed), 0), "
        "coalesce(sum(quarantined + (state = 'quarantined') * (stop - start)), 0) AS lost, "
        "coalesce(sum((state = 'failed') * (stop - start)), 0) AS failed, coalesce(files.message, '') "
        "FROM files LEFT JOIN units USING (file) GROUP BY file "
        "ORDER BY files.failure_class IS NULL, lost + failed = 0, file LIMIT ?",
        (LISTED,),
    )
    count = ledger.connection.execute("SELECT count(*) FROM files").fetchone()[0]
    return tuple(FileRow(*row) for row in rows), count


def _quarantined(ledger: Ledger) -> tuple[tuple[QuarantinedRow, ...], int]:
    rows = ledger.connection.execute(
        "SELECT path, entry, event, q.failure_class, reason FROM quarantined_events AS q "
        "JOIN units USING (unit) JOIN files USING (file) ORDER BY unit, entry LIMIT ?",
        (LISTED,),
    )
    count = ledger.connection.execute("SELECT count(*) FROM quarantined_events").fetchone()[0]
    return tuple(QuarantinedRow(*row) for row in rows), count


def _hosts(sums: _Sums) -> tuple[HostRow, ...]:
    """What each host did, the busiest first."""
    names, code = np.unique(np.asarray(sums.hosts, dtype=object).astype(str), return_inverse=True)
    memory = np.zeros(len(names))
    np.maximum.at(memory, code, np.array(sums.memory_mb))

    def per_host(values: list[float] | None = None) -> Any:
        return np.bincount(code, values, minlength=len(names))

    columns = (per_host(), per_host(sums.events), per_host(sums.wall_s), per_host(sums.cpu_of_unit), memory)
    rows = [
        HostRow(str(host), int(units), int(events), float(wall), float(cpu), float(peak))
        for host, units, events, wall, cpu, peak in zip(names, *columns, strict=True)
    ]
    return tuple(sorted(rows, key=lambda row: -row.events))


def _validation(directory: Path) -> tuple[dict[str, Any] | None, str]:
    """What ``egretta validate --output`` left beside the outputs, and a remark on it."""
    path = directory / VALIDATION
    if not path.is_file():
        return None, ""
    try:
        figures = json.loads(path.read_text(encoding="utf-8"))
        whole = isinstance(figures, dict) and all(isinstance(figures.get(name), dict) for name in RANGES)
    except (OSError, ValueError):
        whole = False
    if not whole:
        return None, f"{path} is not what `egretta validate --output` writes, and is left out."
    tracks = directory / "tracks.root"
    if tracks.is_file() and tracks.stat().st_mtime > path.stat().st_mtime:
        return figures, "The tracks were merged again after this validation."
    return figures, ""


def _seconds(iso: str) -> float:
    return datetime.fromisoformat(iso).timestamp() if iso else 0.0
