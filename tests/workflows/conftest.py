"""Small campaigns over small files."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

from egretta.workflows import Campaign

HERE = Path(__file__).parent
OUTPUT_SUFFIXES = {".root", ".json", ".tmp", ".parquet"}


def write_hits(path: Path, events: int, seed: int = 0, tree: str = "Velo") -> Path:
    """A ROOT file of decoded hits with a few hits an event, some events empty."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 6, events)
    total = int(counts.sum())
    columns: dict[str, Any] = {
        name: ak.unflatten(rng.normal(size=total).astype(np.float32), counts) for name in ("x", "y", "z")
    }
    modules = ak.unflatten(rng.integers(0, 52, total).astype(np.int32), counts)
    columns["module"] = ak.sort(modules, axis=-1)
    with uproot.recreate(path) as file:
        file.mktree(
            tree,
            {"event": "int64", "hit": "var * {x: float32, y: float32, z: float32, module: int32}"},
            counter_name=lambda name: f"n{name}",
        )
        if events:
            numbers = 1000 * seed + np.arange(events)
            file[tree].extend({"event": numbers, "hit": ak.zip(columns)})
    return path


@dataclass
class Workshop:
    """A directory in which campaigns are made and run."""

    directory: Path

    def hits(self, name: str, events: int, seed: int = 0) -> Path:
        return write_hits(self.directory / name, events, seed)

    def write(self, files: list[Any], name: str = "campaign.toml", **sections: dict[str, Any]) -> Path:
        """A campaign file: two workers, the obedient pipeline, short delays, over ``files``."""
        tables: dict[str, dict[str, Any]] = {
            "campaign": {"name": "test", "pipeline": "obedient:make_pipeline"},
            "input": {"files": [str(file) for file in files]},
            "splitting": {"by": "entries", "entries_per_unit": 10},
            "output": {"directory": "out"},
            "backend": {"workers": 2, "batch_events": 4},
            "retry": {"delay_s": 0.05},
        }
        for section, values in sections.items():
            tables.setdefault(section, {}).update(values)
        lines = []
        for section, values in tables.items():
            lines.append(f"[{section}]")
            lines += [f"{key} = {_toml(value)}" for key, value in values.items() if value is not None]
        path = self.directory / name
        path.write_text("\n".join(lines) + "\n")
        return path

    def campaign(self, files: list[Any], **sections: dict[str, Any]) -> Campaign:
        return Campaign.load(self.write(files, **sections))

    @property
    def trigger(self) -> Path:
        """A file that makes the obedient pipeline fail."""
        return self.directory / "trigger"

    def unit_files(self, directory: str = "out") -> list[str]:
        """Names of all outputs, manifests and temporary files of a campaign's units."""
        return sorted(
            path.name
            for path in (self.directory / directory / "units").rglob("*")
            if path.suffix in OUTPUT_SUFFIXES and not path.name.endswith(".unit.json")
        )

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-c", "from egretta.workflows.cli import main; main()", *arguments]

    def egretta(self, *arguments: str, check: int | None = None) -> subprocess.CompletedProcess[str]:
        """Run the command line in a process of its own."""
        done = subprocess.run(
            self.command(*arguments), cwd=self.directory, capture_output=True, text=True, timeout=120
        )
        if check is not None:
            assert done.returncode == check, done.stdout + done.stderr
        return done


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Path):
        value = str(value)
    return json.dumps(value)


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    # Jobs are processes of their own: they find the pipeline by the environment.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.syspath_prepend(str(HERE))
    return Workshop(tmp_path)


@pytest.fixture(scope="session")
def expected_tracks() -> Callable[[list[Path]], list[tuple[int, int]]]:
    """(event, hits) of every event of the files in order: what the obedient pipeline must have put out."""

    def expected(paths: list[Path]) -> list[tuple[int, int]]:
        found = []
        for path in paths:
            with uproot.open(path) as file:
                arrays = file["Velo"].arrays(["event", "hit_x"])
                found += list(zip(arrays["event"].tolist(), ak.num(arrays["hit_x"]).tolist(), strict=True))
        return found

    return expected


@pytest.fixture(scope="session")
def merged_tracks() -> Callable[[Path], list[tuple[int, int]]]:
    """(event, hits) of every event of a merged file, in its order."""

    def read(path: Path) -> list[tuple[int, int]]:
        with uproot.open(path) as file:
            arrays = file["Tracks"].arrays(["event", "hit_index"])
            return list(zip(arrays["event"].tolist(), ak.num(arrays["hit_index"]).tolist(), strict=True))

    return read


@pytest.fixture
def copy_file() -> Callable[[Path, Path], Path]:
    def copy(source: Path, target: Path) -> Path:
        shutil.copy(source, target)
        return target

    return copy
