"""What a pipeline is to the job that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from egretta.kernels.batches import BankBatch, HitBatch, TrackBatch


@dataclass(frozen=True, slots=True)
class RejectedEvent:
    """An event that the pipeline could not process; the job quarantines it."""

    index: int
    failure_class: str
    reason: str


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The pipeline's answer to one batch.

    ``tracks`` holds every event of the batch in order, the rejected ones with no tracks;
    ``stage_seconds`` and ``counts`` are added up over the batches by the job.
    """

    tracks: TrackBatch
    hits: HitBatch
    rejected: tuple[RejectedEvent, ...] = ()
    stage_seconds: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)


class Pipeline(Protocol):
    """Turns batches of banks or hits into batches of tracks. Built once a job, used for all its batches."""

    def process(self, batch: BankBatch | HitBatch) -> BatchResult:
        """Process one batch. Events that cannot be processed are named, never dropped."""
        ...

    def close(self) -> None:
        """Release engines and connections."""
        ...


class PipelineFactory(Protocol):
    """Builds a pipeline from a unit's ``pipeline_options``."""

    def __call__(self, options: Mapping[str, Any]) -> Pipeline:
        """Raise SpecError for unknown options, SiteError or CodeError for a model that cannot be used."""
        ...
