"""The unit of work as a job sees it: which entries of which file, through what, to where."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Unit:
    """A half-open range of entries of one file, and all that a job needs to process it.

    ``pipeline_options`` holds the campaign's ``[pipeline]`` and ``[inference]`` tables as plain data.
    ``config_hash`` identifies the configuration that the unit was made from: outputs of another
    configuration are never mixed in.
    """

    unit_id: str
    attempt: int
    campaign: str
    config_hash: str
    pipeline: str
    file: str
    file_uuid: str
    start: int
    stop: int
    output_directory: str
    tree: str | None = None
    parquet: bool = False
    batch_events: int = 200
    threads: int = 1
    memory_mb: int | None = None
    pipeline_options: dict[str, Any] = field(default_factory=dict)

    @property
    def stem(self) -> str:
        """Name of the attempt's files, without their suffix."""
        return f"{self.unit_id}.a{self.attempt}"

    @property
    def output_path(self) -> Path:
        """The attempt's output file."""
        return Path(self.output_directory) / f"{self.stem}.root"

    @property
    def manifest_path(self) -> Path:
        """The attempt's manifest: it exists once the output is whole, or once the attempt has failed."""
        return Path(self.output_directory) / f"{self.stem}.json"

    def to_json(self) -> str:
        """The unit as the text of its file."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1, sort_keys=True)
