"""Whatever is killed, whenever: running again completes the campaign with every event exactly once."""

import random
import signal
import subprocess
import time
from contextlib import suppress

import psutil
import pytest

from egretta.workflows import Campaign
from egretta.workflows.summary import totals

pytestmark = pytest.mark.chaos

MOMENTS = ["process", "commit 0 before", "commit 0 after", "close", "commit 1 before", "commit 1 after"]


def assert_exactly_once(campaign, workshop, expected, merged_tracks):
    result = campaign.run()
    assert result.totals.flawless, campaign.status().troubles
    assert campaign.merge().missing == 0
    assert merged_tracks(campaign.layout.tracks) == expected
    # One output and one manifest a unit: nothing of any other attempt is left.
    names = workshop.unit_files()
    assert len(names) == 2 * sum(result.totals.units.values()), names
    with campaign.ledger() as ledger:
        assert totals(ledger).processed == len(expected)
        done = ledger.connection.execute(
            "SELECT count(*) FROM attempts WHERE state = 'done' GROUP BY unit"
        ).fetchall()
        assert {count for (count,) in done} == {1}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_job_killed_in_the_middle_of_a_write(moment, workshop, expected_tracks, merged_tracks):
    path = workshop.hits("a.root", 20)
    workshop.trigger.touch()
    options = {"kill_at": moment, "trigger": workshop.trigger, "once": True}
    campaign = workshop.campaign([path], pipeline=options)
    campaign.run()
    assert not workshop.trigger.exists(), "nothing was killed"
    with campaign.ledger() as ledger:
        attempts = ledger.connection.execute("SELECT count(*) FROM attempts").fetchone()[0]
    # Killed once its manifest is in place, a job has done its work.
    assert attempts == (2 if moment == "commit 1 after" else 3)
    assert_exactly_once(campaign, workshop, expected_tracks([path]), merged_tracks)


def start_runner(workshop, path):
    return subprocess.Popen(
        workshop.command("run", str(path)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def kill_tree_member(runner, choose_runner, rng):
    """kill -9 the runner or one of its jobs. Returns the processes that were its jobs."""
    with suppress(psutil.Error):
        jobs = psutil.Process(runner.pid).children(recursive=True)
        victim = psutil.Process(runner.pid) if choose_runner or not jobs else rng.choice(jobs)
        victim.send_signal(signal.SIGKILL)
        return jobs
    return []


@pytest.mark.parametrize("seed", range(2))
def test_runner_and_jobs_killed_at_random_moments(seed, workshop, expected_tracks, merged_tracks):
    rng = random.Random(seed)
    files = [workshop.hits("a.root", 37, seed=1), workshop.hits("b.root", 20, seed=2)]
    path = workshop.write(
        files,
        pipeline={"delay_s": 0.02},
        splitting={"entries_per_unit": 9},
        retry={"max_attempts": 50, "pause_after_failures": 0},
    )
    kills = 0
    for _ in range(4):
        with start_runner(workshop, path) as runner:
            deadline = time.monotonic() + rng.uniform(0.3, 2.5)
            while runner.poll() is None and time.monotonic() < deadline:
                time.sleep(rng.uniform(0.02, 0.3))
                if rng.random() < 0.3:
                    kill_tree_member(runner, False, rng)
                    kills += 1
            jobs = kill_tree_member(runner, True, rng)
            kills += 1
            runner.wait()
        _, alive = psutil.wait_procs(jobs, timeout=5)
        assert not alive, "a job outlived its runner"
    assert kills >= 4
    assert_exactly_once(Campaign.load(path), workshop, expected_tracks(files), merged_tracks)


def test_a_runner_killed_between_an_output_and_its_ledger_takes_it_in(workshop, monkeypatch):
    """The manifest is in place, the ledger does not know: the output counts, its unit is not run again."""
    from egretta.workflows.ledger import Ledger

    campaign = workshop.campaign([workshop.hits("a.root", 20)])

    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "commit", die)
        with pytest.raises(KeyboardInterrupt):
            campaign.run()
    assert campaign.status().totals.processed == 0
    notices = []
    result = campaign.run(notices.append)
    assert result.totals.processed == 20
    assert "had finished" in notices[0].text
    with campaign.ledger() as ledger:
        attempts = ledger.connection.execute("SELECT unit, count(*) FROM attempts GROUP BY unit").fetchall()
    assert (0, 1) in attempts or (1, 1) in attempts


def test_a_damaged_output_of_a_dead_runner_is_not_taken_in(workshop, monkeypatch):
    from egretta.workflows.ledger import Ledger

    campaign = workshop.campaign([workshop.hits("a.root", 10)])

    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "commit", die)
        with pytest.raises(KeyboardInterrupt):
            campaign.run()
    (output,) = campaign.layout.directory.glob("units/*/*.root")
    data = bytearray(output.read_bytes())
    data[-1] ^= 0xFF
    output.write_bytes(data)
    result = campaign.run()
    assert result.totals.flawless
    assert workshop.unit_files() == ["u0000000.a2.json", "u0000000.a2.root"]


def test_a_merge_killed_in_the_middle_leaves_no_half_file(workshop, expected_tracks, merged_tracks):
    path = workshop.hits("a.root", 10)
    campaign_file = workshop.write([path])
    campaign = Campaign.load(campaign_file)
    campaign.run()
    script = (
        "import os, signal\n"
        "from egretta.jobs.atomic import AtomicFile\n"
        "AtomicFile.commit = lambda self: os.kill(os.getpid(), signal.SIGKILL)\n"
        "from egretta.workflows import Campaign\n"
        f"Campaign.load({str(campaign_file)!r}).merge()\n"
    )
    done = subprocess.run([workshop.command()[0], "-c", script], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not campaign.layout.tracks.exists()
    assert_exactly_once(campaign, workshop, expected_tracks([path]), merged_tracks)
    assert not list(campaign.layout.directory.glob(".*.tmp"))
