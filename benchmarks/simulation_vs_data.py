"""Compare simulated VELO events with LHCb's: ``python benchmarks/simulation_vs_data.py FILE.root``.

FILE holds a tree ``Velo`` with hits and truth; several may be given. Simulated events of the
preset are made on the spot. The table shows what the generator's constants
(jobs/simulation/config.py) are calibrated to.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from egretta.jobs.simulation.particles import Flag
from egretta.jobs.simulation.velo import SimulatedBatch, generate_events
from egretta.kernels.geometry import N_MODULES

ELECTRON = 11
RADII_MM = (0.0, 6.0, 8.0, 12.0, 20.0, 30.0, 60.0)
MODULES = (0, 10, 20, 30, 40, N_MODULES)
MOMENTA_GEV = (0.0, 0.5, 1.0, 2.0, 4.0, 10.0, 1e4)
PIDS = (211, 321, 2212, 11, 13)


@dataclass(frozen=True, slots=True)
class Events:
    """Hits and truth as flat arrays; hit indices count over all events."""

    hits_per_event: NDArray[np.int64]
    particles_per_event: NDArray[np.int64]
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    z: NDArray[np.float64]
    module: NDArray[np.int64]
    pid: NDArray[np.int64]
    p: NDArray[np.float64]
    eta: NDArray[np.float64]
    flags: NDArray[np.int64]
    hits_per_particle: NDArray[np.int64]
    hit: NDArray[np.int64]


def read(paths: list[str]) -> Events:
    import awkward as ak
    import uproot

    arrays = ak.concatenate([uproot.open(path)["Velo"].arrays() for path in paths])

    def flat(name: str) -> NDArray[Any]:
        return ak.to_numpy(ak.flatten(arrays[name]))

    n_hits = ak.to_numpy(arrays["nhit"]).astype(np.int64)
    start = np.cumsum(n_hits) - n_hits
    return Events(
        n_hits,
        ak.to_numpy(arrays["nmc"]).astype(np.int64),
        *(flat(f"hit_{name}") for name in ("x", "y", "z", "module")),
        *(flat(f"mc_{name}") for name in ("pid", "p", "eta", "flags", "nhits")),
        flat("mchit_index") + np.repeat(start, ak.to_numpy(arrays["nmchit"])),
    )


def simulate(n_events: int, preset: str, seed: int) -> Events:
    return of_batch(generate_events(n_events, seed, preset))


def of_batch(batch: SimulatedBatch) -> Events:
    hits, truth = batch.hits, batch.truth
    hits_of_event = np.diff(truth.hit_offsets[truth.offsets])
    return Events(
        np.diff(hits.offsets),
        np.diff(truth.offsets),
        hits.x.astype(np.float64),
        hits.y.astype(np.float64),
        hits.z.astype(np.float64),
        hits.module.astype(np.int64),
        truth.pid.astype(np.int64),
        truth.p,
        truth.eta,
        truth.flags.astype(np.int64),
        np.diff(truth.hit_offsets),
        truth.hit_index + np.repeat(hits.offsets[:-1], hits_of_event),
    )


def line_residuals_um(events: Events) -> NDArray[np.float64]:
    """Each particle's rms distance, in one projection, from the straight line through its hits, in um."""
    n = len(events.hits_per_particle)
    owner = np.repeat(np.arange(n), events.hits_per_particle)

    def total(values: NDArray[Any]) -> NDArray[np.float64]:
        return np.bincount(owner, weights=values, minlength=n)

    count = np.maximum(events.hits_per_particle, 1)
    z = events.z[events.hit]
    z = z - (total(z) / count)[owner]
    spread = np.maximum(total(z * z), 1e-9)
    squares = np.zeros(n)
    for values in (events.x, events.y):
        u = values[events.hit]
        u = u - (total(u) / count)[owner]
        squares += total((u - (total(u * z) / spread)[owner] * z) ** 2)
    freedom = np.maximum(2 * events.hits_per_particle - 4, 1)
    return np.where(events.hits_per_particle >= 4, 1e3 * np.sqrt(squares / freedom), np.nan)


