"""The site file and what a campaign's plan makes of it."""

import json

import pytest

from egretta.kernels.errors import SpecError, UsageError
from egretta.workflows.sites import load_sites

SITE = """\
[sites.fnal]
egress_mbps = 100000
background_mbps = 44000
headroom = 0.0
limit = "egress.fnal"
"""
SECOND = """\
[sites.cern]
egress_mbps = 20000
background_mbps = 0
"""
DECLARED = {"sent_mbit_per_event": 4100, "event_time_s": 25}


@pytest.fixture
def planned(workshop):
    """The plan of a campaign over one file, as JSON, with its exit code checked."""

    def plan(sites=SITE, *words, code=0, **bandwidth):
        (workshop.directory / "site.toml").write_text(sites)
        backend = {"name": "htcondor", "sites": "site.toml"}
        workshop.write([workshop.hits("a.root", 20)], backend=backend, bandwidth=bandwidth or DECLARED)
        return workshop.egretta("plan", "campaign.toml", *words, check=code)

    return plan


def test_the_plan_says_jobs_at_once_and_why(planned):
    made = json.loads(planned(SITE, "--json").stdout)["bandwidth"]
    assert (made["site"], made["job_mbps"], made["jobs"]) == ("fnal", 164.0, 341)
    text = planned().stdout
    assert f"bandwidth: {made['why']}" in text
    assert "341 jobs fit at once" in text


def test_each_site_is_planned_unless_one_is_named(planned):
    made = json.loads(planned(SITE + SECOND, "--json").stdout)
    assert {name: site["jobs"] for name, site in made["sites"].items()} == {"fnal": 341, "cern": 109}
    assert made["bandwidth"] is None
    made = json.loads(planned(SITE + SECOND, "--json", **DECLARED, site="cern").stdout)
    assert made["bandwidth"]["site"] == "cern"
    assert list(made["sites"]) == ["cern"]


def test_a_campaign_that_declares_no_bandwidth_has_no_such_plan(workshop):
    campaign = workshop.campaign([workshop.hits("a.root", 20)])
    assert (campaign.plan().bandwidth, campaign.plan().sites) == (None, {})


def test_limit_and_headroom_have_defaults(tmp_path):
    path = tmp_path / "site.toml"
    path.write_text(SECOND)
    site = load_sites(path)["cern"]
    assert (site.limit, site.headroom, site.reservable_mbps) == ("egress.cern", 0.1, 18_000)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            SITE.replace("egress_mbps", "egres_mbps"),
            ["[sites.fnal] egres_mbps", "unknown key", "egress_mbps"],
        ),
        (SITE.replace("background_mbps = 44000", ""), ["[sites.fnal] background_mbps is missing"]),
        (SITE.replace("100000", "-1"), ["[sites.fnal] egress_mbps", "given: -1"]),
        (SITE.replace("0.0", "1.0"), ["[sites.fnal] headroom", "given: 1.0"]),
        (SITE.replace("egress.fnal", "egress.fnal.2"), ["[sites.fnal] limit", "given: 'egress.fnal.2'"]),
        (SITE.replace("egress.fnal", "egress-fnal"), ["[sites.fnal] limit"]),
        (SITE.replace("100000", "-1") + SECOND.replace("20000", '"x"'), ["[sites.fnal]", "[sites.cern]"]),
        ("[site.fnal]\negress_mbps = 1\n", ["holds [site]", "[sites.NAME]"]),
        ("[sites]\n", ["[sites.NAME]"]),
        ("sites = 3\n", ["[sites.NAME]"]),
        ("[sites]\nfnal = 3\n", ["[sites.fnal]", "given: 3"]),
        ("", ["holds nothing"]),
        ("sites = [", ["not a TOML file"]),
    ],
)
def test_a_wrong_site_file_is_told_by_its_key(tmp_path, text, words):
    path = tmp_path / "site.toml"
    path.write_text(text)
    with pytest.raises(SpecError) as caught:
        load_sites(path)
    for word in (str(path), *words):
        assert word in str(caught.value)


def test_bandwidth_without_sites_and_a_site_that_is_not_there_are_refused(workshop, planned):
    workshop.write([workshop.hits("a.root", 20)], bandwidth=DECLARED)
    assert "sites =" in workshop.egretta("plan", "campaign.toml", check=2).stderr
    assert "its sites are fnal" in planned(SITE, code=2, **DECLARED, site="fermilab").stderr
    (workshop.directory / "site.toml").unlink()
    assert "no such site file" in workshop.egretta("plan", "campaign.toml", check=2).stderr


def test_half_a_rate_is_refused(planned):
    assert "give both" in planned(SITE, code=2, event_time_s=25).stderr


def test_a_backend_that_cannot_run_yet_says_so(workshop):
    campaign = workshop.campaign([workshop.hits("a.root", 20)], backend={"name": "htcondor"})
    with pytest.raises(UsageError, match="not run on yet"):
        campaign.run()
    assert not campaign.started
