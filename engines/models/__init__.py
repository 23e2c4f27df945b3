"""Model files shipped with Egretta, each with its model card."""

from __future__ import annotations

from pathlib import Path


def shipped(name: str) -> Path:
    """Path of a model that comes with the package, such as ``velo-gnn``."""
    return Path(__file__).with_name(f"{name}.onnx")