def describe(events: Events) -> dict[str, float]:
    """The figures of the table."""
    n = len(events.hits_per_event)
    out: dict[str, float] = {}
    for name, counts in (("hits", events.hits_per_event), ("particles", events.particles_per_event)):
        out[f"{name}/event"] = counts.mean()
        out[f"{name}/event: standard deviation"] = counts.std()
        for percentile in (0, 5, 50, 95, 100):
            out[f"{name}/event: percentile {percentile}"] = np.percentile(counts, percentile)
    out["hits/particle"] = events.hits_per_particle.mean()
    for k in (3, 5, 10, 15):
        out[f"particles with >= {k} hits"] = np.mean(events.hits_per_particle >= k)
    electron = np.abs(events.pid) == ELECTRON
    for flag in Flag:
        out[f"{flag.name.lower()}/event"] = np.sum((events.flags & flag) != 0) / n
    is_long = (events.flags & Flag.IS_LONG) != 0
    out["long electrons/event"] = np.sum(electron & is_long) / n
    for pid in PIDS:
        out[f"|pid| {pid}/event"] = np.sum(np.abs(events.pid) == pid) / n
    for percentile in (1, 5, 25, 50, 75, 95, 99):
        out[f"hadron eta: percentile {percentile}"] = np.percentile(events.eta[~electron], percentile)
    for percentile in (5, 25, 50, 75, 95):
        out[f"hadron p, GeV: percentile {percentile}"] = np.percentile(events.p[~electron], percentile) / 1e3
    for percentile in (5, 25, 50, 75, 95):
        out[f"electron p, MeV: percentile {percentile}"] = np.percentile(events.p[electron], percentile)
    for percentile in (5, 25, 50, 75, 95):
        out[f"electron eta: percentile {percentile}"] = np.percentile(events.eta[electron], percentile)
    owners = np.bincount(events.hit, minlength=len(events.x))
    out["unassigned hits, %"] = 100 * np.mean(owners == 0)
    out["shared hits, %"] = 100 * np.mean(owners > 1)
    of_electron = np.repeat(electron, events.hits_per_particle)
    out["shared among electrons' hits, %"] = 100 * np.mean(owners[events.hit[of_electron]] > 1)
    radius = np.hypot(events.x, events.y)
    for low, high in pairwise(RADII_MM):
        ring = (radius >= low) & (radius < high)
        out[f"hits with r in {low:.0f}-{high:.0f} mm, %"] = 100 * np.mean(ring)
        out[f"unassigned hits with r in {low:.0f}-{high:.0f} mm, %"] = 100 * np.mean(ring[owners == 0])
    for low, high in pairwise(MODULES):
        part = (events.module >= low) & (events.module < high)
        out[f"hits/module, modules {low}-{high - 1}"] = part.sum() / n / (high - low)
        out[f"unassigned in modules {low}-{high - 1}, %"] = 100 * np.mean(owners[part] == 0)
    residual = line_residuals_um(events)
    for low, high in pairwise(MOMENTA_GEV):
        chosen = ~electron & (events.p >= 1e3 * low) & (events.p < 1e3 * high)
        out[f"line residual, um, p {low:g}-{high:g} GeV"] = np.nanmedian(residual[chosen])
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", help="ROOT files with a tree Velo that holds truth")
    parser.add_argument("--preset", default="bsphiphi")
    parser.add_argument("--events", type=int, default=1000, help="simulated events")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    data = describe(read(options.files))
    simulated = describe(simulate(options.events, options.preset, options.seed))
    table = Table(
        title=f"{options.preset}: {options.events} simulated events against {len(options.files)} files"
    )
    for column in ("quantity", "LHCb", "simulated", "ratio"):
        table.add_column(column, justify="left" if column == "quantity" else "right")
    for name, value in data.items():
        ratio = simulated[name] / value if value else float("nan")
        table.add_row(name, f"{value:.4g}", f"{simulated[name]:.4g}", f"{ratio:.3f}")
    Console().print(table)


if __name__ == "__main__":
    main()
