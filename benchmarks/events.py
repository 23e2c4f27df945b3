"""The events that are measured: real ones where there are any, simulated ones in their place elsewhere."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.tables import Setting

# Where the project's tests look too (tests/conftest.py).
_DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "data"
_SIMULATED_EVENTS = 150
# Interactions an event that give simulated events the hits of Upgrade 2.
_UPGRADE2_PILE_UP = 32.0
_HIT_BRANCHES = ("event", "hit_x", "hit_y", "hit_z", "hit_module")


@dataclass(frozen=True, slots=True)
class Sample:
    """A file of events and how a table names it."""

    path: Path
    title: str


def find_data(given: Path | None) -> Path | None:
    """The folder of real events: the one given, else the environment's, else that beside the checkout.

    None where there are none; a folder that was given but holds none is an error.
    """
    path = given or Path(os.environ.get("EGRETTA_SHARED_DATA", _DEFAULT))
    if (path / "velo").is_dir():
        return path
    if given is not None:
        raise SystemExit(f"no real events at {given}: it holds no folder velo")
    return None


def with_truth(setting: Setting, name: str) -> Sample:
    """The valid file of ``bsphiphi`` or ``minbias``, or simulated events of that preset."""
    if setting.data is not None:
        return Sample(setting.data / "velo" / f"{name}_valid.root", f"{name}_valid.root")
    return simulated(setting, _SIMULATED_EVENTS, name)


def crowded(setting: Setting) -> Sample:
    """Events of Upgrade 2's occupancy, without truth."""
    if setting.data is not None:
        return Sample(setting.data / "velo" / "upgrade2_stress.root", "upgrade2_stress.root")
    return simulated(setting, 40, "minbias", pile_up=_UPGRADE2_PILE_UP)


def all_files(setting: Setting) -> list[Sample]:
    """Every file of events that there is, of any format."""
    if setting.data is None:
        return [with_truth(setting, "bsphiphi"), with_truth(setting, "minbias"), crowded(setting)]
    paths = sorted(p for p in (setting.data / "velo").iterdir() if p.suffix in (".root", ".mdf"))
    return [Sample(path, path.name) for path in paths]


def simulated(setting: Setting, n_events: int, preset: str, pile_up: float | None = None) -> Sample:
    """A file of simulated events with raw banks and hits, made once a benchmark."""
    from egretta.jobs.simulation.writing import simulate_velo

    n_events = setting.size(n_events, 20)
    piled = "" if pile_up is None else f", pile-up {pile_up:g}"
    name = f"{preset}{'' if pile_up is None else f'-{pile_up:g}'}-{n_events}.root"
    path = setting.work / name
    if not path.exists():
        simulate_velo(path, n_events, preset=preset, pile_up=pile_up, seed=11)
    return Sample(path, f"simulated {preset}{piled}")


def repeated(sample: Sample, copies: int, path: Path, events: int | None = None) -> int:
    """Write the hits of a file's first ``events`` events over and over into ``path``.

    Returns how many events that is. Types and compression are those of LHCb's file, one basket a copy; the
    event numbers are made distinct.
    """
    import numpy as np
    import uproot

    with uproot.open(sample.path) as file:
        arrays = file["Velo"].arrays(list(_HIT_BRANCHES), entry_stop=events)
    n = len(arrays)
    columns: dict[str, Any] = {name: arrays[name] for name in _HIT_BRANCHES}
    types: dict[str, Any] = {name: arrays[name].type.content for name in _HIT_BRANCHES}
    types["event"] = "int64"
    with uproot.recreate(path, compression=uproot.ZSTD(9)) as file:
        tree = file.mktree("Velo", types)
        for copy in range(copies):
            columns["event"] = np.arange(copy * n, (copy + 1) * n, dtype=np.int64)
            tree.extend(columns)
    return n * copies
