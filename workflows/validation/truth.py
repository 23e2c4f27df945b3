"""Truth of simulated events, read in batches from the TTree ``Velo`` of hits files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

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


class TruthFile:
    """A hits file with truth, open for reading. ``event_numbers`` is int64, one an entry.

    Raises MissingInputError if the file, the tree or a truth branch is not there, and CorruptInputError
    if it cannot be read.
    """

    def __init__(self, path: str | Path) -> None:
        import uproot

        hint = "give a ROOT file with a TTree `Velo` that holds the truth (mc_* branches)"
        self.path = path
        try:
            self._file = uproot.open(path)
        except FileNotFoundError as error:
            raise MissingInputError(f"reading truth: there is no file {path}", hint=hint) from error
        except (OSError, ValueError) as error:
            raise CorruptInputError(
                f"reading truth: {path} cannot be opened as a ROOT file ({error})", hint=hint
            ) from error
        held = sorted({key.split(";")[0] for key in self._file})
        if TREE not in held:
            raise MissingInputError(
                f"reading truth: {path} has no tree {TREE}; it holds {', '.join(held) or 'nothing'}",
                hint=hint,
            )
        self._tree = self._file[TREE]
        missing = [branch for branch in BRANCHES if branch not in set(self._tree.keys())]
        if missing:
            raise MissingInputError(
                f"reading truth: {path}:{TREE} lacks the branches {', '.join(missing)}", hint=hint
            )
        self.event_numbers: Int64 = self._tree["event"].array(library="np").astype(np.int64)

    def read(self, start: int, stop: int) -> tuple[Truth, Int64]:
        """The truth of entries ``[start, stop)`` and its ``hits_offsets`` (int64, events + 1)."""
        arrays = self._tree.arrays(list(BRANCHES), entry_start=start, entry_stop=stop)
        return _to_truth(self.path, arrays, start)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_truth(
    path: str | Path, *, batch_events: int = 500, start: int = 0, stop: int | None = None
) -> Iterator[tuple[Truth, Int64]]:
    """Yield the truth of a file's entries ``[start, stop)`` in batches, each with its ``hits_offsets``.

    Memory does not grow with the file. Errors as :class:`TruthFile`.
    """
    with TruthFile(path) as file:
        n_entries = len(file.event_numbers)
        stop = n_entries if stop is None else min(stop, n_entries)
        for at in range(start, stop, batch_events):
            yield file.read(at, min(at + batch_events, stop))
