"""The demonstration goes the whole way by the ordinary commands, and goes on where it was."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from egretta.jobs.simulation.writing import simulate_velo
from egretta.kernels.errors import UsageError
from egretta.workflows.cli import app
from egretta.workflows.cli.demo import _CAMPAIGN, entries_per_unit
from egretta.workflows.spec import load_spec

PIPELINES = Path(__file__).parents[1] / "jobs"
EVENTS = 12
# The demonstration keeps a campaign file that is there: here one with a pipeline that needs no model.
CAMPAIGN = """\
[campaign]
name = "demo"
pipeline = "plain_pipelines:Plain"
[input]
files = ["events.root"]
tree = "Velo"
[splitting]
by = "entries"
entries_per_unit = 5
"""


def demo(*arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", "from egretta.workflows.cli import main; main()", "demo"]
    return subprocess.run(
        command + [str(argument) for argument in arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(PIPELINES)},
        timeout=240,
        check=False,
    )


@pytest.fixture(scope="module")
def shown(tmp_path_factory) -> tuple[Path, str]:
    """The directory of a demonstration that has run, and what it printed."""
    folder = tmp_path_factory.mktemp("demo")
    simulate_velo(folder / "events.root", EVENTS)
    (folder / "campaign.toml").write_text(CAMPAIGN)
    done = demo(folder, "--events", EVENTS)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout


def test_every_step_is_a_command_that_is_shown(shown):
    folder, printed = shown
    commands = [line.split()[2] for line in printed.splitlines() if line.startswith("$ egretta ")]
    assert commands == ["plan", "run", "merge", "validate", "report"]
    assert f"{EVENTS} of {EVENTS} events" in printed
    assert (folder / "out" / "tracks.root").is_file()


def test_the_report_is_where_it_says_and_holds_the_validation(shown):
    folder, printed = shown
    report = folder / "out" / "report.html"
    assert str(report) in printed
    assert (folder / "out" / "validation.json").is_file()
    assert "<html" in report.read_text()


def test_run_again_it_goes_on_where_it_was(shown):
    folder, _ = shown
    ledger = folder / "out" / "ledger.sqlite"
    outputs = sorted((folder / "out" / "units").rglob("*.root"))
    times = [path.stat().st_mtime_ns for path in outputs]
    done = demo(folder, "--events", EVENTS)
    assert done.returncode == 0, done.stderr
    assert ledger.is_file()
    assert [path.stat().st_mtime_ns for path in outputs] == times


def test_a_demo_of_another_size_is_not_mixed_in(shown):
    folder, _ = shown
    done = demo(folder, "--events", EVENTS + 1)
    assert done.returncode == 2
    assert f"holds a demo of {EVENTS} events" in done.stderr


def test_a_directory_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    result = CliRunner().invoke(app, ["demo", str(tmp_path)])
    assert isinstance(result.exception, UsageError)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_step_that_fails_ends_the_demo_with_its_code(shown, tmp_path):
    folder, _ = shown
    (tmp_path / "events.root").write_bytes((folder / "events.root").read_bytes())
    (tmp_path / "campaign.toml").write_text(CAMPAIGN.replace(":Plain", ":LosesAnEvent"))
    done = demo(tmp_path, "--events", EVENTS)
    assert done.returncode == 4
    assert "$ egretta run" in done.stdout
    assert "$ egretta merge" not in done.stdout


def test_the_campaign_file_that_it_writes_can_be_loaded(tmp_path):
    path = tmp_path / "campaign.toml"
    path.write_text(_CAMPAIGN.format(path=path, entries_per_unit=entries_per_unit(1000, 2)))
    spec = load_spec(path)
    assert (spec.campaign.pipeline, spec.input.tree) == ("velo", "RawEvent")
    assert spec.splitting.entries_per_unit == 167


@pytest.mark.parametrize(
    ("events", "cores", "expected"), [(1000, 2, 167), (10, 64, 50), (10**6, 2, 500), (1, 1, 50)]
)
def test_units_keep_all_cores_busy_and_are_worth_starting(events, cores, expected):
    assert entries_per_unit(events, cores) == expected
