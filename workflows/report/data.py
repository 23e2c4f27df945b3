"""What a report shows, as plain data: gathered once, drawn without asking anything again.

Lists of what may be long (files, quarantined events, hosts) hold the first of them and the count of all, and
times and sizes are aggregated, so that the report of a million units is no longer than that of ten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from egretta.workflows.summary import Trouble


@dataclass(frozen=True, slots=True)
class Check:
    """One part of the proof that every event was processed once: what is claimed, and whether it holds."""

    claim: str
    holds: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Events:
    """Events by what became of them; ``remaining`` are pending or running."""

    expected: int = 0
    processed: int = 0
    quarantined: int = 0
    failed: int = 0
    remaining: int = 0

    @property
    def accounted(self) -> int:
        """The sum of the parts: equal to ``expected``, or events were lost or counted twice."""
        return self.processed + self.quarantined + self.failed + self.remaining


@dataclass(frozen=True, slots=True)
class FileRow:
    """An input file: entries in it and used, events by what became of them; ``trouble`` for a bad file."""

    path: str
    entries: int
    used: int
    units: int
    processed: int
    quarantined: int
    failed: int
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class QuarantinedRow:
    """An event that was read but could not be processed."""

    path: str
    entry: int
    event: int
    failure_class: str
    reason: str


@dataclass(frozen=True, slots=True)
class HostRow:
    """What one machine did: units, processed events, seconds of wall and CPU time, its greatest memory."""

    host: str
    units: int
    events: int
    wall_s: float
    cpu_s: float
    peak_memory_mb: float

    @property
    def events_per_s(self) -> float:
        """Processed events a second of one job's wall time."""
        return self.events / self.wall_s if self.wall_s > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Timeline:
    """Processed events a second over time, by host: ``rates[host][b]`` in bins of ``bin_s`` seconds.

    ``start`` is in seconds since 1970. The busiest hosts have names, the others are together.
    """

    start: float = 0.0
    bin_s: float = 0.0
    rates: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReportData:
    """Everything in a report. Times are seconds since 1970; ``stage_seconds`` is wall time by stage, summed
    over the jobs; ``histograms`` is what jobs/histograms.py defines; ``validation`` what
    ``egretta validate --output`` wrote, with ``validation_note`` on anything odd about it.
    """

    campaign: str
    pipeline: str
    config_hash: str
    state: str
    sentence: str
    generated_at: float
    spec_path: str = ""
    output_directory: str = ""
    versions: tuple[str, ...] = ()
    units: Mapping[str, int] = field(default_factory=dict)
    events: Events = Events()
    checks: tuple[Check, ...] = ()
    first_start: float | None = None
    last_end: float | None = None
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_memory_mb: float = 0.0
    bytes_read: int = 0
    output_bytes: int = 0
    attempts: Mapping[str, int] = field(default_factory=dict)
    stage_seconds: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    histograms: Mapping[str, list[float]] = field(default_factory=dict)
    timeline: Timeline = Timeline()
    hosts: tuple[HostRow, ...] = ()
    n_hosts: int = 0
    troubles: tuple[Trouble, ...] = ()
    quarantined: tuple[QuarantinedRow, ...] = ()
    n_quarantined_events: int = 0
    files: tuple[FileRow, ...] = ()
    n_files: int = 0
    configuration: str = ""
    validation: Mapping[str, Any] | None = None
    validation_note: str = ""

    @property
    def span_s(self) -> float:
        """From the first job's start to the last one's end, pauses included."""
        if self.first_start is None or self.last_end is None:
            return 0.0
        return self.last_end - self.first_start
