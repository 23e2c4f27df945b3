"""Charts as inline SVG: small, sharp at any size, and coloured by the page's own style (light or dark).

Each is drawn on a canvas of 360 by 220 units, about the width of a phone, so that its text stays legible
there. Classes and the custom properties ``--c0`` to ``--c11`` come from report.css.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Any

import numpy as np
from markupsafe import Markup, escape

WIDTH, HEIGHT = 360.0, 220.0
LEFT, RIGHT, TOP, BOTTOM = 46.0, 14.0, 10.0, 38.0
N_COLOURS = 12
_MAX_BARS = 75


def colour(index: int) -> str:
    """The CSS colour of a series."""
    return f"var(--c{index % N_COLOURS})"


def nice_ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers from ``low`` to ``high`` in steps of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    raw = (high - low) / wanted
    magnitude = 10.0 ** floor(log10(raw))
    step = next(m * magnitude for m in (1, 2, 5, 10) if m * magnitude >= raw * (1 - 1e-9))
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def compact(value: float) -> str:
    """A number for an axis: 1500 as 1.5k, 2000000 as 2M."""
    for unit, scale in (("M", 1e6), ("k", 1e3)):
        if abs(value) >= scale:
            return f"{value / scale:.4g}{unit}"
    return f"{value:.4g}"


@dataclass(frozen=True, slots=True)
class Axis:
    """A scale from values to one side of the canvas."""

    low: float
    high: float
    title: str
    log: bool = False

    def fraction(self, value: Any) -> Any:
        """Where a value lies between the ends, 0 to 1 inside."""
        if self.log:
            return np.log(np.asarray(value) / self.low) / np.log(self.high / self.low)
        return (np.asarray(value, dtype=np.float64) - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Where the axis carries numbers."""
        if self.log:
            exponents = range(floor(log10(self.low)), ceil(log10(self.high)) + 1)
            ticks = [m * 10.0**e for e in exponents for m in (1, 2, 5)]
            return [tick for tick in ticks if self.low * 0.999 <= tick <= self.high * 1.001]
        return nice_ticks(self.low, self.high)


class _Canvas:
    """Collects the elements of one chart."""

    def __init__(self, label: str, x: Axis, y: Axis) -> None:
        self.x, self.y = x, y
        self.parts = [
            f'<svg viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" role="img" aria-label="{escape(label)}">',
            f"<title>{escape(label)}</title>",
        ]
        self._frame()

    def px(self, value: Any) -> Any:
        return LEFT + (WIDTH - LEFT - RIGHT) * np.clip(self.x.fraction(value), 0.0, 1.0)

    def py(self, value: Any) -> Any:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * np.clip(self.y.fraction(value), 0.0, 1.0)

    def _frame(self) -> None:
        right, base = WIDTH - RIGHT, HEIGHT - BOTTOM
        for tick in self.y.ticks():
            at = float(self.py(tick))
            self.parts.append(f'<path class="grid" d="M{LEFT:.0f} {at:.1f}H{right:.0f}"/>')
            self.parts.append(
                f'<text class="tick end" x="{LEFT - 5:.0f}" y="{at + 3.5:.1f}">{compact(tick)}</text>'
            )
        for tick in self.x.ticks():
            at = float(self.px(tick))
            self.parts.append(f'<path class="axis" d="M{at:.1f} {base:.0f}v4"/>')
            self.parts.append(
                f'<text class="tick mid" x="{at:.1f}" y="{base + 15:.0f}">{compact(tick)}</text>'
            )
        self.parts.append(f'<path class="axis" d="M{LEFT:.0f} {base:.0f}H{right:.0f}"/>')
        self.parts.append(
            f'<text class="name end" x="{right:.0f}" y="{HEIGHT - 6:.0f}">{escape(self.x.title)}</text>'
        )
        self.parts.append(
            f'<text class="name end" transform="translate(11 {TOP:.0f}) rotate(-90)">'
            f"{escape(self.y.title)}</text>"
        )

    def area(self, edges: Any, low: Any, high: Any, style: str) -> None:
        """A filled step between two rows of values, one a bin."""
        x = np.repeat(self.px(edges), 2)[1:-1]
        top, bottom = np.repeat(self.py(high), 2), np.repeat(self.py(low), 2)
        points = [*zip(x, top, strict=True), *zip(x[::-1], bottom[::-1], strict=True)]
        path = "L".join(f"{a:.1f} {b:.1f}" for a, b in points)
        self.parts.append(f'<path d="M{path}Z" {style}/>')

    def svg(self) -> Markup:
        return Markup("".join(self.parts) + "</svg>")


