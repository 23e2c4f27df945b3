"""Pipelines for the tests of the job, named there as ``plain_pipelines:NAME``."""

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from egretta.jobs.pipelines.base import BatchResult, RejectedEvent
from egretta.kernels.batches import HitBatch, TrackBatch


def one_track_a_hit(batch: HitBatch) -> TrackBatch:
    n_hits = batch.n_hits
    zeros = np.zeros(n_hits, dtype=np.float32)
    first = np.repeat(batch.offsets[:-1], np.diff(batch.offsets))
    return TrackBatch(
        entry=batch.entry,
        event=batch.event,
        offsets=batch.offsets,
        x=batch.x,
        y=batch.y,
        z=batch.z,
        tx=zeros,
        ty=zeros,
        chi2=zeros,
        hit_offsets=np.arange(n_hits + 1, dtype=np.int64),
        hit_index=(np.arange(n_hits) - first).astype(np.int32),
        lhcb_id=batch.lhcb_id,
    )


class Plain:
    """One track a hit; rejects the entries of the option ``reject``."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.reject = set(options.get("reject", ()))

    def process(self, batch: HitBatch) -> BatchResult:
        tracks = one_track_a_hit(batch)
        rejected = tuple(
            RejectedEvent(index, "data", "told to")
            for index, entry in enumerate(batch.entry.tolist())
            if entry in self.reject
        )
        counts = {"hits": batch.n_hits, "tracks": tracks.n_tracks}
        return BatchResult(tracks, batch, rejected, {"copy": 0.001}, counts)

    def close(self) -> None:
        """Nothing is held."""


class LosesAnEvent(Plain):
    def process(self, batch: HitBatch) -> BatchResult:
        result = super().process(batch)
        shifted = replace(result.tracks, entry=result.tracks.entry + 1)
        return replace(result, tracks=shifted)


class Raises(Plain):
    """Raises what the options name, at the second batch."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        self.error = options["error"]
        self.batches = 0

    def process(self, batch: HitBatch) -> BatchResult:
        self.batches += 1
        if self.batches < 2:
            return super().process(batch)
        if self.error == "memory":
            raise MemoryError
        if self.error == "signal":
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(30)
        if isinstance(self.error, int):
            raise OSError(self.error, os.strerror(self.error), "/some/file")
        raise ValueError("a bug in this pipeline")


class Eats(Plain):
    """Takes 50 MB a step, 600 MB a batch, and keeps them."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        self.held: list[Any] = []

    def process(self, batch: HitBatch) -> BatchResult:
        for _ in range(12):
            self.held.append(np.ones(50_000_000, dtype=np.uint8))
            time.sleep(0.1)
        return super().process(batch)


class EatsDeaf(Plain):
    """Takes memory and swallows whatever is to stop it, as a careless library may."""

    def process(self, batch: HitBatch) -> BatchResult:
        held = []
        for _ in range(300):
            try:
                if len(held) < 10:
                    held.append(np.ones(50_000_000, dtype=np.uint8))
                time.sleep(0.1)
            except BaseException:
                continue
        return super().process(batch)
