"""Plots of efficiency and ghost rate, as PNG files. Matplotlib is slow to import: import it late."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import hist
import matplotlib.pyplot as plt
import mplhep
import numpy as np

from egretta.workflows.validation.curves import DRAWN, VARIABLES, Curve, Curves, wilson_interval

# Okabe and Ito's colours, told apart by colour-blind readers too; each category keeps its own everywhere.
COLOURS = {"velo": "#0072B2", "long": "#D55E00", "long_electrons": "#009E73", "ghost_rate": "#CC79A7"}
MARKERS = {"velo": "o", "long": "s", "long_electrons": "^", "ghost_rate": "o"}
LABELS = {"velo": "VELO tracks", "long": "Long tracks", "long_electrons": "Long electrons"}
AXIS_TITLES = {"p": r"$p$ [GeV]", "pt": r"$p_\mathrm{T}$ [GeV]", "eta": r"$\eta$"}

_STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.size": 13,
    "axes.labelsize": 14,
    "axes.linewidth": 1.0,
    "xtick.direction": "in",
    "ytick.direction": "in",
    "xtick.top": True,
    "ytick.right": True,
    "xtick.minor.visible": True,
    "ytick.minor.visible": True,
    "legend.frameon": False,
    "figure.figsize": (7.0, 5.0),
    "figure.dpi": 150,
}


def _draw_distribution(axes: Any, curve: Curve, label: str) -> None:
    """The denominators as a grey backdrop, at most 35 % of the height of the plot."""
    edges = VARIABLES[curve.variable].edges
    if not curve.total.max(initial=0.0):
        return
    backdrop = hist.Hist(hist.axis.Variable(edges), storage=hist.storage.Double())
    backdrop[...] = curve.total
    twin = axes.twinx()
    mplhep.histplot(backdrop, ax=twin, histtype="fill", color="#d9dce1", label=label, flow="none")
    twin.set_ylim(0, curve.total.max() / 0.35)
    twin.set_axis_off()
    axes.set_zorder(twin.get_zorder() + 1)
    axes.patch.set_visible(False)


def _draw_points(axes: Any, curve: Curve, name: str, label: str) -> None:
    edges = np.array(VARIABLES[curve.variable].edges)
    log = VARIABLES[curve.variable].log
    centre = np.sqrt(edges[1:] * edges[:-1]) if log else (edges[1:] + edges[:-1]) / 2
    low, high = wilson_interval(curve.passed, curve.total)
    filled = curve.total > 0
    value = curve.passed[filled] / curve.total[filled]
    axes.errorbar(
        centre[filled],
        value,
        xerr=(centre - edges[:-1], edges[1:] - centre)
        if filled.all()
        else ((centre - edges[:-1])[filled], (edges[1:] - centre)[filled]),
        yerr=(np.maximum(value - low[filled], 0.0), np.maximum(high[filled] - value, 0.0)),
        fmt=MARKERS[name],
        color=COLOURS[name],
        markersize=5,
        linewidth=1.3,
        label=label,
    )


def _finish(figure: Any, axes: Any, variable: str, y_title: str, note: str, path: Path) -> Path:
    axis = VARIABLES[variable]
    if axis.log:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(mpl.ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlim(axis.edges[0], axis.edges[-1])
    axes.set_xlabel(AXIS_TITLES.get(variable, axis.axis_title), loc="right")
    axes.set_ylabel(y_title, loc="top")
    axes.set_title(note, loc="left", fontsize=11, color="#555555", pad=32 if axes.get_legend() else 8)
    figure.savefig(path, bbox_inches="tight")
    plt.close(figure)
    return path


def draw(curves: Curves, directory: str | Path, *, title: str = "Simulation") -> list[Path]:
    """Draw every curve to ``directory`` (made if it is not there); returns the files.

    ``title`` says in a few words where the events come from.
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]
        for variable in ("p", "pt", "eta", "occupancy"):
            figure, axes = plt.subplots()
            _draw_distribution(axes, curves[f"efficiency.velo.{variable}"], "VELO particles")
            for category in DRAWN:
                _draw_points(axes, curves[f"efficiency.{category}.{variable}"], category, LABELS[category])
            axes.axhline(1.0, color="#999999", linewidth=0.8, linestyle=":")
            axes.set_ylim(0.0, 1.12)
            axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), ncols=3, fontsize=12, borderpad=0.2)
            cut = "" if variable == "eta" else r", $2 < \eta < 5$"
            note = f"{title}{cut} · grey: VELO particles"
            path = directory / f"efficiency_{variable}.png"
            written.append(_finish(figure, axes, variable, "Track-finding efficiency", note, path))
        for variable in ("occupancy", "track_hits"):
            curve = curves[f"ghost_rate.{variable}"]
            figure, axes = plt.subplots()
            _draw_distribution(axes, curve, "tracks")
            _draw_points(axes, curve, "ghost_rate", "Ghosts")
            high = wilson_interval(curve.passed, curve.total)[1]
            axes.set_ylim(0.0, max(0.02, 1.15 * float(np.nanmax(high, initial=0.0))))
            path = directory / f"ghost_rate_{variable}.png"
            written.append(_finish(figure, axes, variable, "Ghost rate", f"{title} · grey: tracks", path))
    return written
