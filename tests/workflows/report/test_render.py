import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from egretta.workflows.campaign import Campaign
from egretta.workflows.cli import app
from egretta.workflows.report.data import ReportData
from egretta.workflows.report.gather import gather
from egretta.workflows.report.render import render, write_report

MakeCampaign = Callable[..., Campaign]
UNITS_A_FILE = 20
BARE = ReportData(
    campaign="bare", pipeline="velo", config_hash="0", state="done", sentence="Nothing.", generated_at=0.0
)
VOID = {"meta", "br", "path", "circle", "rect", "link", "img", "hr", "input"}


class Outline(HTMLParser):
    """Checks that elements nest, and keeps their names, attributes and text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_report_holds_its_sections_and_the_sum_of_all_events(make_campaign: MakeCampaign) -> None:
    campaign = make_campaign(
        quarantined_units=frozenset({3}), failed_units=frozenset({4}), quarantined_events=2
    )
    outline = Outline(render(gather(campaign)))
    text = re.sub(r"\s+", " ", outline.text)
    assert "1,000 expected = 898 processed + 52 quarantined + 50 failed + 0 pending" in text
    for words in ("What went wrong", "Time per event", "Quarantined events", "Throughput", "Hits per event"):
        assert words in text
    assert f"egretta retry {campaign.spec.path} --class data" in text
    assert "sensor 17 has two banks" in text
    assert campaign.spec.config_hash in text
    assert "9.8.7" in text


def test_a_report_loads_nothing_from_elsewhere(make_campaign: MakeCampaign) -> None:
    html = render(gather(make_campaign()))
    outline = Outline(html)
    assert not {"script", "link", "img", "iframe"} & set(outline.tags)
    assert not {"src", "href"} & {name for name, _ in outline.attributes}
    assert "url(" not in html
    assert "@import" not in html
    assert "prefers-color-scheme: dark" in html


def test_hostile_names_and_messages_stay_text(make_campaign: MakeCampaign) -> None:
    evil = '/data/"><script>alert(1)</script>&{}.root'
    reason = "</style></title><img src=x onerror=alert(2)>"
    html = render(
        gather(
            make_campaign(name=evil, reason=reason, quarantined_units=frozenset({1}), quarantined_events=1)
        )
    )
    outline = Outline(html)
    assert not {"script", "img"} & set(outline.tags)
    assert evil.format(0) in outline.text
    assert reason in outline.text


def test_a_host_or_stage_of_any_name_stays_text_in_the_charts() -> None:
    from egretta.workflows.report.data import Events, Timeline

    data = replace(
        BARE,
        events=Events(10, 10),
        stage_seconds={"<b>stage": 1.0},
        timeline=Timeline(0.0, 1.0, {"<b>host": (1.0, 2.0)}),
    )
    outline = Outline(render(data))
    assert "<b>host" in outline.text
    assert "<b>stage" in outline.text


def test_a_report_of_nothing_at_all_is_whole() -> None:
    outline = Outline(render(BARE))
    assert "0 expected = 0 processed" in re.sub(r"\s+", " ", outline.text)
    assert "Time per event" not in outline.text


def test_events_that_do_not_add_up_are_not_written_as_an_equation(make_campaign: MakeCampaign) -> None:
    data = gather(make_campaign())
    html = render(replace(data, events=replace(data.events, processed=999)))
    assert "≠" in html


def test_ten_thousand_units_make_a_report_below_a_megabyte(
    make_campaign: MakeCampaign, tmp_path: Path
) -> None:
    units = 10_000
    campaign = make_campaign(
        files=units // UNITS_A_FILE,
        failed_units=frozenset({3}),
        pending_units=frozenset(range(UNITS_A_FILE, units)),
        quarantined_events=50,
        reason="x" * 5000,
    )
    # what follows the first file's units is done as those were; to commit each would take half a minute
    with campaign.ledger() as ledger, ledger.connection as db:
        db.execute("BEGIN")
        db.execute(
            "INSERT INTO manifests SELECT units.unit, 1, checksum, output_bytes, text FROM units "
            "JOIN manifests AS first ON first.unit = units.unit % ? WHERE units.unit >= ?",
            (UNITS_A_FILE, UNITS_A_FILE),
        )
        db.execute(
            "UPDATE units SET state = 'done', processed = 50 WHERE unit IN (SELECT unit FROM manifests) "
            "AND unit >= ?",
            (UNITS_A_FILE,),
        )
    data = gather(campaign)
    assert data.units["done"] == units - units // UNITS_A_FILE
    path = tmp_path / "report.html"
    write_report(data, path)
    assert path.stat().st_size < 300_000
    assert "50 of 500" in path.read_text(encoding="utf-8")


def test_physics_shows_both_ranges_and_the_curves() -> None:
    def of(efficiency: float) -> dict[str, object]:
        row = {"particles": 1234, "efficiency": efficiency, "efficiency_uncertainty": 0.01}
        return {"ghost_rate": 0.021, "clone_rate": None, "tracks": 10, "velo": row}

    curve = {
        "variable": "p",
        "edges": [1.0, 10.0, 100.0],
        "passed": [9.0, 0.0],
        "total": [10.0, 0.0],
    }
    figures = {"all": of(0.95), "eta_2_5": of(0.97), "curves": {"efficiency.velo.p": curve}}
    outline = Outline(render(replace(BARE, validation=figures)))
    assert "95.00 ± 1.00 %" in outline.text
    assert "97.00 ± 1.00 %" in outline.text
    assert "2.10 %" in outline.text
    assert "Efficiency against p" in outline.text
    # one filled bin, one point
    assert outline.tags.count("circle") == 1


def test_the_command_writes_the_report_and_says_whether_its_checks_hold(make_campaign: MakeCampaign) -> None:
    campaign = make_campaign()
    result = CliRunner().invoke(app, ["report", str(campaign.spec.path), "--json"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["state"] == "done"
    assert all(told["checks"].values())
    assert Path(told["path"]).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("name", ["report.html.j2", "report.css"])
def test_the_files_it_is_made_of_are_named_in_the_package(name: str) -> None:
    from importlib.resources import files

    assert (files("egretta.workflows.report") / name).is_file()
