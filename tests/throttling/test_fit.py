"""The fitted line is that of the samples, whatever else the monitoring holds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egretta.throttling.fit import fit_traffic

SENT_MBIT, BACKGROUND_MBPS = 4200.0, 44_000.0


def samples(rng, n=400, noise_mbps=800.0, most_events_per_s=12.0):
    rate = rng.uniform(0.5, most_events_per_s, n)
    return rate, BACKGROUND_MBPS + SENT_MBIT * rate + rng.normal(0, noise_mbps, n)


def assert_true(fit, slack=1.0):
    """Both truths within the intervals, widened by ``slack``."""
    for found, truth in ((fit.sent_mbit_per_event, SENT_MBIT), (fit.background_mbps, BACKGROUND_MBPS)):
        assert found.low < found.value < found.high
        assert abs(found.value - truth) < slack * (found.high - found.low) / 2


def test_the_campaigns_line_is_found():
    fit = fit_traffic(*samples(np.random.default_rng(1)))
    assert_true(fit)
    assert fit.sent_mbit_per_event.value == pytest.approx(SENT_MBIT, rel=0.02)
    assert (fit.samples, fit.saturated) == (400, 0)


def test_intervals_cover_the_truth_as_often_as_they_say():
    covered = []
    for seed in range(300):
        fit = fit_traffic(*samples(np.random.default_rng(seed), n=60), confidence=0.9)
        covered.append(fit.sent_mbit_per_event.low < SENT_MBIT < fit.sent_mbit_per_event.high)
    # three standard deviations of 300 draws, and a little for so few samples
    assert 0.83 < np.mean(covered) < 0.96


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), share=st.floats(0, 0.4), sign=st.sampled_from([-1, 1]))
def test_outliers_do_not_bend_the_line(seed, share, sign):
    rng = np.random.default_rng(seed)
    rate, traffic = samples(rng)
    n_off = int(share * len(rate))
    # bursts of others at high rates, where the lever is longest; gaps in which nothing was counted
    off = np.argsort(rate)[-2 * n_off :][::2] if n_off else []
    traffic[off] = np.maximum(traffic[off] + sign * rng.uniform(20_000, 60_000, len(off)), 0)
    assert_true(fit_traffic(rate, traffic), slack=2.5)


@pytest.mark.parametrize("noise_mbps", [100.0, 2000.0])
def test_a_full_link_does_not_bend_the_line(noise_mbps):
    rng = np.random.default_rng(3)
    rate, traffic = samples(rng, n=600, noise_mbps=noise_mbps, most_events_per_s=30.0)
    capacity = 100_000.0
    fit = fit_traffic(rate, np.minimum(traffic, capacity), capacity_mbps=capacity)
    assert_true(fit, slack=1.5)
    assert fit.saturated > 250


def test_samples_without_noise_give_their_line():
    rate = np.array([1.0, 2.0, 3.0, 4.0])
    fit = fit_traffic(rate, 10 + 2 * rate)
    assert fit.sent_mbit_per_event.value == pytest.approx(2)
    assert fit.background_mbps.value == pytest.approx(10)


def test_gaps_in_the_monitoring_are_left_out():
    rate, traffic = samples(np.random.default_rng(4))
    whole = fit_traffic(rate, traffic)
    gaps = fit_traffic(np.append(rate, [np.nan, 1.0]), np.append(traffic, [1.0, np.nan]))
    assert gaps == whole


@pytest.mark.parametrize(
    ("rate", "traffic"), [([], []), ([1, 2], [1, 2]), ([1, 1, 1], [1, 2, 3]), ([np.nan] * 5, [1] * 5)]
)
def test_samples_that_define_no_line_are_refused(rate, traffic):
    with pytest.raises(ValueError, match="define no line"):
        fit_traffic(rate, traffic)


def test_samples_of_different_times_are_refused():
    with pytest.raises(ValueError, match="one sample each"):
        fit_traffic([1, 2, 3], [1, 2])
