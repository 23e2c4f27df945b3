"""What a backend is to the runner: it starts attempts, reports their ends, and stops them.

It decides nothing: which units, how many at once, whether again, all that is the runner's. An attempt runs
``python -m egretta.jobs UNIT.json`` under every backend.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Job:
    """An attempt to start. ``key`` is the runner's name for it: unit and attempt."""

    key: tuple[int, int]
    unit_path: Path
    log_path: Path
    timeout_s: float
    memory_mb: int


class EndKind(StrEnum):
    """How a job ended: by itself, or ended by someone for something."""

    EXIT = "exit"
    SIGNAL = "signal"
    OUT_OF_TIME = "out of time"
    OUT_OF_MEMORY = "out of memory"
    NOT_STARTED = "not started"


@dataclass(frozen=True, slots=True)
class JobEnd:
    """A job that runs no more. ``code`` is its exit code or the signal's number."""

    key: tuple[int, int]
    kind: EndKind
    code: int
    host: str
    wall_s: float
    peak_memory_mb: float
    detail: str = ""


class Backend(Protocol):
    """Where attempts run."""

    @property
    def capacity(self) -> int:
        """The most jobs to hand over at once."""
        ...

    def submit(self, jobs: Sequence[Job]) -> list[str]:
        """Start jobs; returns a handle each, by which a later runner could find them again."""
        ...

    def poll(self, timeout_s: float) -> list[JobEnd]:
        """Wait for jobs to end, at most ``timeout_s``; returns those that did, each once."""
        ...

    def cancel(self) -> None:
        """Stop all jobs and wait until none runs. Their ends are not reported."""
        ...

    def adopt(self, handles: Iterable[tuple[tuple[int, int], str]]) -> set[tuple[int, int]]:
        """Take over jobs of a runner that died: (key, handle). Returns the keys of those still followed;

        the others run no more when this returns.
        """
        ...
