"""What a job may take of its machine: threads, memory, and how long it may live.

Memory is held to the unit's ``memory_mb`` by watching the resident set, not by RLIMIT_AS: Numba, LLVM and
ONNX Runtime reserve address space by the gigabyte that they never touch, so a limit on the address space
either kills innocent jobs or stops nothing. The watch looks twenty times a second. Past the limit it stops
the job in order; a job that does not come back within the grace time is ended there and then. The watch is
a thread: native code that keeps the interpreter's lock keeps it from looking (our kernels release it), and a
burst that takes the machine's memory within 50 ms is still the operating system's business.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from types import TracebackType
from typing import Self

THREAD_VARIABLES = (
    "EGRETTA_THREADS",
    "NUMBA_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
)
"""Read by Numba and the BLAS libraries when they are imported, by engines when they are built."""

PARENT_VARIABLE = "EGRETTA_PARENT_PID"
"""Set by a backend whose jobs must not outlive it."""

_PR_SET_PDEATHSIG = 1
_PERIOD_S = 0.05
_GRACE_S = 2.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


def set_threads(threads: int, environ: MutableMapping[str, str] = os.environ) -> None:
    """Say how many threads the libraries may use. Call it before any of them is imported."""
    for variable in THREAD_VARIABLES:
        environ[variable] = str(threads)


def die_with_parent(environ: Mapping[str, str] = os.environ) -> None:
    """Be killed when the parent dies, if it asked for that, so that no orphan writes beside its successor.

    Called by the child itself rather than between fork and exec, where a runner with threads may deadlock.
    """
    parent = environ.get(PARENT_VARIABLE)
    if parent is None:
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):  # it died before the call above could know
        os._exit(128 + signal.SIGKILL)


def resident_mb() -> float:
    """Resident set of this process now, in MB (10^6 bytes)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * _PAGE / 1e6


def peak_resident_mb() -> float:
    """Largest resident set of this process so far, in MB.

    Taken from VmHWM: getrusage's ru_maxrss is inherited over exec, so that a small job started by a large
    runner would report the runner's memory as its own.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    return resident_mb()


class MemoryWatch:
    """Calls ``stop(resident_mb)`` once when the resident set exceeds ``limit_mb``, then ``end`` if it must.

    ``stop`` is to make the main thread give up; ``end(resident_mb)`` comes ``grace_s`` later if the watch
    still runs and the memory is still held. Both run in the watch's thread. Without a limit, nothing runs.
    """

    def __init__(
        self,
        limit_mb: int | None,
        stop: Callable[[float], None],
        end: Callable[[float], None],
        *,
        grace_s: float = _GRACE_S,
        measure_mb: Callable[[], float] = resident_mb,
    ) -> None:
        self._limit_mb = limit_mb
        self._stop = stop
        self._end = end
        self._grace_s = grace_s
        self._measure_mb = measure_mb
        self._over = threading.Event()
        self._may_end = threading.Lock()
        self._thread = threading.Thread(target=self._watch, name="memory-watch", daemon=True)

    def release(self) -> None:
        """Stop watching, for good: after this returns, ``end`` is not called any more."""
        self._over.set()
        self._may_end.acquire()

    def __enter__(self) -> Self:
        if self._limit_mb is not None:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def _watch(self) -> None:
        limit_mb = self._limit_mb
        if limit_mb is None:
            return
        stopped_at: float | None = None
        while not self._over.wait(_PERIOD_S):
            used_mb = self._measure_mb()
            if used_mb <= limit_mb:
                continue
            if stopped_at is None:
                stopped_at = time.monotonic()
                self._stop(used_mb)
            elif time.monotonic() - stopped_at > self._grace_s:
                if self._may_end.acquire(blocking=False):
                    self._end(used_mb)
                return
