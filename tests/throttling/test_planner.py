"""Jobs at once: never more than fit, never one fewer, and said in words."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egretta.throttling.planner import JobTraffic, event_time_for, plan_bandwidth
from egretta.throttling.site import Site, background_quantile


def site(egress=100_000.0, background=44_000.0, headroom=0.0):
    return Site("fnal", egress, background, headroom, "egress.fnal")


def test_the_campaign_of_protodune_gets_its_341_jobs():
    plan = plan_bandwidth(site(), JobTraffic(4100, 25))
    assert (plan.site, plan.job_mbps, plan.jobs) == ("fnal", 164.0, 341)
    for words in ("100 Gb/s", "44 Gb/s", "56 Gb/s", "4,100 Mb", "25 s", "164 Mb/s", "341 jobs"):
        assert words in plan.why


def test_six_hundred_jobs_run_where_an_event_takes_44_seconds_through_all_stages():
    seconds = event_time_for(600, site(), 4100)
    assert seconds == pytest.approx(43.93, abs=0.01)
    assert plan_bandwidth(site(), JobTraffic(4100, seconds)).jobs == 600


def test_headroom_is_a_part_of_the_link_and_is_named():
    plan = plan_bandwidth(site(headroom=0.1), JobTraffic(4100, 25))
    assert plan.reservable_mbps == pytest.approx(46_000)
    assert plan.jobs == 280
    assert "10% kept free" in plan.why


def test_nothing_is_left_where_others_fill_the_link():
    plan = plan_bandwidth(site(background=120_000), JobTraffic(4100, 25))
    assert (plan.jobs, plan.reservable_mbps) == (0, 0)
    assert "Not even one job" in plan.why
    assert event_time_for(1, site(background=120_000), 4100) == math.inf


def test_a_job_that_sends_nothing_is_not_bounded():
    plan = plan_bandwidth(site(), JobTraffic(0, 25))
    assert plan.jobs is None
    assert "no bound" in plan.why


@given(
    egress=st.floats(1, 1e6),
    background=st.floats(0, 1e6),
    headroom=st.floats(0, 0.99),
    sent=st.floats(1e-3, 1e5),
    seconds=st.floats(1e-3, 1e4),
)
def test_the_jobs_fit_and_one_more_would_not(egress, background, headroom, sent, seconds):
    place = site(egress, background, headroom)
    plan = plan_bandwidth(place, JobTraffic(sent, seconds))
    left = egress * (1 - headroom) - background
    assert plan.jobs * plan.job_mbps <= max(left, 0) * (1 + 1e-8)
    assert (plan.jobs + 1) * plan.job_mbps > left * (1 - 1e-8)


@given(jobs=st.integers(1, 10_000), job_mbps=st.integers(1, 1000))
def test_rounding_loses_no_job(jobs, job_mbps):
    place = site(egress=jobs * job_mbps / 0.7, background=0, headroom=0.3)
    assert plan_bandwidth(place, JobTraffic(job_mbps * 3.0, 3.0)).jobs == jobs


@pytest.mark.parametrize(
    "change", [{"egress": 0}, {"egress": math.nan}, {"background": -1}, {"headroom": 1}, {"headroom": -0.1}]
)
def test_a_site_that_cannot_be_is_refused(change):
    with pytest.raises(ValueError, match="fnal"):
        site(**change)


@pytest.mark.parametrize(("sent", "seconds"), [(-1, 1), (math.inf, 1), (1, 0), (1, -2), (1, math.nan)])
def test_traffic_that_cannot_be_is_refused(sent, seconds):
    with pytest.raises(ValueError, match=r"sent_mbit_per_event|event_time_s"):
        JobTraffic(sent, seconds)


def test_the_background_is_a_quantile_and_gaps_do_not_count():
    assert background_quantile([math.nan, *range(101), math.inf]) == pytest.approx(95)
    assert background_quantile([7.0], 0.5) == 7.0
    with pytest.raises(ValueError, match="no sample"):
        background_quantile([math.nan])
