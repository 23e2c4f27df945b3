"""Counts of fixed bins add up, over batches and over units."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egretta.jobs.histograms import HITS, TIME_PREFIX, TRACKS, Histograms, add, edges

names = st.sampled_from([HITS, TRACKS, TIME_PREFIX + "knn"])
values = st.lists(st.tuples(names, st.floats(0, 1e6)), max_size=50)


def filled(pairs: list[tuple[str, float]]) -> dict[str, list[float]]:
    histograms = Histograms()
    for name, value in pairs:
        histograms.fill(name, [value])
    return histograms.as_lists()


@given(values, values)
def test_the_sum_over_units_is_the_histogram_of_all_events(one, other):
    assert add(filled(one), filled(other)) == filled(one + other)


@given(values)
def test_no_event_falls_outside_the_bins(pairs):
    assert sum(sum(counts) for counts in filled(pairs).values()) == len(pairs)


def test_what_lies_beyond_the_bins_goes_to_the_last_and_first():
    histograms = Histograms()
    histograms.fill(HITS, [100_000])
    histograms.fill(TIME_PREFIX + "read", [0.0], weights=[7.0])
    counts = histograms.as_lists()
    assert counts[HITS][-1] == 1
    assert counts[TIME_PREFIX + "read"][0] == 7


def test_a_value_falls_into_the_bin_that_holds_it():
    histograms = Histograms()
    histograms.fill(TRACKS, [0, 9, 10, 25])
    assert histograms.as_lists()[TRACKS][:3] == [2, 1, 1]
    assert len(edges(TRACKS)) == len(histograms.as_lists()[TRACKS]) + 1
    assert np.all(np.diff(edges(TRACKS)) > 0)


def test_a_histogram_without_bins_has_no_name():
    with pytest.raises(KeyError):
        edges("momentum")
