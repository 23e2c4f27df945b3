"""Attempts as processes of this machine, each in a group of its own, held to its time and memory."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import psutil

from egretta.jobs.limits import PARENT_VARIABLE
from egretta.workflows.backends.base import EndKind, Job, JobEnd

_LOOK_S = 0.02
_MEMORY_LOOK_S = 0.5
# The job holds itself to memory_mb and says more about it; the backend steps in where the job cannot.
_MEMORY_SLACK = 1.1


@dataclass(slots=True)
class _Running:
    job: Job
    process: subprocess.Popen[bytes]
    started_at: float
    peak_mb: float = 0.0
    ended_as: EndKind | None = None


class LocalBackend:
    """Runs at most ``workers`` jobs at once on this machine."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._running: dict[tuple[int, int], _Running] = {}
        self._not_started: list[JobEnd] = []
        self._memory_looked_at = 0.0
        self._host = socket.gethostname()

    @property
    def capacity(self) -> int:
        """The number of workers."""
        return self._workers

    def submit(self, jobs: Sequence[Job]) -> list[str]:
        """Start each job at once; the handle is ``pid:start time``."""
        return [self._start(job) for job in jobs]

    def poll(self, timeout_s: float) -> list[JobEnd]:
        """Ends of jobs; looks at their time and memory on the way."""
        deadline = time.monotonic() + timeout_s
        while True:
            self._hold_to_limits()
            ends, self._not_started = self._not_started, []
            for running in list(self._running.values()):
                if _has_ended(running.process.pid):
                    ends.append(self._end(running))
            if ends or time.monotonic() >= deadline or not self._running:
                return ends
            time.sleep(_LOOK_S)

    def cancel(self) -> None:
        """Kill every job's group and wait for the processes."""
        for running in self._running.values():
            _kill_group(running.process.pid)
        for running in self._running.values():
            running.process.wait()
        self._running.clear()
        self._not_started.clear()

    def adopt(self, handles: Iterable[tuple[tuple[int, int], str]]) -> set[tuple[int, int]]:
        """Local jobs die with their runner; should one have outlived it, it is killed here."""
        for _, handle in handles:
            pid_text, _, created = handle.partition(":")
            with suppress(psutil.Error, ValueError):
                process = psutil.Process(int(pid_text))
                # A pid alone may belong to anyone by now.
                if f"{process.create_time():.2f}" == created:
                    _kill_group(process.pid)
                    process.wait(timeout=10)
        return set()

    def _start(self, job: Job) -> str:
        command = [sys.executable, "-m", "egretta.jobs", str(job.unit_path)]
        # Killed, this process takes its jobs along: none writes on beside those of the next runner.
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", PARENT_VARIABLE: str(os.getpid())}
        try:
            with job.log_path.open("wb") as log:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    start_new_session=True,
                )
        except OSError as error:
            self._not_started.append(
                JobEnd(job.key, EndKind.NOT_STARTED, error.errno or 0, self._host, 0.0, 0.0, str(error))
            )
            return ""
        self._running[job.key] = _Running(job, process, time.monotonic())
        try:
            return f"{process.pid}:{psutil.Process(process.pid).create_time():.2f}"
        except psutil.Error:
            return f"{process.pid}:"

    def _hold_to_limits(self) -> None:
        now = time.monotonic()
        look_at_memory = now - self._memory_looked_at >= _MEMORY_LOOK_S
        if look_at_memory:
            self._memory_looked_at = now
        for running in self._running.values():
            if running.ended_as is not None:
                continue
            if look_at_memory:
                running.peak_mb = max(running.peak_mb, _resident_mb(running.process.pid))
            if now - running.started_at > running.job.timeout_s:
                running.ended_as = EndKind.OUT_OF_TIME
            elif running.peak_mb > running.job.memory_mb * _MEMORY_SLACK:
                running.ended_as = EndKind.OUT_OF_MEMORY
            if running.ended_as is not None:
                _kill_group(running.process.pid)

    def _end(self, running: _Running) -> JobEnd:
        # What the job may have started itself must not write on after it. Not waited for yet, the job
        # still owns its pid, so that the group is surely its own.
        _kill_group(running.process.pid)
        code = running.process.wait()
        del self._running[running.job.key]
        kind = running.ended_as or (EndKind.SIGNAL if code < 0 else EndKind.EXIT)
        wall_s = time.monotonic() - running.started_at
        return JobEnd(running.job.key, kind, abs(code), self._host, wall_s, running.peak_mb)


def _has_ended(pid: int) -> bool:
    """True once a child has ended; it stays to be waited for."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # where SIGCHLD is ignored, nobody needs to wait; the manifest tells the rest
        return True


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _resident_mb(pid: int) -> float:
    """Resident memory of a process and all below it, in MB; 0 once it has ended."""
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
    except psutil.Error:
        return 0.0
    total = 0.0
    for member in family:
        with suppress(psutil.Error):
            total += member.memory_info().rss
    return total / 1e6
