"""The manifest: what an attempt did, written last, read by the ledger."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from egretta.jobs.plain import checked, read_text, write_text
from egretta.kernels.errors import UsageError

SCHEMA = 1
_HINT = "remove it and run the unit again: without a manifest, an attempt counts for nothing"


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
    counted (hits, edges, tracks), ``histograms`` fixed-bin counts for the report (jobs/histograms.py).
    The output holds one entry for every processed event; quarantined events are named here and absent
    there. A failed attempt has no output and no processed events, but tells what it used.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

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

    def to_json(self) -> str:
        """The manifest as the text of its file."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1, sort_keys=True)

    def write(self, path: str | Path) -> None:
        """Write the manifest, whole or not at all. Raises SiteError or ResourceError."""
        write_text(path, self.to_json(), what="the manifest")

    @staticmethod
    def from_json(text: str, *, source: str = "manifest") -> Manifest:
        """Parse and check a manifest; ``source`` names it in the message. Raises UsageError."""
        manifest = checked(Manifest, text, SCHEMA, source=source, hint=_HINT)
        accounted = manifest.events_processed + len(manifest.quarantined)
        if manifest.failure is None and accounted != manifest.stop - manifest.start:
            raise UsageError(
                f"cannot use {source}: it accounts for {accounted} events of entries "
                f"[{manifest.start}, {manifest.stop})",
                hint=_HINT,
            )
        return manifest

    @staticmethod
    def load(path: str | Path) -> Manifest:
        """Read a manifest. Raises UsageError when it is missing, damaged or does not add up."""
        return Manifest.from_json(read_text(path, what="the manifest", hint=_HINT), source=f"manifest {path}")
