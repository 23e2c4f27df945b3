"""A campaign as an object: the words of the command line, for Python.

>>> from egretta.workflows import Campaign
>>> campaign = Campaign.load("campaign.toml")
>>> print(campaign.plan().units)
>>> campaign.run()
>>> assert campaign.status().finished
>>> campaign.merge()
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from egretta.kernels.errors import EgrettaError, FailureClass, SpecError, UsageError
from egretta.workflows.backends.local import LocalBackend
from egretta.workflows.dataset import BadFile, Dataset, discover, expand_path, inspect_all
from egretta.workflows.layout import Layout
from egretta.workflows.ledger import Ledger
from egretta.workflows.lock import exclusive, is_held
from egretta.workflows.merge import MergeResult, damaged_units, merge
from egretta.workflows.results import Plan, PlannedFile, RetryResult, RunResult
from egretta.workflows.results import Status as Status
from egretta.workflows.runner import Notice, Observer, Progress, Runner, StopRequest
from egretta.workflows.sites import plan_sites
from egretta.workflows.spec import CampaignSpec, load_spec
from egretta.workflows.splitting import entries_for_time, limit_entries, split
from egretta.workflows.states import UnitState
from egretta.workflows.summary import Totals, Trouble, differences, skipped_files, totals, troubles

# What a job takes before its first event: Python, libraries, compiled kernels, models.
_START_S = 3.0


def _ignore(event: Progress | Notice) -> None:
    """Observe nothing."""


class Campaign:
    """A campaign file and what became of it so far."""

    def __init__(self, spec: CampaignSpec) -> None:
        self.spec = spec
        self.layout = Layout(spec.output_directory)

    @classmethod
    def load(cls, path: str | Path, overrides: Mapping[str, Any] | None = None) -> Campaign:
        """Read a campaign file; ``overrides`` maps ``"section.key"`` to a value. Raises SpecError."""
        return cls(load_spec(path, overrides))

    @property
    def started(self) -> bool:
        """True once a first run has made the ledger."""
        return Ledger.exists(self.layout.ledger)

    def ledger(self) -> Ledger:
        """The open ledger, for reports. Raises UsageError before the first run."""
        return Ledger.open(self.layout.ledger)

    def plan(self) -> Plan:
        """Find the files, split them, estimate the cost. Changes nothing, runs nothing."""
        self._check_pipeline()
        dataset = discover(self.spec)
        used, entries_per_unit = self._split_sizes(dataset)
        units = [0] * len(dataset.files)
        for part in split(used, entries_per_unit):
            units[part.file_index] += 1
        rate = self.spec.splitting.events_per_s
        cpu_s = sum(used) / rate + _START_S * sum(units)
        sites = plan_sites(self.spec)
        rounds = max(1.0, sum(units) / self.spec.workers) / max(1.0, sum(units))
        return Plan(
            campaign=self.spec.campaign.name,
            pipeline=self.spec.campaign.pipeline,
            config_hash=self.spec.config_hash,
            output_directory=str(self.layout.directory),
            started=self.started,
            changes=self._changes(),
            files=tuple(
                PlannedFile(file.path, file.tree, file.kind, file.entries, use, count)
                for file, use, count in zip(dataset.files, used, units, strict=True)
            ),
            bad_files=dataset.bad_files,
            entries=sum(used),
            units=sum(units),
            entries_per_unit=entries_per_unit,
            workers=self.spec.workers,
            events_per_s=rate,
            expected_cpu_s=cpu_s,
            expected_wall_s=cpu_s * rounds,
            bandwidth=next(iter(sites.values())) if len(sites) == 1 else None,
            sites=sites,
        )

    def run(
        self, observe: Observer = _ignore, *, skip_bad_files: bool = False, stop: StopRequest | None = None
    ) -> RunResult:
        """Run what is not yet done; start the campaign if it has not been.

        In the main thread, Ctrl-C stops it in order. ``skip_bad_files`` records files that cannot be used as
        left out; without it they are an error. Raises UsageError if the campaign is in use, SpecError if its
        file has changed in a way that changes results.
        """
        if self.spec.backend.name != "local":
            raise UsageError(
                f"the backend {self.spec.backend.name} can be planned for, but not run on yet",
                hint='set name = "local" under [backend]',
            )
        stop = stop or StopRequest()
        with exclusive(self.layout.lock, "run"), stop.on_signals():
            if not self.started:
                self._start(observe, skip_bad_files)
            with self.ledger() as ledger:
                self._refuse_changes()
                runner = Runner(self.spec, ledger, LocalBackend(self.spec.workers), observe, stop)
                end, reason = runner.run()
                return RunResult(end, reason, totals(ledger))

    def status(self, *, remember: bool = False) -> Status:
        """Where it stands; ``remember`` makes this the look from which the next one's deltas count."""
        name = self.spec.campaign.name
        if not self.started:
            return Status(name, False, False, Totals(), {}, (), ())
        with self.ledger() as ledger:
            sums = totals(ledger)
            last = ledger.meta("last_look") or {}
            if remember:
                ledger.set_meta(last_look=sums.units)
            return Status(
                campaign=name,
                started=True,
                running=is_held(self.layout.lock),
                totals=sums,
                deltas={state: count - last.get(state, 0) for state, count in sums.units.items()},
                troubles=tuple(replace(t, command=self._mending(t)) for t in troubles(ledger)),
                skipped_files=tuple(skipped_files(ledger)),
            )

    def retry(
        self,
        failure_class: FailureClass | None = None,
        units: Sequence[int] = (),
        *,
        memory_mb: int | None = None,
        timeout_s: float | None = None,
    ) -> RetryResult:
        """Make failed and quarantined units pending again; ``run`` runs them.

        Narrowed to a failure class and to named units. ``memory_mb`` and ``timeout_s`` raise what they may
        take.
        """
        with exclusive(self.layout.lock, "retry"), self.ledger() as ledger:
            self._refuse_changes()
            return RetryResult(*ledger.reopen(failure_class, units, memory_mb, timeout_s))

    def redo_damaged(self) -> RetryResult:
        """Look at the outputs of all done units; make those pending whose output is lost or damaged."""
        with exclusive(self.layout.lock, "retry"), self.ledger() as ledger:
            self._refuse_changes()
            before = totals(ledger)
            found = damaged_units(ledger, self.layout)
            ledger.undo(found)
            return RetryResult(len(found), totals(ledger).remaining - before.remaining)

    def admit_skipped(self) -> RetryResult:
        """Look again at the input files that were left out; those that can be read now join the campaign."""
        units = events = 0
        with exclusive(self.layout.lock, "retry"), self.ledger() as ledger:
            self._refuse_changes()
            entries_per_unit = ledger.meta("entries_per_unit")
            for row, path in ledger.skipped():
                found = inspect_all(expand_path(path), self.spec.input.tree)
                if found.bad_files:
                    continue
                entries = [file.entries for file in found.files]
                most = self.spec.input.max_events
                used = limit_entries(entries, None if most is None else most - totals(ledger).expected)
                added = ledger.admit(
                    row,
                    [
                        (file, use, split([use], entries_per_unit))
                        for file, use in zip(found.files, used, strict=True)
                    ],
                )
                units += added[0]
                events += added[1]
        return RetryResult(units, events)

    def measure(self, events: int = 200) -> float:
        """Events per second of one worker, measured by a job over the first events of the first file.

        The job runs as every job does, in a temporary directory, once for one event first so that compiled
        kernels are in their cache. Its start is not counted. Raises DataError or CodeError if it fails.
        """
        from egretta.workflows.probe import measure

        dataset = discover(self.spec)
        file = next((file for file in dataset.files if file.entries), None)
        if file is None:
            raise UsageError("there is no event to measure with", hint="egretta plan names the input files")
        return measure(self.spec, file, min(events, file.entries))

    def merge(self, *, allow_missing: bool = False, parquet: bool | None = None) -> MergeResult:
        """Merge the outputs into ``tracks.root``; ``parquet`` None: as the campaign file says."""
        with exclusive(self.layout.lock, "merge"), self.ledger() as ledger:
            self._refuse_changes()
            wanted = self.spec.output.parquet if parquet is None else parquet
            return merge(ledger, self.layout, allow_missing=allow_missing, parquet=wanted)

    def _start(self, observe: Observer, skip_bad_files: bool) -> None:
        self._check_pipeline()
        dataset = discover(self.spec)
        if dataset.bad_files and not skip_bad_files:
            raise SpecError(_bad_files_message(dataset.bad_files), hint=_bad_files_hint(dataset.bad_files))
        if not dataset.files:
            raise SpecError(
                f"none of the input files can be used\n{_bad_files_message(dataset.bad_files)}",
                hint=_bad_files_hint(dataset.bad_files),
            )
        for bad in dataset.bad_files:
            observe(Notice(f"left out: {bad.path} ({bad.failure_class}): {bad.message}", bad=True))
        used, entries_per_unit = self._split_sizes(dataset)
        meta = {
            "name": self.spec.campaign.name,
            "identity": self.spec.identity(),
            "config_hash": self.spec.config_hash,
            "spec_path": str(self.spec.path),
            "spec_text": self.spec.path.read_text(encoding="utf-8"),
            "started_at": time.time(),
            "entries_per_unit": entries_per_unit,
        }
        parts = split(used, entries_per_unit)
        Ledger.create(self.layout.ledger, meta, dataset.files, used, parts, dataset.bad_files).close()

    def _split_sizes(self, dataset: Dataset) -> tuple[list[int], int | None]:
        """Entries used of each file, and the most of a unit."""
        splitting = self.spec.splitting
        used = limit_entries([file.entries for file in dataset.files], self.spec.input.max_events)
        if splitting.by == "files":
            return used, None
        if splitting.by == "entries":
            return used, splitting.entries_per_unit
        return used, entries_for_time(
            sum(used), self.spec.workers, splitting.target_wall_s, splitting.events_per_s
        )

    def _check_pipeline(self) -> None:
        """Build the pipeline once, so that its options and models are refused here and not in every job."""
        from egretta.jobs.pipelines import make_pipeline

        try:
            make_pipeline(self.spec.campaign.pipeline, self.spec.pipeline_options).close()
        except EgrettaError as error:
            raise SpecError(f"{self.spec.path}: {error.message}", hint=error.hint) from error

    def _changes(self) -> tuple[str, ...]:
        if not self.started:
            return ()
        with self.ledger() as ledger:
            return tuple(differences(ledger.meta("identity"), self.spec.identity()))

    def _refuse_changes(self) -> None:
        changes = self._changes()
        if not changes:
            return
        raise SpecError(
            "\n    ".join(
                [
                    f"{self.spec.path} has changed since the campaign at {self.layout.directory} began:",
                    *changes,
                ]
            ),
            hint="restore these settings to go on, or give [output] directory another name to begin anew",
        )

    def _mending(self, trouble: Trouble) -> str:
        """The command that mends a kind of failure."""
        command = f"egretta retry {self.spec.path} --class {trouble.failure_class}"
        if trouble.state in (UnitState.PENDING, UnitState.RUNNING):
            return f"egretta run {self.spec.path}"
        if trouble.what == "event":
            return ""
        if trouble.what == "file":
            return f"egretta retry {self.spec.path} --skipped-files"
        if trouble.failure_class == FailureClass.RESOURCE:
            return f"{command} --memory-mb {2 * self.spec.backend.memory_mb}"
        return command


def require_started(campaign: Campaign) -> None:
    """Raise UsageError before a campaign's first run."""
    if not campaign.started:
        raise UsageError(
            f"the campaign {campaign.spec.campaign.name} has not been started",
            hint=f"egretta run {campaign.spec.path}",
        )


def _bad_files_message(bad_files: Sequence[BadFile]) -> str:
    lines = [f"    {bad.failure_class}: {bad.message}" for bad in bad_files]
    count = "1 input file" if len(bad_files) == 1 else f"{len(bad_files)} input files"
    return "\n".join([f"{count} cannot be used:", *lines])


def _bad_files_hint(bad_files: Sequence[BadFile]) -> str:
    hints = list(dict.fromkeys(bad.hint for bad in bad_files if bad.hint))[:3]
    return "; ".join([*hints, "or leave them out: egretta run --skip-bad-files"])
