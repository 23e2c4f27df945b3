"""What every inference engine is to a pipeline: named arrays in, named arrays out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One input or output: its name, element type and shape, -1 where a dimension is free."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model's contract: what it takes, what it gives, and the settings that belong with its weights."""

    name: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    settings: Mapping[str, str]


class Engine(Protocol):
    """One loaded model. Made once a job, called for every batch, from one thread at a time."""

    @property
    def spec(self) -> ModelSpec:
        """The contract of the loaded model."""
        ...

    def run(self, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """All outputs for one batch.

        Raises CodeError where the arrays do not fit the contract, TransientError or SiteError where the
        engine itself fails.
        """
        ...

    def close(self) -> None:
        """Release what the engine holds. A closed engine is not used again."""
        ...


class EngineFactory(Protocol):
    """Loads a model file; raises SiteError where it cannot be read, CodeError where it is no model."""

    def __call__(self, path: Path, *, threads: int) -> Engine:
        """An engine that uses at most ``threads`` threads."""
        ...
