"""Fixtures that every room's tests share."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of real detector events; tests that need it skip where it is absent."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    path = Path(os.environ.get("EGRETTA_SHARED_DATA", default))
    if not (path / "velo").is_dir():
        pytest.skip(f"no real events at {path} (set EGRETTA_SHARED_DATA to a folder that holds them)")
    return path
