"""kill -9 of jobs and runners of the pipeline velo at random moments: every event exactly once at the end."""

import random
import signal
import subprocess
import time
from contextlib import suppress

import psutil
import pytest
import uproot

pytestmark = pytest.mark.chaos

KILLS = 8


def kill_one(runner, rng):
    """kill -9 a job, or the runner if there is none or chance has it so. Returns the runner's jobs."""
    with suppress(psutil.Error):
        jobs = psutil.Process(runner.pid).children(recursive=True)
        victim = rng.choice(jobs) if jobs and rng.random() < 0.6 else psutil.Process(runner.pid)
        victim.send_signal(signal.SIGKILL)
        return jobs
    return []


def test_whatever_is_killed_every_event_is_in_the_merged_tracks_once(desk, events):
    rng = random.Random(3)
    desk.write(
        [events],
        splitting={"entries_per_unit": 1},
        retry={"max_attempts": 50, "pause_after_failures": 0},
    )
    quiet = {"cwd": desk.directory, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    kills, jobs = 0, []
    while kills < KILLS:
        with subprocess.Popen(desk.command("run", "campaign.toml"), **quiet) as runner:
            while runner.poll() is None and kills < KILLS:
                # from a job's start to the middle of its writing
                time.sleep(rng.uniform(0.1, 1.6))
                jobs += kill_one(runner, rng)
                kills += 1
            if runner.poll() is None:
                runner.kill()
        counts = desk.json("status", "campaign.toml", code=None)["events"]
        if counts["processed"] == 24:
            break
    assert kills >= 3, "the campaign was over before it was hurt"
    _, alive = psutil.wait_procs(jobs, timeout=10)
    assert not alive, "a job outlived its runner"
    desk.egretta("run", "campaign.toml")
    status = desk.json("status", "campaign.toml")
    assert status["events"]["processed"] == status["events"]["expected"] == 24
    desk.egretta("merge", "campaign.toml")
    with uproot.open(desk.directory / "out" / "tracks.root") as merged, uproot.open(events) as source:
        numbers = merged["Tracks"]["event"].array().tolist()
        assert numbers == source["RawEvent"]["event"].array().tolist()
    # of dead attempts only their orders and logs are left
    names = [path.name for path in (desk.directory / "out" / "units").rglob("*") if path.is_file()]
    results = sorted(name for name in names if not name.endswith((".unit.json", ".log")))
    assert [name.split(".")[0] for name in results] == [f"u{n:07d}" for n in range(24) for _ in range(2)]
    assert {name.split(".")[-1] for name in results} == {"json", "root"}
