"""A pipeline for the tests of campaigns, named there as ``obedient:make_pipeline``: it fails when told to.

A failure is told by a file, ``trigger``: while it exists, or once (``once``, the job removes it first).
"""

import os
import resource
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from egretta.jobs.atomic import AtomicFile
from egretta.jobs.pipelines.base import BatchResult, RejectedEvent
from egretta.kernels.batches import HitBatch, TrackBatch
from egretta.kernels.errors import (
    CodeError,
    CorruptInputError,
    ResourceError,
    SiteError,
    SpecError,
    TransientError,
)

_ERRORS = {
    "transient": TransientError,
    "data": CorruptInputError,
    "resource": ResourceError,
    "site": SiteError,
    "code": CodeError,
}
# The runner too builds a pipeline, to check its options: it is not to be killed.
IN_JOB = "EGRETTA_PARENT_PID" in os.environ
_KNOWN = {"trigger", "once", "fail", "from_entry", "reject", "delay_s", "kill_at", "eat_mb", "fill_disk"}


def _tracks(batch: HitBatch) -> TrackBatch:
    """One track an event that has hits: its state tells the first hit, its hits are all of the event."""
    counts = np.diff(batch.offsets)
    first = batch.offsets[:-1][counts > 0]
    zeros = np.zeros(len(first), dtype=np.float32)
    offsets = np.concatenate([[0], np.cumsum(counts > 0)]).astype(np.int64)
    hit_offsets = np.concatenate([[0], np.cumsum(counts[counts > 0])]).astype(np.int64)
    index = np.arange(batch.n_hits) - np.repeat(batch.offsets[:-1], counts)
    return TrackBatch(
        entry=batch.entry,
        event=batch.event,
        offsets=offsets,
        x=batch.x[first],
        y=batch.y[first],
        z=batch.z[first],
        tx=zeros,
        ty=zeros,
        chi2=zeros,
        hit_offsets=hit_offsets,
        hit_index=index.astype(np.int32),
        lhcb_id=batch.lhcb_id,
    )


class Obedient:
    def __init__(self, options: Mapping[str, Any]) -> None:
        unknown = set(options) - _KNOWN
        if unknown:
            raise SpecError(
                f"[pipeline] {sorted(unknown)[0]}: unknown option", hint=f"known: {sorted(_KNOWN)}"
            )
        self.options = options
        self.held: Any = None
        kill_at = options.get("kill_at", "")
        if kill_at.startswith("commit"):
            self._die_in_commit(kill_at)

    def triggered(self) -> bool:
        trigger = Path(self.options.get("trigger", "/nonexistent"))
        if not trigger.exists():
            return False
        if self.options.get("once"):
            try:
                trigger.unlink()
            except FileNotFoundError:  # another job was told first
                return False
        return True

    def process(self, batch: HitBatch) -> BatchResult:
        time.sleep(self.options.get("delay_s", 0.0))
        if batch.entry[-1] >= self.options.get("from_entry", 0):
            if "fail" in self.options and self.triggered():
                raise _ERRORS[self.options["fail"]]("told to fail", hint="tell it otherwise")
            if "eat_mb" in self.options and self.triggered():
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
                self.held = np.ones(self.options["eat_mb"] * 1_000_000, dtype=np.uint8)
                time.sleep(30)
            if self.options.get("fill_disk") and self.triggered():
                resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
            if self.options.get("kill_at") == "process" and self.triggered():
                os.kill(os.getpid(), signal.SIGKILL)
        rejected = tuple(
            RejectedEvent(index, "data", "told to reject")
            for index, entry in enumerate(batch.entry.tolist())
            if entry in self.options.get("reject", ())
        )
        return BatchResult(_tracks(batch), batch, rejected, {"copy": 0.001}, {"hits": batch.n_hits})

    def close(self) -> None:
        # The job closes its pipeline after the output has its name and before the manifest is written.
        if IN_JOB and self.options.get("kill_at") == "close" and self.triggered():
            os.kill(os.getpid(), signal.SIGKILL)

    def _die_in_commit(self, kill_at: str) -> None:
        """Die before or after the rename of the output (0) or the manifest (1)."""
        original = AtomicFile.commit
        commits = []

        def commit(file: AtomicFile) -> None:
            number = len(commits)
            commits.append(file)
            if kill_at == f"commit {number} before" and self.triggered():
                os.kill(os.getpid(), signal.SIGKILL)
            original(file)
            if kill_at == f"commit {number} after" and self.triggered():
                os.kill(os.getpid(), signal.SIGKILL)

        if IN_JOB:
            AtomicFile.commit = commit


def make_pipeline(options: Mapping[str, Any]) -> Obedient:
    return Obedient(options["pipeline"])
