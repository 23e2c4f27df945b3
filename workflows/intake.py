"""What an attempt left behind, judged: a whole output with its manifest, or the reason why not.

Nothing is taken on the word of an exit code: a manifest counts if it is that very attempt's, accounts for
every event of its range, and its output is there with the size and the checksum that it names.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

from egretta.jobs.failures import EXIT_CODES, EXIT_USAGE
from egretta.jobs.manifest import Failure, Manifest
from egretta.jobs.unit import Unit
from egretta.jobs.writers import file_checksum
from egretta.kernels.errors import CorruptInputError, EgrettaError, FailureClass, UsageError
from egretta.workflows.backends.base import EndKind, JobEnd
from egretta.workflows.retry import OUT_OF_MEMORY, OUT_OF_TIME

_CLASS_OF_EXIT = {code: kind for kind, code in EXIT_CODES.items()}
_CLASS_OF_SIGNAL = {
    signal.SIGSEGV: FailureClass.CODE,
    signal.SIGABRT: FailureClass.CODE,
    signal.SIGFPE: FailureClass.CODE,
    signal.SIGILL: FailureClass.SITE,
    signal.SIGBUS: FailureClass.SITE,
    signal.SIGXCPU: FailureClass.RESOURCE,
    signal.SIGXFSZ: FailureClass.RESOURCE,
}
# Killed by SIGKILL this near its limit, a job was most likely the kernel's choice when memory ran out.
_NEAR_LIMIT = 0.9
_TAIL_BYTES = 2000


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """Why an attempt does not count; ``manifest`` is its own account, where it could write one."""

    failure: Failure
    manifest: Manifest | None = None


def left_behind(unit: Unit) -> Manifest | FailedAttempt | None:
    """The manifest of an attempt that succeeded, the failure that it reported, or None if it left neither.

    Raises CorruptInputError for a manifest or an output that is there but not what it should be.
    """
    if not unit.manifest_path.exists():
        return None
    try:
        manifest = Manifest.load(unit.manifest_path)
    except UsageError as error:
        raise CorruptInputError(error.message) from error
    ours = (unit.unit_id, unit.attempt, unit.config_hash, unit.start, unit.stop)
    theirs = (
        manifest.unit_id,
        manifest.attempt,
        manifest.config_hash,
        manifest.start,
        manifest.stop,
    )
    if ours != theirs:
        raise CorruptInputError(f"manifest {unit.manifest_path} is another attempt's: {theirs}, not {ours}")
    if manifest.failure is not None:
        return FailedAttempt(manifest.failure, manifest)
    check_output(unit.output_path, manifest)
    return manifest


def check_output(path: Path, manifest: Manifest) -> None:
    """Raise CorruptInputError unless the output is there, whole, as its manifest describes it."""
    if not path.exists():
        raise CorruptInputError(f"the output {path} is not there")
    size = path.stat().st_size
    if size != manifest.output_bytes:
        raise CorruptInputError(
            f"the output {path} has {size} bytes, its manifest says {manifest.output_bytes}"
        )
    if file_checksum(path) != manifest.checksum:
        raise CorruptInputError(f"the output {path} does not have the checksum of its manifest")


def judge(unit: Unit, end: JobEnd, memory_mb: int, log_path: Path) -> Manifest | FailedAttempt:
    """The outcome of an attempt that has ended.

    A whole output counts however the process ended: killed a moment after its last rename, it was done.
    """
    try:
        left = left_behind(unit)
    except EgrettaError as error:
        damaged = Failure(
            FailureClass.TRANSIENT, "DamagedOutput", error.message, "nothing: it is tried again"
        )
        return FailedAttempt(damaged)
    if left is not None:
        return left
    kind, name, why = _without_manifest(end, memory_mb)
    tail = log_tail(log_path)
    told = f"\n{tail}" if tail else ""
    return FailedAttempt(
        Failure(kind, name, f"{unit.unit_id} of {unit.file}: {why}{told}", f"see {log_path}")
    )


def log_tail(path: Path, size: int = _TAIL_BYTES) -> str:
    """The end of a job's log, from the start of a line where there is one; empty without a log."""
    try:
        with path.open("rb") as stream:
            length = stream.seek(0, 2)
            stream.seek(max(0, length - size))
            text = stream.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
    if length > size:
        text = text.partition("\n")[2] or text
    return text.strip()


def _without_manifest(end: JobEnd, memory_mb: int) -> tuple[FailureClass, str, str]:
    if end.kind is EndKind.OUT_OF_TIME:
        return FailureClass.RESOURCE, OUT_OF_TIME, f"stopped after {end.wall_s:.0f} s, its time limit"
    if end.kind is EndKind.OUT_OF_MEMORY:
        used = f"it held {end.peak_memory_mb:.0f} MB, its limit is {memory_mb} MB"
        return FailureClass.RESOURCE, OUT_OF_MEMORY, f"stopped: {used}"
    if end.kind is EndKind.NOT_STARTED:
        return FailureClass.SITE, "NotStarted", f"the job could not be started: {end.detail}"
    if end.kind is EndKind.SIGNAL:
        name = signal.Signals(end.code).name if end.code in set(signal.Signals) else f"signal {end.code}"
        if end.code == signal.SIGKILL and end.peak_memory_mb > _NEAR_LIMIT * memory_mb:
            return FailureClass.RESOURCE, OUT_OF_MEMORY, f"killed ({name}) near its limit of {memory_mb} MB"
        kind = _CLASS_OF_SIGNAL.get(signal.Signals(end.code), FailureClass.TRANSIENT)
        return kind, name, f"killed by {name}"
    if end.code == 0:
        return FailureClass.TRANSIENT, "NoManifest", "the job ended well but left no manifest"
    if end.code == EXIT_USAGE:
        return FailureClass.CODE, "UnitRefused", "the job did not accept its unit file"
    kind = _CLASS_OF_EXIT.get(end.code, FailureClass.CODE)
    return kind, f"Exit{end.code}", f"the job ended with exit code {end.code} and left no manifest"
