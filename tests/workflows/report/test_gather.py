import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from egretta.kernels.errors import UsageError
from egretta.workflows.campaign import Campaign
from egretta.workflows.report.gather import LISTED, gather

MakeCampaign = Callable[..., Campaign]


def test_a_flawless_campaign_accounts_for_every_event(make_campaign: MakeCampaign) -> None:
    data = gather(make_campaign(files=2))
    assert data.state == "done"
    assert data.sentence == "All 2,000 events are processed, each once."
    assert (data.events.expected, data.events.processed, data.events.remaining) == (2000, 2000, 0)
    assert all(check.holds for check in data.checks)
    assert (data.wall_s, data.peak_memory_mb) == (pytest.approx(40.0), 406.0)
    assert data.stage_seconds == {"knn": pytest.approx(24.0), "read": pytest.approx(8.0)}
    assert sum(data.histograms["hits_per_event"]) == 2000
    assert data.span_s == pytest.approx(20.0)
    assert [(row.host, row.units, row.events) for row in data.hosts] == [
        ("host0", 20, 1000),
        ("host1", 20, 1000),
    ]
    area = sum(sum(rates) for rates in data.timeline.rates.values()) * data.timeline.bin_s
    assert area == pytest.approx(2000)


def test_what_went_wrong_is_counted_and_comes_with_what_mends_it(make_campaign: MakeCampaign) -> None:
    campaign = make_campaign(
        quarantined_units=frozenset({3}), failed_units=frozenset({4, 5}), quarantined_events=2, bad_file=True
    )
    data = gather(campaign)
    assert data.state == "failed"
    assert (data.events.quarantined, data.events.failed) == (52, 100)
    assert data.events.accounted == data.events.expected == 1000
    assert all(check.holds for check in data.checks)
    assert [(row.entry, row.event) for row in data.quarantined] == [(0, 7000), (1, 7001)]
    commands = {trouble.failure_class: trouble.command for trouble in data.troubles if trouble.what == "unit"}
    assert all(command.startswith("egretta retry") for command in commands.values())
    assert set(commands) == {"data", "code"}
    assert data.files[0].trouble == "it is empty"
    assert (data.files[1].processed, data.files[1].quarantined, data.files[1].failed) == (848, 52, 100)


def test_an_unfinished_campaign_says_so(make_campaign: MakeCampaign) -> None:
    data = gather(make_campaign(pending_units=frozenset({1, 2})))
    assert data.state == "incomplete"
    assert data.events.remaining == 100
    assert "900 of 1,000 events are processed, 2 units wait" in data.sentence


@pytest.mark.parametrize(
    ("harm", "claim"),
    [
        ("DELETE FROM manifests WHERE unit = 3", "Every finished unit has one manifest"),
        ("UPDATE units SET start = start - 1 WHERE unit = 3", "Units cover every entry once"),
        ("DELETE FROM units WHERE unit = 19", "Units cover every entry once"),
        ("UPDATE units SET processed = 49 WHERE unit = 3", "Every manifest accounts for all events"),
        ("UPDATE units SET processed = 49 WHERE unit = 3", "Every manifest accounts"),
    ],
)
def test_a_ledger_that_does_not_add_up_is_told(make_campaign: MakeCampaign, harm: str, claim: str) -> None:
    campaign = make_campaign()
    with campaign.ledger() as ledger:
        ledger.connection.execute("PRAGMA foreign_keys = OFF")
        ledger.connection.execute(harm)
    broken = [check.claim for check in gather(campaign).checks if not check.holds]
    assert any(found.startswith(claim) for found in broken)


def test_a_campaign_without_events_is_done(make_campaign: MakeCampaign) -> None:
    data = gather(make_campaign(entries=0))
    assert data.state == "done"
    assert data.sentence == "The input holds no events, so there was nothing to do."
    assert data.hosts == ()
    assert data.span_s == 0.0
    assert all(check.holds for check in data.checks)


def test_long_lists_hold_the_first_and_the_count_of_all(make_campaign: MakeCampaign) -> None:
    data = gather(make_campaign(files=LISTED + 5, entries=50, failed_units=frozenset({52})))
    assert (len(data.files), data.n_files) == (LISTED, LISTED + 5)
    assert data.files[0].path == "/data/hits52.root"


def test_before_its_first_run_there_is_nothing_to_report(tmp_path: Path) -> None:
    toml = tmp_path / "c.toml"
    toml.write_text('[campaign]\nname = "a"\npipeline = "velo"\n[input]\nfiles = ["a.root"]\n')
    with pytest.raises(UsageError, match="has not been started"):
        gather(Campaign.load(toml))


def test_a_validation_beside_the_outputs_is_taken_in(make_campaign: MakeCampaign) -> None:
    campaign = make_campaign()
    path = campaign.layout.directory / "validation.json"
    figures = {"all": {"ghost_rate": 0.1}, "eta_2_5": {}}
    path.write_text(json.dumps(figures))
    assert gather(campaign).validation == figures
    campaign.layout.tracks.write_bytes(b"newer")
    os.utime(path, (1, 1))
    assert "merged again after" in gather(campaign).validation_note
    path.write_text("[1, 2")
    data = gather(campaign)
    assert data.validation is None
    assert "is left out" in data.validation_note
