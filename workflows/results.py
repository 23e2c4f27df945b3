"""What the methods of a campaign answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from egretta.throttling.planner import BandwidthPlan
from egretta.workflows.dataset import BadFile
from egretta.workflows.runner import RunEnd
from egretta.workflows.states import UnitState
from egretta.workflows.summary import Totals, Trouble


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file of the plan: its entries, how many of them are used, and in how many units."""

    path: str
    tree: str | None
    kind: str
    entries: int
    used: int
    units: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run will do. ``expected_wall_s`` rests on ``events_per_s``, which the campaign file declares.

    ``changes`` says what differs from the campaign that was started here; with any, it cannot go on.
    ``sites`` holds jobs at once by site, if bandwidth was declared, and ``bandwidth`` that of the campaign's
    site, if it is only one.
    """

    campaign: str
    pipeline: str
    config_hash: str
    output_directory: str
    started: bool
    changes: tuple[str, ...]
    files: tuple[PlannedFile, ...]
    bad_files: tuple[BadFile, ...]
    entries: int
    units: int
    entries_per_unit: int | None
    workers: int
    events_per_s: float
    expected_cpu_s: float
    expected_wall_s: float
    bandwidth: BandwidthPlan | None
    sites: Mapping[str, BandwidthPlan]


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended (``reason`` says why it paused) and where the campaign stands."""

    end: RunEnd
    reason: str
    totals: Totals


@dataclass(frozen=True, slots=True)
class Status:
    """Where a campaign stands. ``deltas`` are the units by state since the last look."""

    campaign: str
    started: bool
    running: bool
    totals: Totals
    deltas: Mapping[UnitState, int]
    troubles: tuple[Trouble, ...]
    skipped_files: tuple[Mapping[str, Any], ...]

    @property
    def finished(self) -> bool:
        """True once no unit waits or runs."""
        return self.started and self.totals.finished

    @property
    def flawless(self) -> bool:
        """True once every unit is done."""
        return self.started and self.totals.flawless


@dataclass(frozen=True, slots=True)
class RetryResult:
    """How much was made pending again."""

    units: int
    events: int
