"""The runner: takes in what was left behind, keeps the backend busy, takes results in, tries again.

All that it decides is in the retry policy; all that it knows is in the ledger. Killed at any moment, the
next one goes on from there.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from types import FrameType
from typing import Any

from egretta.jobs.manifest import Manifest
from egretta.jobs.unit import Unit
from egretta.kernels.errors import EgrettaError
from egretta.workflows.backends.base import Backend, Job
from egretta.workflows.intake import FailedAttempt, judge, left_behind
from egretta.workflows.layout import Layout, unit_id
from egretta.workflows.ledger import Claim, Ledger
from egretta.workflows.retry import Limits, decide, pause_reason
from egretta.workflows.spec import CampaignSpec
from egretta.workflows.states import AttemptState, UnitState
from egretta.workflows.summary import Totals, totals

_TICK_S = 0.5


class RunEnd(StrEnum):
    """Why a run returned."""

    FINISHED = "finished"
    STOPPED = "stopped"
    PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the campaign is. ``events_per_s`` and ``eta_s`` count from this run's start; None at first."""

    totals: Totals
    events_per_s: float | None
    eta_s: float | None


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that the operator should read."""

    text: str
    bad: bool = False


Observer = Callable[[Progress | Notice], None]


class StopRequest:
    """Asks a run to end in order. As a context manager in the main thread, Ctrl-C and SIGTERM set it."""

    def __init__(self) -> None:
        self.wanted = False

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Let signals set it; a second Ctrl-C raises KeyboardInterrupt."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def handle(number: int, frame: FrameType | None) -> None:
            if self.wanted and number == signal.SIGINT:
                raise KeyboardInterrupt
            self.wanted = True

        before: dict[int, Any] = {n: signal.signal(n, handle) for n in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class Runner:
    """Runs one campaign to its end, or until it is stopped or pauses. Its caller holds the lock."""

    def __init__(
        self,
        spec: CampaignSpec,
        ledger: Ledger,
        backend: Backend,
        observe: Observer,
        stop: StopRequest,
    ) -> None:
        self._spec = spec
        self._ledger = ledger
        self._backend = backend
        self._observe = observe
        self._stop = stop
        self._layout = Layout(spec.output_directory)
        self._config_hash = spec.config_hash
        self._options = spec.pipeline_options
        self._running: dict[tuple[int, int], Claim] = {}
        self._outcomes: deque[bool] = deque(maxlen=max(1, spec.retry.pause_after_failures))
        self._totals = Totals()
        self._started_at = time.monotonic()
        self._processed_before = 0
        self._told_at = 0.0

    def run(self) -> tuple[RunEnd, str]:
        """Run; returns why it ended, and the reason of a pause."""
        self._totals = totals(self._ledger)
        self._recover()
        self._processed_before = self._totals.processed
        paused: str | None = None
        try:
            while not self._stop.wanted:
                paused = paused or pause_reason(list(self._outcomes), self._spec.retry)
                if paused is None:
                    self._submit()
                if not self._running and (paused or self._totals.finished):
                    break
                self._wait()
                self._tell()
        finally:
            # On an error too: nothing may write on once the lock is free.
            self._backend.cancel()
        if self._stop.wanted:
            self._settle(self._running.values(), AttemptState.CANCELLED)
            self._running.clear()
        self._tell(now=True)
        if self._totals.finished:
            return RunEnd.FINISHED, ""
        return (RunEnd.STOPPED, "") if self._stop.wanted else (RunEnd.PAUSED, paused or "")

    def _recover(self) -> None:
        """Settle the attempts of a runner that died."""
        left = self._ledger.running()
        if not left:
            return
        handles = [((claim.unit, claim.attempt), claim.handle) for claim in left if claim.handle]
        followed = self._backend.adopt(handles)
        orphans = [claim for claim in left if (claim.unit, claim.attempt) not in followed]
        self._running = {key: c for c in left if (key := (c.unit, c.attempt)) in followed}
        taken = self._settle(orphans, AttemptState.LOST)
        self._observe(
            Notice(
                f"an earlier run ended while {len(left)} units were running: {taken} had finished, "
                f"{len(orphans) - taken} run again"
            )
        )

    def _submit(self) -> None:
        free = self._backend.capacity - len(self._running)
        if free <= 0:
            return
        claims = self._ledger.claim(free, time.time())
        if not claims:
            return
        jobs = []
        for claim in claims:
            self._running[claim.unit, claim.attempt] = claim
            self._totals.move(UnitState.PENDING, UnitState.RUNNING, claim.stop - claim.start)
            limits = self._limits(claim)
            path = self._layout.attempt_path(claim.unit, claim.attempt, ".unit.json")
            self._unit(claim).write(path)
            log_path = path.with_name(path.name.removesuffix(".unit.json") + ".log")
            jobs.append(Job((claim.unit, claim.attempt), path, log_path, limits.timeout_s, limits.memory_mb))
        handles = self._backend.submit(jobs)
        self._ledger.set_handles((*job.key, handle) for job, handle in zip(jobs, handles, strict=True))

    def _wait(self) -> None:
        if not self._running:
            start = self._ledger.next_start()
            if start is not None:
                time.sleep(min(max(start - time.time(), 0.0), _TICK_S))
            return
        for end in self._backend.poll(_TICK_S):
            claim = self._running.pop(end.key)
            limits = self._limits(claim)
            log_path = self._layout.attempt_path(claim.unit, claim.attempt, ".log")
            self._take(claim, judge(self._unit(claim), end, limits.memory_mb, log_path))

    def _take(self, claim: Claim, outcome: Manifest | FailedAttempt) -> None:
        if isinstance(outcome, Manifest):
            self._succeed(claim, outcome)
        else:
            self._fail(claim, outcome)

    def _succeed(self, claim: Claim, manifest: Manifest) -> None:
        self._outcomes.append(True)
        if not self._ledger.commit(manifest, time.time()):
            self._layout.remove_attempt(claim.unit, claim.attempt)
            self._observe(Notice(f"{unit_id(claim.unit)} was done twice; the second output was removed"))
            return
        self._totals.move(
            UnitState.RUNNING,
            UnitState.DONE,
            claim.stop - claim.start,
            manifest.events_processed,
            len(manifest.quarantined),
        )
        if manifest.quarantined:
            count = len(manifest.quarantined)
            self._observe(
                Notice(f"{unit_id(claim.unit)}: {count} events quarantined: {manifest.quarantined[0].reason}")
            )
        self._layout.tidy(claim.unit, claim.attempt)

    def _fail(self, claim: Claim, failed: FailedAttempt) -> None:
        self._outcomes.append(False)
        failure = failed.failure
        now = time.time()
        failures = claim.failures + 1
        verdict = decide(failure, failures, self._limits(claim), self._spec.retry, now)
        # Before the ledger says that the unit may run again, nothing of this attempt may be left.
        self._layout.remove_attempt(claim.unit, claim.attempt)
        self._ledger.fail(claim, failure, verdict, now, failed.manifest)
        self._totals.move(UnitState.RUNNING, verdict.state, claim.stop - claim.start)
        first_line = failure.message.partition("\n")[0]
        self._observe(
            Notice(
                f"{unit_id(claim.unit)} attempt {claim.attempt} failed ({failure.failure_class}): "
                f"{first_line}; {verdict.why}",
                bad=True,
            )
        )

    def _settle(self, claims: Iterable[Claim], state: AttemptState) -> int:
        """Take in what ended attempts left whole; put the other units back. Returns how many were whole."""
        back = []
        taken = 0
        for claim in list(claims):
            try:
                left = left_behind(self._unit(claim))
            except EgrettaError:
                left = None
            if left is None:
                self._layout.remove_attempt(claim.unit, claim.attempt)
                self._totals.move(UnitState.RUNNING, UnitState.PENDING, claim.stop - claim.start)
                back.append(claim)
            else:
                self._take(claim, left)
                taken += isinstance(left, Manifest)
        self._ledger.release(back, state, time.time())
        return taken

    def _limits(self, claim: Claim) -> Limits:
        backend = self._spec.backend
        return Limits(
            max(backend.memory_mb, claim.memory_mb or 0), max(backend.unit_timeout_s, claim.timeout_s or 0.0)
        )

    def _unit(self, claim: Claim) -> Unit:
        return Unit(
            unit_id=unit_id(claim.unit),
            attempt=claim.attempt,
            campaign=self._spec.campaign.name,
            config_hash=self._config_hash,
            pipeline=self._spec.campaign.pipeline,
            file=claim.path,
            file_uuid=claim.uuid,
            start=claim.start,
            stop=claim.stop,
            output_directory=str(self._layout.unit_directory(claim.unit)),
            tree=claim.tree,
            parquet=self._spec.output.parquet,
            batch_events=self._spec.backend.batch_events,
            threads=self._spec.backend.threads,
            memory_mb=self._limits(claim).memory_mb,
            pipeline_options=self._options,
        )

    def _tell(self, *, now: bool = False) -> None:
        moment = time.monotonic()
        if not now and moment - self._told_at < _TICK_S:
            return
        self._told_at = moment
        done = self._totals.processed - self._processed_before
        elapsed_s = moment - self._started_at
        rate = done / elapsed_s if done and elapsed_s > 0 else None
        self._observe(Progress(self._totals, rate, self._totals.remaining / rate if rate else None))
