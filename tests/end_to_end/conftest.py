"""Whole campaigns with the pipeline velo, by the command line, on simulated events."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from egretta.jobs.simulation.writing import simulate_velo

N_EVENTS = 24


@dataclass
class Desk:
    """A directory, a shell, and someone who runs campaigns in it."""

    directory: Path

    def write(self, files: list[Path | str], **sections: dict[str, Any]) -> str:
        """A campaign file over ``files``; returns its name."""
        tables: dict[str, dict[str, Any]] = {
            "campaign": {"name": "test", "pipeline": "velo"},
            "input": {"files": [str(file) for file in files]},
            "splitting": {"by": "entries", "entries_per_unit": 12},
            "output": {"directory": "out"},
            "backend": {"name": "local", "workers": 2},
            "retry": {"delay_s": 0.05},
        }
        for section, values in sections.items():
            tables.setdefault(section, {}).update(values)
        lines = []
        for section, values in tables.items():
            lines += [f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
        (self.directory / "campaign.toml").write_text("\n".join(lines) + "\n")
        return "campaign.toml"

    def command(self, *arguments: str | Path) -> list[str]:
        call = "from egretta.workflows.cli import main; main()"
        return [sys.executable, "-c", call, *map(str, arguments)]

    # ``code`` is the exit code that is due, None where any is
    def egretta(self, *arguments: str | Path, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
            env={key: value for key, value in os.environ.items() if key not in {"COLUMNS", "FORCE_COLOR"}},
        )
        assert code is None or done.returncode == code, done.stdout + done.stderr
        return done

    def json(self, *arguments: str | Path, code: int | None = 0) -> Any:
        return json.loads(self.egretta(*arguments, "--json", code=code).stdout)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


@pytest.fixture(scope="session")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Simulated events: trees RawEvent (banks) and Velo (hits and truth)."""
    path = tmp_path_factory.mktemp("events") / "events.root"
    simulate_velo(path, N_EVENTS, seed=7, preset="minbias")
    return path
