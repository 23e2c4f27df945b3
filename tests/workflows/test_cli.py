import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from egretta.workflows import Campaign
from egretta.workflows.cli import COMMANDS, app

HEAVY = {"pydantic", "numpy", "numba", "uproot", "awkward", "matplotlib", "onnxruntime", "sqlite3"}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command):
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert len(result.output.splitlines()) > 8


def test_help_loads_nothing_heavy():
    script = (
        "import sys\nfrom egretta.workflows.cli import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        "print('loaded:', *{name.partition('.')[0] for name in sys.modules})\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "Usage" in done.stdout
    loaded = set(done.stdout.rpartition("loaded: ")[2].split())
    assert not loaded & HEAVY


def test_the_commands_take_a_campaign_to_its_end(workshop):
    workshop.write([workshop.hits("a.root", 20)])
    plan = json.loads(workshop.egretta("plan", "campaign.toml", "--json", check=0).stdout)
    assert (plan["entries"], plan["units"]) == (20, 2)
    assert "20 events in 2 units" in workshop.egretta("plan", "campaign.toml", check=0).stdout
    assert "not started" in workshop.egretta("status", "campaign.toml", check=3).stdout
    done = workshop.egretta("run", "campaign.toml", check=0)
    assert "20 of 20 events processed" in done.stdout
    assert "20 / 20 events" in done.stderr, "plain lines off a terminal"
    first = workshop.egretta("status", "campaign.toml", check=0).stdout
    assert "done: 2 (+2)" in first
    assert "(+2)" not in workshop.egretta("status", "campaign.toml", check=0).stdout
    status = json.loads(workshop.egretta("status", "campaign.toml", "--json", check=0).stdout)
    assert status["units"]["done"] == 2
    assert status["events"] == {
        "expected": 20,
        "processed": 20,
        "quarantined": 0,
        "failed": 0,
        "remaining": 0,
    }
    assert status["failures"] == []
    merged = json.loads(workshop.egretta("merge", "campaign.toml", "--json", check=0).stdout)
    assert merged["events"] == 20
    assert (workshop.directory / "out" / "tracks.root").exists()


def test_failures_are_shown_with_the_command_that_mends_them(workshop):
    workshop.trigger.touch()
    workshop.write([workshop.hits("a.root", 10)], pipeline={"fail": "code", "trigger": workshop.trigger})
    run = workshop.egretta("run", "campaign.toml", "--json", check=4)
    assert json.loads(run.stdout)["units"]["failed"] == 1
    status = json.loads(workshop.egretta("status", "campaign.toml", "--json", check=4).stdout)
    (failure,) = status["failures"]
    assert (failure["class"], failure["count"], failure["events"]) == ("code", 1, 10)
    assert "told to fail" in failure["message"]
    shown = workshop.egretta("status", "campaign.toml", check=4).stdout
    assert failure["command"] in shown
    workshop.egretta("merge", "campaign.toml", check=2)
    workshop.trigger.unlink()
    assert failure["command"].startswith("egretta retry")
    workshop.egretta(*failure["command"].split()[1:], check=0)
    workshop.egretta("status", "campaign.toml", check=3)
    workshop.egretta("run", "campaign.toml", check=0)


def test_an_error_is_a_message_and_what_to_do_not_a_traceback(workshop):
    done = workshop.egretta("run", "absent.toml", check=2)
    assert "no such campaign file" in done.stderr
    assert "what to do:" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Traceback" in workshop.egretta("--debug", "run", "absent.toml").stderr
    workshop.write([workshop.hits("a.root", 5)], backend={"worker": 3})
    assert "did you mean 'workers'?" in workshop.egretta("plan", "campaign.toml", check=2).stderr


def test_settings_of_the_command_line_win(workshop):
    workshop.write([workshop.hits("a.root", 20)])
    plan = workshop.egretta(
        "plan", "campaign.toml", "--set", "splitting.entries_per_unit=5", "--json", check=0
    )
    assert json.loads(plan.stdout)["units"] == 4
    done = workshop.egretta("plan", "campaign.toml", "--set", "workers", check=2)
    assert "section.key=value" in done.stderr


def test_a_plan_with_bad_files_says_so(workshop):
    workshop.write([workshop.hits("a.root", 5), "absent.root"])
    done = workshop.egretta("plan", "campaign.toml", check=4)
    assert "cannot be used (data)" in done.stdout
    assert "absent.root" in done.stdout


def test_a_retry_of_nonsense_is_refused(workshop):
    workshop.write([workshop.hits("a.root", 5)])
    assert "u0000017" in workshop.egretta("retry", "campaign.toml", "--unit", "seven", check=2).stderr
    assert (
        "alone" in workshop.egretta("retry", "campaign.toml", "--damaged", "--class", "data", check=2).stderr
    )
    assert "egretta run" in workshop.egretta("retry", "campaign.toml", check=2).stderr


def test_units_of_a_dead_runner_are_not_shown_as_running_for_ever(workshop):
    path = workshop.write([workshop.hits("a.root", 30)])
    campaign = Campaign.load(path)
    campaign.run()
    with campaign.ledger() as ledger:
        ledger.undo([0, 1])
        ledger.claim(2, now=1.0)
    shown = workshop.egretta("status", "campaign.toml", check=3).stdout
    assert "2 units were running when their runner died" in shown
    done = workshop.egretta("run", "campaign.toml", check=0)
    assert "2 run again" in done.stderr


def test_a_skipped_file_is_shown_with_the_command_that_takes_it_up_again(workshop):
    workshop.write([workshop.hits("a.root", 5, seed=1), "b.root"])
    assert "b.root" in workshop.egretta("run", "campaign.toml", check=2).stderr
    done = workshop.egretta("run", "campaign.toml", "--skip-bad-files", check=0)
    assert "left out" in done.stderr
    (failure,) = json.loads(workshop.egretta("status", "campaign.toml", "--json", check=0).stdout)["failures"]
    assert failure["what"] == "file"
    workshop.hits("b.root", 6, seed=2)
    again = workshop.egretta(*failure["command"].split()[1:], check=0)
    assert "(6 events)" in again.stdout
    workshop.egretta("run", "campaign.toml", check=0)


def test_a_measured_rate_is_what_the_plan_rests_on(workshop):
    workshop.write([workshop.hits("a.root", 8)], pipeline={"delay_s": 0.1})
    plan = json.loads(workshop.egretta("plan", "campaign.toml", "--measure", "--json", check=0).stdout)
    assert 5 < plan["events_per_s"] < 40
