"""Threads and memory of a job."""

import threading
import time

import numpy as np

from egretta.jobs.limits import MemoryWatch, peak_resident_mb, resident_mb, set_threads


def test_every_library_is_told_the_number_of_threads():
    environ = {"OMP_NUM_THREADS": "64", "HOME": "/"}
    set_threads(3, environ)
    assert environ.pop("HOME") == "/"
    assert set(environ.values()) == {"3"}
    assert {"NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "EGRETTA_THREADS"} <= set(environ)


def test_resident_memory_follows_what_is_touched():
    before = resident_mb()
    block = np.ones(100_000_000, dtype=np.uint8)
    assert resident_mb() - before > 90
    del block
    assert peak_resident_mb() - before > 90


def test_reserving_address_space_is_not_taking_memory():
    before = resident_mb()
    reserved = np.empty(1_000_000_000, dtype=np.uint8)
    assert resident_mb() - before < 10
    del reserved


class Memory:
    def __init__(self) -> None:
        self.used_mb = 100.0
        self.stops: list[float] = []
        self.ended = threading.Event()

    def watch(self, limit_mb: int | None, grace_s: float = 0.1) -> MemoryWatch:
        return MemoryWatch(
            limit_mb,
            self.stops.append,
            lambda used_mb: self.ended.set(),
            grace_s=grace_s,
            measure_mb=lambda: self.used_mb,
        )

    def wait_for_stop(self) -> None:
        deadline = time.monotonic() + 10
        while not self.stops and time.monotonic() < deadline:
            time.sleep(0.01)


def test_a_job_within_its_limit_is_left_alone():
    memory = Memory()
    with memory.watch(100):
        time.sleep(0.3)
    assert memory.stops == []
    assert not memory.ended.is_set()


def test_a_job_that_obeys_is_stopped_once_and_not_ended():
    memory = Memory()
    with memory.watch(100, grace_s=60):
        memory.used_mb = 101.0
        memory.wait_for_stop()
    assert memory.stops == [101.0]
    assert not memory.ended.is_set()


def test_a_job_that_does_not_come_back_is_ended():
    memory = Memory()
    memory.used_mb = 200.0
    with memory.watch(100):
        assert memory.ended.wait(10)
    assert memory.stops == [200.0]


def test_a_job_that_has_begun_to_commit_is_not_ended():
    memory = Memory()
    with memory.watch(100) as watch:
        memory.used_mb = 200.0
        memory.wait_for_stop()
        watch.release()
        time.sleep(0.3)
    assert not memory.ended.is_set()


def test_without_a_limit_nothing_is_watched():
    memory = Memory()
    memory.used_mb = 1e9
    with memory.watch(None):
        time.sleep(0.15)
    assert memory.stops == []
