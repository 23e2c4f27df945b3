"""The unit of work as a job sees it: which entries of which file, through what, to where."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from egretta.jobs.plain import checked, read_text, write_text
from egretta.kernels.errors import UsageError

SCHEMA = 1
_HINT = "units are made by `egretta run`; to write one by hand, follow docs/job.md"


@dataclass(frozen=True, slots=True)
class Unit:
    """A half-open range of entries of one file, and all that a job needs to process it.

    ``pipeline_options`` holds the campaign's ``[pipeline]`` and ``[inference]`` tables as plain data.
    ``config_hash`` identifies the configuration that the unit was made from: outputs of another
    configuration are never mixed in. An empty ``file_uuid`` says that the file may be any (by hand).
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

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

    def write(self, path: str | Path) -> None:
        """Write the unit's file, whole or not at all. Raises SiteError or ResourceError."""
        write_text(path, self.to_json(), what="the unit file")

    @staticmethod
    def from_json(text: str, *, source: str = "unit") -> Unit:
        """Parse and check a unit; ``source`` names it in the message. Raises UsageError."""
        unit = checked(Unit, text, SCHEMA, source=source, hint=_HINT)
        faults = [
            fault
            for wrong, fault in (
                (
                    not unit.unit_id or "/" in unit.unit_id,
                    f"unit_id {unit.unit_id!r} cannot name a file",
                ),
                (unit.attempt < 0, f"attempt is {unit.attempt}, below 0"),
                (unit.start < 0, f"start is {unit.start}, below 0"),
                (unit.stop < unit.start, f"stop ({unit.stop}) is below start ({unit.start})"),
                (unit.batch_events < 1, f"batch_events is {unit.batch_events}, below 1"),
                (unit.threads < 1, f"threads is {unit.threads}, below 1"),
                (
                    unit.memory_mb is not None and unit.memory_mb < 1,
                    f"memory_mb is {unit.memory_mb}, below 1",
                ),
            )
            if wrong
        ]
        if faults:
            raise UsageError(f"cannot use {source}: {'; '.join(faults)}", hint=_HINT)
        return unit

    @staticmethod
    def load(path: str | Path) -> Unit:
        """Read a unit file. Raises UsageError when it is missing or wrong."""
        return Unit.from_json(read_text(path, what="the unit file", hint=_HINT), source=f"unit file {path}")
