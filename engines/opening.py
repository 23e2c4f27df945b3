"""Engines by name."""

from __future__ import annotations

from pathlib import Path

from egretta.engines.protocol import Engine
from egretta.kernels.errors import SpecError

ENGINES = ("fused", "onnxruntime")


def open_engine(name: str, path: Path, *, threads: int = 1) -> Engine:
    """Load a model into the engine of that name, imported only now.

    Raises SpecError for an unknown engine, SiteError for a file that cannot be read, CodeError for one that
    the engine cannot run.
    """
    if name == "fused":
        from egretta.engines.fused import FusedEngine

        return FusedEngine(path, threads=threads)
    if name == "onnxruntime":
        from egretta.engines.onnx_runtime import OnnxRuntimeEngine

        return OnnxRuntimeEngine(path, threads=threads)
    raise SpecError(f"no engine is named {name!r}", hint=f"use one of {', '.join(ENGINES)}")
