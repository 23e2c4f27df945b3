"""Detector files as batches, streamed."""

from egretta.jobs.readers.base import Source
from egretta.jobs.readers.opening import open_source

__all__ = ["Source", "open_source"]
