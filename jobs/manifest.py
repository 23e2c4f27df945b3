"""The manifest: what an attempt did, written last, read by the ledger."""

from __future__ import annotations

from dataclasses import dataclass, field

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Quarantined:
    """An event that was read but could not be processed."""

    entry: int
    event: int
    failure_class: str
    reason: str


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt failed as a whole."""

    failure_class: str
    error: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The account of one attempt.

    On success ``failure`` is None and ``events_processed + len(quarantined) == stop - start``.
    ``checksum`` is the output's, as ``"xxh64:..."`` or ``"sha256:..."``. ``stage_seconds`` is the wall time
    by stage (read, decode, embed, knn, gnn, wcc, peel, write, start), ``counts`` whatever the pipeline
    counted (hits, edges, tracks), ``histograms`` fixed-bin counts for the report.
    """

    unit_id: str
    attempt: int
    campaign: str
    config_hash: str
    file: str
    file_uuid: str
    start: int
    stop: int
    events_processed: int
    quarantined: tuple[Quarantined, ...] = ()
    output: str | None = None
    output_bytes: int = 0
    checksum: str | None = None
    bytes_read: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory_mb: float = 0.0
    host: str = ""
    started_at: str = ""
    finished_at: str = ""
    version: str = ""
    stage_seconds: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    histograms: dict[str, list[float]] = field(default_factory=dict)
    failure: Failure | None = None
