"""The validation's figures and curves for the report."""

from __future__ import annotations

from collections.abc import Mapping
from math import floor
from typing import Any

import numpy as np
from markupsafe import Markup

from egretta.workflows.report.charts import Points, fractions
from egretta.workflows.validation.curves import DRAWN, VARIABLES, wilson_interval
from egretta.workflows.validation.metrics import CATEGORIES, RANGE_TITLES, RANGES, TITLES

_GHOST_COLOUR = 3
_FEW = 10


def percent(value: float | None, uncertainty: float | None = None) -> str:
    """A fraction in percent, with its uncertainty; a dash where it is undefined."""
    if value is None:
        return "-"
    return f"{100 * value:.2f} %" if uncertainty is None else f"{100 * value:.2f} ± {100 * uncertainty:.2f} %"


def range_tables(figures: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One table a range of eta; categories that the figures lack are left out."""
    tables = []
    for name in RANGES:
        found = figures.get(name)
        if not found:
            continue
        rows = []
        for category in CATEGORIES:
            row = found.get(category)
            if row:
                rows.append(
                    (
                        TITLES[category],
                        f"{row.get('particles', 0):,}",
                        percent(row.get("efficiency"), row.get("efficiency_uncertainty")),
                        *(
                            percent(row.get(key))
                            for key in ("efficiency_best_match", "clone_rate", "hit_efficiency", "hit_purity")
                        ),
                    )
                )
        tables.append(
            {
                "title": RANGE_TITLES[name],
                "tracks": f"{found.get('tracks', 0):,}",
                "ghosts": percent(found.get("ghost_rate"), found.get("ghost_rate_uncertainty")),
                "clones": percent(found.get("clone_rate"), found.get("clone_rate_uncertainty")),
                "rows": rows,
            }
        )
    return tables


def _points(name: str, curve: Mapping[str, Any], colour: int) -> Points:
    passed, total = np.array(curve["passed"]), np.array(curve["total"])
    low, high = wilson_interval(passed, total)
    return Points(name, passed / np.where(total > 0, total, np.nan), low, high, colour)


def _lowest(points: list[Points], totals: list[Any]) -> float:
    """Where an axis of efficiency begins: below every point, and the bar of those with enough particles."""
    lowest = 1.0
    for series, total in zip(points, totals, strict=True):
        low = np.where(np.asarray(total) >= _FEW, series.low, series.value)
        lowest = min(lowest, float(np.nanmin(low, initial=1.0)))
    return max(0.0, floor((lowest - 0.02) * 10) / 10)


def curve_charts(curves: Mapping[str, Any]) -> list[tuple[str, Markup, list[tuple[str, int]]]]:
    """Efficiency against each variable, then ghost rates; those that are not there are left out."""
    drawn = []
    for variable, axis in VARIABLES.items():
        names = [name for name in DRAWN if f"efficiency.{name}.{variable}" in curves]
        if not names:
            continue
        chosen = [curves[f"efficiency.{name}.{variable}"] for name in names]
        points = [_points(TITLES[n], c, i) for i, (n, c) in enumerate(zip(names, chosen, strict=True))]
        low = _lowest(points, [curve["total"] for curve in chosen])
        chart = fractions(
            chosen[0]["edges"],
            points,
            chosen[0]["total"],
            x_title=axis.axis_title,
            y_title="efficiency",
            y_range=(low, 1.0 + 0.04 * (1.0 - low)),
            log=axis.log,
        )
        cut = "" if variable == "eta" else ", 2\u00a0<\u00a0η\u00a0<\u00a05"
        key = [(series.name, series.colour) for series in points]
        drawn.append((f"Efficiency against {axis.label[0].lower()}{axis.label[1:]}{cut}", chart, key))
    for variable, axis in VARIABLES.items():
        curve = curves.get(f"ghost_rate.{variable}")
        if curve is None:
            continue
        ghosts = _points("ghosts", curve, _GHOST_COLOUR)
        well_known = np.where(np.array(curve["total"]) >= _FEW, ghosts.high, ghosts.value)
        top = float(np.nanmax(well_known, initial=0.01))
        chart = fractions(
            curve["edges"],
            [ghosts],
            curve["total"],
            x_title=axis.axis_title,
            y_title="ghost rate",
            y_range=(0.0, min(1.0, 1.1 * top)),
        )
        drawn.append((f"Ghost rate against {axis.label[0].lower()}{axis.label[1:]}", chart, []))
    return drawn
