import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egretta.workflows.report.charts import Axis, compact, histogram, nice_ticks, stacked_bar, throughput
from egretta.workflows.report.timeline import NAMED_HOSTS, OTHERS, make_timeline


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_ticks_are_few_evenly_spaced_and_inside(low: float, span: float) -> None:
    ticks = nice_ticks(low, low + span)
    assert 1 <= len(ticks) <= 8
    slack = 1e-6 * max(span, abs(low))
    assert low - slack <= ticks[0]
    assert ticks[-1] <= low + span + slack


def test_a_logarithmic_axis_puts_its_geometric_middle_in_the_middle() -> None:
    axis = Axis(1.0, 100.0, "p", log=True)
    assert float(axis.fraction(10.0)) == pytest.approx(0.5)
    assert axis.ticks() == [1, 2, 5, 10, 20, 50, 100]


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.95, "0.95"), (1500, "1.5k"), (2e6, "2M"), (-3000, "-3k")]
)
def test_numbers_of_axes_are_short(value: float, text: str) -> None:
    assert compact(value) == text


def test_a_histogram_ends_after_its_last_filled_bin() -> None:
    counts = np.zeros(200)
    counts[10] = 5
    svg = histogram(counts, np.linspace(0, 30_000, 201), x_title="hits", label="Hits")
    assert svg is not None
    assert "30k" not in svg
    assert histogram(np.zeros(5), np.arange(6.0), x_title="hits", label="Hits") is None


def test_parts_of_a_bar_fill_it() -> None:
    svg = stacked_bar([("a", 1, 0), ("b", 3, 1), ("none", 0, 2)], label="bar")
    widths = [float(width) for width in re.findall(r'width="([\d.]+)" height', svg)]
    assert widths == [250.0, 750.0]


def test_no_rates_make_no_chart() -> None:
    assert throughput(0.0, 1.0, {}) is None
    assert throughput(0.0, 1.0, {"host": (0.0, 0.0)}) is None


runs = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.floats(0, 1e5), st.floats(0, 1e4), st.integers(0, 1000)),
    min_size=1,
    max_size=30,
)


@given(runs)
def test_the_area_under_the_rates_is_the_number_of_events(
    units: list[tuple[str, float, float, int]],
) -> None:
    hosts = [unit[0] for unit in units]
    start = np.array([1.7e9 + unit[1] for unit in units])
    events = np.array([float(unit[3]) for unit in units])
    line = make_timeline(hosts, start, start + np.array([unit[2] for unit in units]), events)
    area = sum(sum(rates) for rates in line.rates.values()) * line.bin_s
    assert area == pytest.approx(events.sum(), rel=1e-6, abs=1e-6)
    assert len(line.rates) <= NAMED_HOSTS + 1
    assert (OTHERS in line.rates) == (len(set(hosts)) > NAMED_HOSTS)


def test_no_units_make_an_empty_timeline() -> None:
    none = np.zeros(0)
    assert make_timeline([], none, none, none).rates == {}
