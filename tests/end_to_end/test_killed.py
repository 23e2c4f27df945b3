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

# the first of each kind come while there surely is work left
VICTIMS = ["writer", "runner", "job", "runner", "writer", "job", "runner"]


def jobs_of(desk):
    """{unit file: process} of all jobs of the campaign that live, whoever their parent is by now."""
    jobs = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            last = process.cmdline()[-1:]
            if last and last[0].startswith(str(desk.directory)) and last[0].endswith(".unit.json"):
                jobs[last[0]] = process
    return jobs


def wait_for_writer(desk, runner):
    """The first job seen with its tracks half written; None once the runner has ended."""
    while runner.poll() is None:
        # .u0000003.a1.root.5c0ffee5.tmp
        for half in (desk.directory / "out" / "units").glob("*/.*.root.*.tmp"):
            stem = ".".join(half.name.split(".")[1:3])
            job = jobs_of(desk).get(str(half.with_name(f"{stem}.unit.json")))
            if job and half.exists():
                return job
        time.sleep(0.005)
    return None


def kill(victim, desk, runner, rng):
    """kill -9 a process of that kind. Returns whether there was one."""
    if victim == "writer":
        process = wait_for_writer(desk, runner)
    else:
        # from a job's start to its end
        time.sleep(rng.uniform(0.1, 1.4))
        jobs = list(jobs_of(desk).values())
        process = psutil.Process(runner.pid) if victim == "runner" else rng.choice(jobs) if jobs else None
    if process is None or runner.poll() is not None:
        return False
    with suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGKILL)
        return True
    return False


def test_whatever_is_killed_every_event_is_in_the_merged_tracks_once(desk, events):
    rng = random.Random(3)
    desk.write(
        [events],
        splitting={"entries_per_unit": 2},
        retry={"max_attempts": 50, "pause_after_failures": 0},
    )
    quiet = {"cwd": desk.directory, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    victims, killed = list(VICTIMS), []
    while victims:
        with subprocess.Popen(desk.command("run", "campaign.toml"), **quiet) as runner:
            try:
                while victims and runner.poll() is None:
                    if kill(victims[0], desk, runner, rng):
                        killed.append(victims.pop(0))
                        if killed[-1] == "runner":
                            runner.wait(timeout=10)
            finally:
                runner.kill()
        if runner.returncode == 0:
            break
        assert runner.returncode == -signal.SIGKILL, "the runner ended by itself with work left"
    assert {"writer", "runner", "job"} <= set(killed), "the campaign was over before it was hurt"
    _, alive = psutil.wait_procs(list(jobs_of(desk).values()), timeout=10)
    assert not alive, "a job outlived its runner"
    desk.egretta("run", "campaign.toml")
    status = desk.json("status", "campaign.toml")
    assert status["events"]["processed"] == status["events"]["expected"] == 24
    assert status["events"]["quarantined"] == 0
    merged = desk.json("merge", "campaign.toml")
    assert (merged["events"], merged["missing"]) == (24, 0)
    with uproot.open(desk.directory / "out" / "tracks.root") as tracks, uproot.open(events) as source:
        assert tracks["Tracks"]["entry"].array().tolist() == list(range(24))
        numbers = tracks["Tracks"]["event"].array().tolist()
        assert numbers == source["RawEvent"]["event"].array().tolist()
    # of dead attempts only their orders and logs are left
    names = [path.name for path in (desk.directory / "out" / "units").rglob("*") if path.is_file()]
    results = sorted(name for name in names if not name.endswith((".unit.json", ".log")))
    assert [name.split(".")[0] for name in results] == [f"u{n:07d}" for n in range(12) for _ in range(2)]
    assert {name.split(".")[-1] for name in results} == {"json", "root"}