def histogram(counts: Sequence[float], edges: Sequence[float], *, x_title: str, label: str) -> Markup | None:
    """Counts over equal bins, cut after the last filled one. None if there are none."""
    values, bounds = np.asarray(counts, dtype=np.float64), np.asarray(edges, dtype=np.float64)
    filled = np.flatnonzero(values)
    if len(filled) == 0:
        return None
    # bins are merged so that the bars stay wide enough to see
    group = ceil((filled[-1] + 1) / _MAX_BARS)
    n_bins = ceil((filled[-1] + 1) / group)
    values = np.pad(values, (0, max(0, n_bins * group - len(values))))[: n_bins * group]
    values = values.reshape(n_bins, group).sum(axis=1)
    step = bounds[1] - bounds[0]
    bounds = bounds[0] + step * group * np.arange(n_bins + 1)
    x = Axis(float(bounds[0]), float(bounds[-1]), x_title)
    canvas = _Canvas(label, x, Axis(0.0, float(values.max()) * 1.05, "events"))
    canvas.area(bounds, 0 * values, values, 'class="fill"')
    return canvas.svg()


def throughput(start: float, bin_s: float, rates: Mapping[str, Sequence[float]]) -> Markup | None:
    """Events a second over time, hosts stacked, time counted from the start. None without any."""
    if not rates or bin_s <= 0:
        return None
    stacked = np.cumsum([np.asarray(rate) for rate in rates.values()], axis=0)
    if not stacked.max() > 0:
        return None
    edges_s = bin_s * np.arange(stacked.shape[1] + 1)
    unit, scale = time_unit(float(edges_s[-1]))
    x = Axis(0.0, float(edges_s[-1]) / scale, f"time since the first job began [{unit}]")
    canvas = _Canvas("Events per second over time", x, Axis(0.0, float(stacked.max()) * 1.05, "events / s"))
    below = np.zeros(stacked.shape[1])
    for index, above in enumerate(stacked):
        canvas.area(edges_s / scale, below, above, f'fill="{colour(index)}"')
        below = above
    return canvas.svg()


def time_unit(span_s: float) -> tuple[str, float]:
    """The unit that a span reads well in, and its seconds."""
    for unit, scale in (("d", 86_400.0), ("h", 3600.0), ("min", 60.0)):
        if span_s >= 3 * scale:
            return unit, scale
    return "s", 1.0


def stacked_bar(parts: Sequence[tuple[str, float, int]], *, label: str) -> Markup:
    """One horizontal bar of named parts, each (name, size, colour), in proportion to its size."""
    total = sum(size for _, size, _ in parts)
    out = ['<svg class="strip" viewBox="0 0 1000 28" preserveAspectRatio="none" role="img" ']
    out.append(f'aria-label="{escape(label)}"><title>{escape(label)}</title>')
    at = 0.0
    for name, size, index in parts:
        width = 1000 * size / total if total > 0 else 0.0
        if width > 0:
            text = f"{name}: {100 * size / total:.1f} %"
            out.append(f'<rect x="{at:.2f}" width="{width:.2f}" height="28" fill="{colour(index)}">')
            out.append(f"<title>{escape(text)}</title></rect>")
        at += width
    if total <= 0:
        out.append('<rect width="1000" height="28" class="void"/>')
    return Markup("".join(out) + "</svg>")


@dataclass(frozen=True, slots=True)
class Points:
    """Fractions with their bounds, one a bin; bins without entries are NaN."""

    name: str
    value: Any
    low: Any
    high: Any
    colour: int


def fractions(
    edges: Sequence[float],
    series: Sequence[Points],
    backdrop: Sequence[float],
    *,
    x_title: str,
    y_title: str,
    y_range: tuple[float, float],
    log: bool = False,
) -> Markup:
    """Points with error bars over the shape of a distribution, drawn in grey behind them."""
    bounds = np.asarray(edges, dtype=np.float64)
    shape = np.asarray(backdrop, dtype=np.float64)
    x = Axis(float(bounds[0]), float(bounds[-1]), x_title, log)
    canvas = _Canvas(f"{y_title} against {x_title}", x, Axis(*y_range, y_title))
    if shape.max(initial=0.0) > 0:
        low, high = y_range
        canvas.area(bounds, 0 * shape + low, low + 0.35 * (high - low) * shape / shape.max(), 'class="shape"')
    for points in series:
        style = f'stroke="{colour(points.colour)}" fill="{colour(points.colour)}"'
        canvas.parts.append(f'<g class="points" {style}>')
        centres = (canvas.px(bounds[1:]) + canvas.px(bounds[:-1])) / 2
        for i in np.flatnonzero(np.isfinite(points.value)):
            at, left, right = float(centres[i]), float(canvas.px(bounds[i])), float(canvas.px(bounds[i + 1]))
            y, bottom, top = (float(canvas.py(v[i])) for v in (points.value, points.low, points.high))
            canvas.parts.append(
                f'<path d="M{left:.1f} {y:.1f}H{right:.1f}M{at:.1f} {bottom:.1f}V{top:.1f}"/>'
            )
            canvas.parts.append(f'<circle cx="{at:.1f}" cy="{y:.1f}" r="2.2"/>')
        canvas.parts.append("</g>")
    return canvas.svg()
