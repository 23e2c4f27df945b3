"""What the machine can do at best, measured in the same run: the floors that kernels are held against."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

_COPY_BYTES = 256 * 1024 * 1024
_MATRIX = 1024


@dataclass(frozen=True, slots=True)
class Machine:
    """One core: bytes a second to and from memory, float32 operations a second."""

    bytes_per_s: float
    flops_per_s: float

    def bytes_ms(self, n_bytes: float) -> float:
        """Milliseconds to move so many bytes."""
        return 1e3 * n_bytes / self.bytes_per_s

    def flops_ms(self, flops: float) -> float:
        """Milliseconds for so many operations, a multiply-add being two."""
        return 1e3 * flops / self.flops_per_s


@dataclass(frozen=True, slots=True)
class Floor:
    """What a kernel cannot be faster than, for all events together, and how that was computed."""

    ms: float
    how: str


def best_s(work: Callable[[], object], repeats: int) -> float:
    """The shortest of some runs, after one that is not counted."""
    work()
    shortest = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        shortest = min(shortest, time.perf_counter() - began)
    return shortest


def probe() -> Machine:
    """A copy of 256 MiB (read and written), a product of two 1024 x 1024 matrices; on the threads allowed."""
    source = np.ones(_COPY_BYTES // 4, np.float32)
    target = np.zeros_like(source)
    copy_s = best_s(lambda: np.copyto(target, source), 5)
    matrix = np.random.default_rng(1).random((_MATRIX, _MATRIX), dtype=np.float32)
    product = np.empty_like(matrix)
    product_s = best_s(lambda: np.matmul(matrix, matrix, out=product), 5)
    return Machine(2 * _COPY_BYTES / copy_s, 2 * _MATRIX**3 / product_s)
