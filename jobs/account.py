"""What a job adds up on its way, and the manifest that it makes of it."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from egretta.jobs.failures import class_of
from egretta.jobs.limits import peak_resident_mb
from egretta.jobs.manifest import Failure, Manifest, Quarantined
from egretta.jobs.unit import Unit
from egretta.kernels.errors import EgrettaError
from egretta.kernels.version import __version__

if TYPE_CHECKING:
    from egretta.jobs.histograms import Histograms
    from egretta.jobs.writers import Output


@dataclass(slots=True)
class Account:
    """The sums of one attempt; kept apart from the work so that a failed attempt can be accounted for too."""

    unit: Unit
    began: float = field(default_factory=time.perf_counter)
    started_at: str = field(default_factory=lambda: _now())
    events_processed: int = 0
    quarantined: list[Quarantined] = field(default_factory=list)
    bytes_read: int = 0
    stage_seconds: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def add_seconds(self, stages: Mapping[str, float]) -> None:
        """Add wall time by stage."""
        for stage, seconds in stages.items():
            self.stage_seconds[stage] = self.stage_seconds.get(stage, 0.0) + seconds

    def add_counts(self, counts: Mapping[str, int]) -> None:
        """Add what a pipeline counted."""
        for name, count in counts.items():
            self.counts[name] = self.counts.get(name, 0) + int(count)

    def success(self, output: Output, histograms: Histograms) -> Manifest:
        """The manifest of an attempt whose output is in place."""
        return self._manifest(
            events_processed=self.events_processed,
            quarantined=tuple(self.quarantined),
            output=output.path.name,
            output_bytes=output.bytes,
            checksum=output.checksum,
            histograms=histograms.as_lists(),
        )

    def failed(self, error: EgrettaError) -> Manifest:
        """The manifest of an attempt that left nothing: no event counts as processed."""
        failure = Failure(class_of(error).value, type(error).__name__, error.message, error.hint)
        return self._manifest(failure=failure)

    def _manifest(
        self,
        *,
        events_processed: int = 0,
        quarantined: tuple[Quarantined, ...] = (),
        output: str | None = None,
        output_bytes: int = 0,
        checksum: str | None = None,
        histograms: dict[str, list[float]] | None = None,
        failure: Failure | None = None,
    ) -> Manifest:
        unit = self.unit
        times = os.times()
        return Manifest(
            unit_id=unit.unit_id,
            attempt=unit.attempt,
            campaign=unit.campaign,
            config_hash=unit.config_hash,
            file=unit.file,
            file_uuid=unit.file_uuid,
            start=unit.start,
            stop=unit.stop,
            events_processed=events_processed,
            quarantined=quarantined,
            output=output,
            output_bytes=output_bytes,
            checksum=checksum,
            bytes_read=self.bytes_read,
            wall_seconds=time.perf_counter() - self.began,
            cpu_seconds=times.user + times.system,
            peak_memory_mb=peak_resident_mb(),
            host=platform.node(),
            started_at=self.started_at,
            finished_at=_now(),
            version=__version__,
            stage_seconds=dict(self.stage_seconds),
            counts=dict(self.counts),
            histograms=histograms or {},
            failure=failure,
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
