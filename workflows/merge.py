"""One file of tracks from the outputs of all units, in unit order, streamed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from egretta.jobs.manifest import Manifest
from egretta.jobs.plain import write_text
from egretta.jobs.writers import TrackWriter, read_tracks
from egretta.kernels.batches import TrackBatch
from egretta.kernels.errors import CodeError, CorruptInputError, UsageError
from egretta.kernels.version import __version__
from egretta.workflows.intake import check_output
from egretta.workflows.layout import Layout, unit_number
from egretta.workflows.ledger import Ledger
from egretta.workflows.summary import totals

# Some MB of tracks at a time, whatever the size of a unit.
_STEP_EVENTS = 500


@dataclass(frozen=True, slots=True)
class MergeResult:
    """What was merged. ``missing`` counts expected events that are neither in the file nor quarantined one

    by one; it is 0 unless the operator allowed otherwise.
    """

    path: str
    events: int
    expected: int
    quarantined: int
    missing: int
    units: int
    bytes: int
    checksum: str
    config_hash: str


def merge(
    ledger: Ledger, layout: Layout, *, allow_missing: bool = False, parquet: bool = False
) -> MergeResult:
    """Write ``tracks.root`` (and ``tracks.parquet``) whole or not at all, and ``tracks.json`` beside it.

    Every part is checked against its manifest before it is read: size, checksum, number and range of
    entries. Raises UsageError while events are missing, CorruptInputError for a part that is damaged.
    """
    sums = totals(ledger)
    quarantined_alone, units = ledger.connection.execute(
        "SELECT coalesce(sum(quarantined), 0), count(*) FROM units WHERE state = 'done'"
    ).fetchone()
    missing = sums.expected - sums.processed - quarantined_alone
    if missing and not allow_missing:
        waiting = ", ".join(f"{count} {state}" for state, count in sums.units.items() if count)
        raise UsageError(
            f"{missing} of {sums.expected} events are missing; units: {waiting}",
            hint="egretta status says why and what mends it; --allow-missing merges what there is",
        )
    for stray in layout.directory.glob(f".{layout.tracks.stem}.*.tmp"):
        stray.unlink(missing_ok=True)
    with TrackWriter(layout.tracks, parquet=parquet) as writer:
        for manifest in ledger.manifests():
            path = layout.attempt_path(unit_number(manifest.unit_id), manifest.attempt, ".root")
            for tracks in _part(path, manifest):
                writer.append(tracks)
        if writer.events != sums.processed:
            raise CodeError(
                f"merged {writer.events} events, the ledger says that {sums.processed} were processed",
                hint="nothing was written; report this with the ledger",
            )
        output = writer.commit()
    result = MergeResult(
        path=str(output.path),
        events=writer.events,
        expected=sums.expected,
        quarantined=quarantined_alone,
        missing=missing,
        units=units,
        bytes=output.bytes,
        checksum=output.checksum,
        config_hash=str(ledger.meta("config_hash")),
    )
    about = {**asdict(result), "version": __version__, "merged_at": time.time()}
    write_text(layout.tracks.with_suffix(".json"), json.dumps(about, indent=1), what="the merge's account")
    return result


def damaged_units(ledger: Ledger, layout: Layout) -> list[int]:
    """The done units whose output is not there any more as it was written."""
    damaged = []
    for manifest in ledger.manifests():
        number = unit_number(manifest.unit_id)
        try:
            check_output(layout.attempt_path(number, manifest.attempt, ".root"), manifest)
        except CorruptInputError:
            damaged.append(number)
    return damaged


def _part(path: Path, manifest: Manifest) -> Iterator[TrackBatch]:
    try:
        check_output(path, manifest)
    except CorruptInputError as error:
        raise CorruptInputError(
            f"cannot merge {manifest.unit_id}: {error.message}",
            hint="egretta retry --damaged, then egretta run, makes it again",
        ) from None
    excluded = np.array([event.entry for event in manifest.quarantined], dtype=np.int64)
    wanted = np.setdiff1d(np.arange(manifest.start, manifest.stop, dtype=np.int64), excluded)
    for first in range(0, len(wanted), _STEP_EVENTS):
        last = min(first + _STEP_EVENTS, len(wanted))
        tracks = read_tracks(path, first, last)
        if not np.array_equal(tracks.entry, wanted[first:last]):
            raise CodeError(
                f"cannot merge {manifest.unit_id}: {path} does not hold the entries that its manifest names",
                hint="nothing was written; report this with the unit's manifest",
            )
        yield tracks
