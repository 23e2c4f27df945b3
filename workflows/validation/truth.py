"""Truth of simulated events, read in batches from the TTree ``Velo`` of hits files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from egretta.kernels.batches import Int64
from egretta.kernels.errors import CorruptInputError, MissingInputError
from egretta.workflows.validation.matching import Truth

TREE = "Velo"
BRANCHES = (
    "event",
    "nhit",
    "mc_pid",
    "mc_p",
    "mc_pt",
    "mc_eta",
    "mc_flags",
    "mc_nhits",
    "mchit_index",
)


def _offsets(counts: Any) -> Int64:
    offsets = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def _flat(array: Any, dtype: Any) -> Any:
    import awkward as ak

    return np.ascontiguousarray(ak.to_numpy(ak.flatten(array)), dtype=dtype)


def _to_truth(path: str | Path, arrays: Any, start: int) -> tuple[Truth, Int64]:
    import awkward as ak

    event = ak.to_numpy(arrays["event"]).astype(np.int64)
    n_hits = ak.to_numpy(arrays["nhit"]).astype(np.int64)
    offsets = _offsets(ak.to_numpy(ak.num(arrays["mc_pid"])))
    hits_per_particle = _flat(arrays["mc_nhits"], np.int64)
    hit_offsets = _offsets(hits_per_particle)
    # mc_nhits and mchit_index must agree event by event, not only in their sums
    listed = ak.to_numpy(ak.num(arrays["mchit_index"]))
    bad = np.diff(hit_offsets[offsets]) != listed
    if bad.any():
        entry = int(np.argmax(bad))
        raise CorruptInputError(
            f"reading truth from {path}: entry {start + entry} (event {event[entry]}) lists "
            f"{listed[entry]} particle hits, but mc_nhits adds up to another number",
            hint="write the file again: mchit_index must hold mc_nhits indices a particle",
        )
    truth = Truth(
        entry=np.arange(start, start + len(event), dtype=np.int64),
        event=event,
        offsets=offsets,
        pid=_flat(arrays["mc_pid"], np.int32),
        p=_flat(arrays["mc_p"], np.float32),
        pt=_flat(arrays["mc_pt"], np.float32),
        eta=_flat(arrays["mc_eta"], np.float32),
        flags=_flat(arrays["mc_flags"], np.int32),
        hit_offsets=hit_offsets,
        hit_index=_flat(arrays["mchit_index"], np.int32),
    )
    return truth, _offsets(n_hits)


def read_truth(
    path: str | Path, *, batch_events: int = 500, start: int = 0, stop: int | None = None
) -> Iterator[tuple[Truth, Int64]]:
    """Yield the truth of a file's entries ``[start, stop)`` in batches, each with its ``hits_offsets``.

    ``hits_offsets`` (int64, events + 1) cuts the hits of the batch into events. Memory does not grow
    with the file. Raises MissingInputError if the file, the tree or a truth branch is not there, and
    CorruptInputError if it cannot be read.
    """
    import uproot

    hint = "give a ROOT file with a TTree `Velo` that holds the truth (mc_* branches)"
    try:
        file = uproot.open(path)
    except FileNotFoundError as error:
        raise MissingInputError(f"reading truth: there is no file {path}", hint=hint) from error
    except (OSError, ValueError) as error:
        raise CorruptInputError(
            f"reading truth: {path} cannot be opened as a ROOT file ({error})", hint=hint
        ) from error
    with file:
        if TREE not in file:
            held = ", ".join(sorted({key.split(";")[0] for key in file})) or "nothing"
            raise MissingInputError(f"reading truth: {path} has no tree {TREE}; it holds {held}", hint=hint)
        tree = file[TREE]
        missing = [branch for branch in BRANCHES if branch not in tree]
        if missing:
            raise MissingInputError(
                f"reading truth: {path}:{TREE} lacks the branches {', '.join(missing)}", hint=hint
            )
        stop = tree.num_entries if stop is None else min(stop, tree.num_entries)
        at = start
        while at < stop:
            end = min(at + batch_events, stop)
            arrays = tree.arrays(list(BRANCHES), entry_start=at, entry_stop=end)
            yield _to_truth(path, arrays, at)
            at = end
