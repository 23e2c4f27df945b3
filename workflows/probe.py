"""A short job that measures how fast a pipeline is on this machine."""

from __future__ import annotations

import tempfile
from pathlib import Path

from egretta.jobs.manifest import Manifest
from egretta.jobs.unit import Unit
from egretta.kernels.errors import CodeError
from egretta.workflows.backends.base import Job
from egretta.workflows.backends.local import LocalBackend
from egretta.workflows.dataset import InputFile
from egretta.workflows.intake import judge
from egretta.workflows.spec import CampaignSpec


def measure(spec: CampaignSpec, file: InputFile, events: int) -> float:
    """Events per second of one worker over the first ``events`` of a file, the job's start left out."""
    with tempfile.TemporaryDirectory(prefix="egretta-measure-") as directory:
        # The first fills the cache of compiled kernels.
        _run(_unit(spec, file, 1, 0, directory), spec)
        manifest = _run(_unit(spec, file, events, 1, directory), spec)
    seconds = sum(time_s for stage, time_s in manifest.stage_seconds.items() if stage != "start")
    return events / max(seconds, 1e-9)


def _unit(spec: CampaignSpec, file: InputFile, events: int, attempt: int, directory: str) -> Unit:
    return Unit(
        unit_id="measure",
        attempt=attempt,
        campaign=spec.campaign.name,
        config_hash=spec.config_hash,
        pipeline=spec.campaign.pipeline,
        file=file.path,
        file_uuid=file.uuid,
        start=0,
        stop=events,
        output_directory=directory,
        tree=file.tree,
        batch_events=spec.backend.batch_events,
        threads=spec.backend.threads,
        memory_mb=spec.backend.memory_mb,
        pipeline_options=spec.pipeline_options,
    )


def _run(unit: Unit, spec: CampaignSpec) -> Manifest:
    path = Path(unit.output_directory) / f"{unit.stem}.unit.json"
    log_path = path.with_name(f"{unit.stem}.log")
    unit.write(path)
    backend = LocalBackend(1)
    timeout_s, memory_mb = spec.backend.unit_timeout_s, spec.backend.memory_mb
    try:
        backend.submit([Job((0, unit.attempt), path, log_path, timeout_s, memory_mb)])
        ends = backend.poll(timeout_s + 10.0)
    finally:
        backend.cancel()
    outcome = judge(unit, ends[0], memory_mb, log_path)
    if isinstance(outcome, Manifest):
        return outcome
    raise CodeError(
        f"the job that was to measure failed ({outcome.failure.failure_class}): {outcome.failure.message}",
        hint=outcome.failure.hint,
    )
