"""One unit, from its file to its output and manifest.

``run_unit`` does the work and raises; ``attempt`` wraps it as a process must be wrapped: signals, the memory
limit, the manifest of a failure, the exit code. Neither knows of campaigns.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

from egretta.jobs.account import Account
from egretta.jobs.failures import classify, exit_code
from egretta.jobs.limits import MemoryWatch
from egretta.jobs.manifest import Manifest, Quarantined
from egretta.jobs.unit import Unit
from egretta.kernels.errors import (
    CodeError,
    CorruptInputError,
    DataError,
    EgrettaError,
    ResourceError,
    TransientError,
)

if TYPE_CHECKING:
    from egretta.jobs.histograms import Histograms
    from egretta.jobs.pipelines.base import BatchResult, Pipeline
    from egretta.jobs.readers.base import Source
    from egretta.jobs.writers import TrackWriter
    from egretta.kernels.batches import BankBatch, HitBatch

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stopped(BaseException):
    """The job is to stop now. A BaseException, so that no library takes it for an error of its own."""

    def __init__(self, error: EgrettaError) -> None:
        super().__init__(str(error))
        self.error = error


def attempt(unit: Unit, account: Account | None = None) -> int:
    """Run the unit in this process, write its manifest whatever happens, and return the exit code.

    Takes over SIGTERM and SIGINT: both end the attempt in order as a transient failure.
    """
    account = account or Account(unit)
    with _stoppable(account) as watch:

        def hold() -> None:
            _hold_signals()
            watch.release()

        try:
            with watch:
                run_unit(unit, account, before_commit=hold)
            return 0
        except Stopped as stopped:
            error = stopped.error
            _remove_temporaries(unit)
        except Exception as raised:
            error = classify(raised)
            if error is not raised and isinstance(error, CodeError):
                _say(traceback.format_exc())
        _hold_signals()
        _say(f"egretta.jobs: unit {unit.unit_id}, attempt {unit.attempt}: {error}")
        _write_failure(account, error)
        return exit_code(error)


def run_unit(
    unit: Unit, account: Account | None = None, *, before_commit: Callable[[], None] = lambda: None
) -> Manifest:
    """Process the unit; its output, then its manifest, are in place when this returns.

    ``before_commit`` is called once all is processed: from there on, the attempt must not be interrupted.

    Raises DataError for a file that is not what was planned, SiteError and ResourceError for an output that
    cannot be written, CodeError for a pipeline that loses events, and whatever the pipeline raises.
    """
    from egretta.jobs.histograms import Histograms
    from egretta.jobs.pipelines import make_pipeline
    from egretta.jobs.readers import open_source
    from egretta.jobs.writers import TrackWriter

    account = account or Account(unit)
    histograms = Histograms()
    with open_source(unit.file, unit.tree) as source, _bytes_counted(source, account):
        _check_source(unit, source)
        with (
            TrackWriter(unit.output_path, parquet=unit.parquet) as writer,
            closing(make_pipeline(unit.pipeline, unit.pipeline_options)) as pipeline,
        ):
            account.add_seconds({"start": time.perf_counter() - account.began})
            _process(unit, source, pipeline, writer, account, histograms)
            _check_complete(unit, account)
            began = time.perf_counter()
            before_commit()
            output = writer.commit()
            account.add_seconds({"write": time.perf_counter() - began})
    manifest = account.success(output, histograms)
    manifest.write(unit.manifest_path)
    return manifest


def _process(
    unit: Unit,
    source: Source,
    pipeline: Pipeline,
    writer: TrackWriter,
    account: Account,
    histograms: Histograms,
) -> None:
    expected = unit.start
    batches = source.batches(unit.start, unit.stop, unit.batch_events)
    while True:
        began = time.perf_counter()
        batch = next(batches, None)
        read_at = time.perf_counter()
        if batch is None:
            account.add_seconds({"read": read_at - began})
            return
        _check_entries(unit, batch, expected)
        expected += batch.n_events
        result = pipeline.process(batch)
        processed_at = time.perf_counter()
        _check_result(unit, batch, result)
        processed = _append(batch, result, writer, account, histograms)
        stages = {"read": read_at - began, **result.stage_seconds}
        # what the pipeline did not put to a stage of its own is shown, so that the stages add up
        rest = processed_at - read_at - sum(result.stage_seconds.values())
        stages["other"] = stages.get("other", 0.0) + max(rest, 0.0)
        stages["write"] = stages.get("write", 0.0) + time.perf_counter() - processed_at
        account.add_seconds(stages)
        account.add_counts(result.counts)
        _fill_times(histograms, stages, batch.n_events, processed)


def _append(
    batch: HitBatch | BankBatch,
    result: BatchResult,
    writer: TrackWriter,
    account: Account,
    histograms: Histograms,
) -> int:
    """Quarantine what was rejected, write the rest, and return how many events that is."""
    import numpy as np

    from egretta.jobs.histograms import HITS, TRACKS
    from egretta.jobs.tracks import without_events

    tracks = result.tracks
    rejected = np.zeros(batch.n_events, dtype=np.bool_)
    for event in result.rejected:
        rejected[event.index] = True
        account.quarantined.append(
            Quarantined(
                int(batch.entry[event.index]),
                int(batch.event[event.index]),
                event.failure_class,
                event.reason,
            )
        )
    if result.rejected:
        tracks = without_events(tracks, rejected)
    writer.append(tracks)
    account.events_processed += tracks.n_events
    histograms.fill(HITS, np.diff(result.hits.offsets)[~rejected])
    histograms.fill(TRACKS, np.diff(tracks.offsets))
    return tracks.n_events


def _fill_times(histograms: Histograms, stages: dict[str, float], events: int, processed: int) -> None:
    from egretta.jobs.histograms import TIME_PREFIX

    for stage, seconds in stages.items():
        histograms.fill(TIME_PREFIX + stage, [1e3 * seconds / events], weights=[float(processed)])


def _check_source(unit: Unit, source: Source) -> None:
    if unit.file_uuid and source.uuid != unit.file_uuid:
        raise DataError(
            f"{unit.file} has changed since it was planned: its UUID is {source.uuid}, the unit's is "
            f"{unit.file_uuid}",
            hint="put the planned file back, or start a new campaign on the new one",
        )
    if unit.stop > source.n_entries:
        raise CorruptInputError(
            f"{unit.file} has {source.n_entries} entries, the unit asks for [{unit.start}, {unit.stop})",
            hint="the file is truncated or was written anew: fetch it again, or start a new campaign",
        )


def _check_entries(unit: Unit, batch: HitBatch | BankBatch, expected: int) -> None:
    """The batches must go through the range once, in order: this is half of "exactly once"."""
    import numpy as np

    if batch.n_events == 0 or not np.array_equal(
        batch.entry, np.arange(expected, expected + batch.n_events, dtype=np.int64)
    ):
        raise CodeError(
            f"the reader of {unit.file} gave {batch.n_events} events that do not go on at entry {expected}",
            hint="this is a bug in the reader: report it with the unit file",
        )


def _check_result(unit: Unit, batch: HitBatch | BankBatch, result: BatchResult) -> None:
    import numpy as np

    indices = [event.index for event in result.rejected]
    if not np.array_equal(result.tracks.entry, batch.entry) or len(result.hits.offsets) != batch.n_events + 1:
        fault = f"it answered {batch.n_events} events with {result.tracks.n_events}, or with others"
    elif len(set(indices)) != len(indices) or any(not 0 <= index < batch.n_events for index in indices):
        fault = "it rejected an event twice, or one that is not in the batch"
    else:
        return
    raise CodeError(
        f"the pipeline {unit.pipeline!r} lost count of the events of {unit.file} from entry "
        f"{int(batch.entry[0])}: {fault}",
        hint="a pipeline's tracks hold every event of its batch, in order, the rejected ones with no tracks",
    )


def _check_complete(unit: Unit, account: Account) -> None:
    accounted = account.events_processed + len(account.quarantined)
    if accounted != unit.stop - unit.start:
        raise CorruptInputError(
            f"{unit.file} gave {accounted} events for the entries [{unit.start}, {unit.stop}): "
            "it is truncated",
            hint="fetch the file again; its other units are not affected",
        )


@contextmanager
def _bytes_counted(source: Source, account: Account) -> Iterator[None]:
    """Whatever happens, the manifest tells how much was read: a failed attempt took bandwidth too."""
    try:
        yield
    finally:
        account.bytes_read = source.bytes_read


def _write_failure(account: Account, error: EgrettaError) -> None:
    try:
        account.failed(error).write(account.unit.manifest_path)
    except EgrettaError as second:
        _say(f"egretta.jobs: and {second}")


def _say(text: str) -> None:
    # where the disk is full, the log is full too: the exit code must still tell why
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def _hold_signals() -> None:
    """Ignore further requests to stop: what is left to do takes milliseconds and must not be cut."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _remove_temporaries(unit: Unit) -> None:
    # a stop may come in the middle of the very code that removes them
    with suppress(OSError):
        for path in unit.output_path.parent.glob(f".{unit.stem}.*.tmp"):
            path.unlink()


@contextmanager
def _stoppable(account: Account) -> Iterator[MemoryWatch]:
    unit = account.unit
    pending: list[EgrettaError] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        _hold_signals()
        name = signal.Signals(number).name
        error = TransientError(f"stopped by {name}", hint="nothing: `egretta run` runs the unit again")
        raise Stopped(pending[0] if pending else error)

    def too_large(used_mb: float) -> EgrettaError:
        return ResourceError(
            f"the job holds {used_mb:.0f} MB of memory, its limit (memory_mb) is {unit.memory_mb} MB",
            hint="raise memory_mb, or lower batch_events",
        )

    def stop(used_mb: float) -> None:
        pending.append(too_large(used_mb))
        os.kill(os.getpid(), signal.SIGTERM)

    def end(used_mb: float) -> None:
        error = too_large(used_mb)
        _say(f"egretta.jobs: unit {unit.unit_id}, attempt {unit.attempt}: {error}")
        _remove_temporaries(unit)
        _write_failure(account, error)
        os._exit(exit_code(error))

    before: dict[int, Any] = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield MemoryWatch(unit.memory_mb, stop, end)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
