"""Where a campaign's files lie in its output directory::

out/
├── ledger.sqlite              the only truth
├── lock                       held by the one runner
├── units/0000/u0000017.a1.*   an attempt: .unit.json, .root, .json (manifest), .log, .parquet
└── tracks.root, tracks.json   merged, and what they were merged from
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

UNITS_PER_DIRECTORY = 1000


def unit_id(number: int) -> str:
    """The unit's name, as files and manifests carry it."""
    return f"u{number:07d}"


def unit_number(name: str) -> int:
    """The number of a unit's name. Raises ValueError for anything else."""
    match = re.fullmatch(r"u(\d+)", name)
    if match is None:
        raise ValueError(f"{name!r} is no unit; units are called like {unit_id(17)}")
    return int(match[1])


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths below one output directory."""

    directory: Path

    @property
    def ledger(self) -> Path:
        """The SQLite ledger."""
        return self.directory / "ledger.sqlite"

    @property
    def lock(self) -> Path:
        """The runner's lock file."""
        return self.directory / "lock"

    @property
    def tracks(self) -> Path:
        """The merged output."""
        return self.directory / "tracks.root"

    def unit_directory(self, number: int) -> Path:
        """The directory of a unit's attempts; a thousand units share one."""
        return self.directory / "units" / f"{number // UNITS_PER_DIRECTORY:04d}"

    def attempt_path(self, number: int, attempt: int, suffix: str) -> Path:
        """One file of an attempt."""
        return self.unit_directory(number) / f"{unit_id(number)}.a{attempt}{suffix}"

    def remove_attempt(self, number: int, attempt: int) -> int:
        """Remove all that an attempt wrote, temporary files too, but its log and its order.

        Returns the number of files removed.
        """
        directory = self.unit_directory(number)
        stem = f"{unit_id(number)}.a{attempt}"
        kept = {f"{stem}.log", f"{stem}.unit.json"}
        removed = 0
        for pattern in (f"{stem}.*", f".{stem}.*"):
            for path in directory.glob(pattern):
                if path.name not in kept:
                    path.unlink(missing_ok=True)
                    removed += 1
        return removed

    def tidy(self, number: int, attempt: int) -> None:
        """Remove what is of no use beside a whole output: its order, and its log if nothing is in it."""
        self.attempt_path(number, attempt, ".unit.json").unlink(missing_ok=True)
        log = self.attempt_path(number, attempt, ".log")
        if log.exists() and log.stat().st_size == 0:
            log.unlink()
