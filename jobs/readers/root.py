"""Opening a ROOT file: which tree, which of its branches, which reader."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from egretta.jobs.readers import banks, hits
from egretta.jobs.readers.base import Source
from egretta.jobs.readers.columns import Columns, RNTupleColumns, TTreeColumns
from egretta.jobs.readers.transport import reading, retried
from egretta.kernels.errors import CorruptInputError, MissingInputError

# Where a file holds both, the raw banks are the data and the hits their truth.
KNOWN_TREES = ("RawEvent", "Velo")


def open_root(path: str, tree: str | None) -> Source:
    """Open a ROOT file; ``tree`` None takes ``RawEvent`` if there is one, else ``Velo``.

    Raises MissingInputError for a tree or branch that is not there (with near misses), CorruptInputError
    for a file that is truncated or not ROOT.
    """
    import uproot

    def open_file() -> Any:
        with reading(path, "open"):
            # a mapping, because uproot would split a plain path at its last colon
            return uproot.open({path: None}, array_cache=None, object_cache=None)

    file = retried(open_file)
    try:
        return _choose_source(path, file, tree)
    except BaseException:
        file.close()
        raise


def _choose_source(path: str, file: Any, wanted: str | None) -> Source:
    with reading(path, "read the size of"):
        size, end = file.file.source.num_bytes, int(file.file.fEND)
        classes: dict[str, str] = file.classnames(cycle=False)
    if size is not None and size < end:
        raise CorruptInputError(
            f"{path} is truncated: {size} bytes of {end}",
            hint="copy the file again; its writer may not have closed it",
        )
    trees = [name for name, kind in classes.items() if kind == "TTree" or kind.endswith("RNTuple")]
    name = wanted or next((known for known in KNOWN_TREES if known in trees), None)
    if name is None or name not in trees:
        raise MissingInputError(
            f"no tree {wanted or ' or '.join(KNOWN_TREES)} in {path}: it holds {_listed(trees)}",
            hint=_near(name or KNOWN_TREES[-1], trees) or "name the tree to read in the campaign's [input]",
        )
    columns = _columns(path, file, name, classes[name])
    if columns.names.issuperset(banks.REQUIRED):
        return banks.BankSource(columns, file)
    by_key = hits.hit_columns(columns.names)
    if by_key.keys() >= set(hits.REQUIRED):
        return hits.HitSource(columns, file, by_key)
    raise _missing_branches(path, name, columns, by_key.keys())


def _columns(path: str, file: Any, name: str, class_name: str) -> Columns:
    def read() -> Columns:
        with reading(path, f"read the tree {name} of"):
            handle = file[name]
            names, entries = frozenset(handle.keys()), int(handle.num_entries)
        if class_name == "TTree":
            return TTreeColumns(path, name, entries, names, handle)
        return RNTupleColumns(path, name, entries, names, handle)

    return retried(read)


def _missing_branches(path: str, tree: str, columns: Columns, found: Iterable[str]) -> MissingInputError:
    as_banks = [name for name in banks.REQUIRED if name not in columns.names]
    as_hits = [f"hit_{key}" for key in hits.REQUIRED if key not in found]
    missing = as_banks if len(as_banks) < len(banks.REQUIRED) and as_hits else as_hits
    near = [line for name in missing if (line := _near(name, sorted(columns.names)))]
    held = _listed(sorted(columns.names))
    return MissingInputError(
        f"no branch {', '.join(missing)} in the tree {tree} of {path}: it holds {held}",
        hint="; ".join(near) or "hits need hit_x, hit_y, hit_z and hit_module; raw banks bank_type and so on",
    )


def _near(name: str, names: Iterable[str]) -> str:
    matches = difflib.get_close_matches(name, list(names), n=3, cutoff=0.5)
    return f"did you mean {' or '.join(matches)} (for {name})?" if matches else ""


def _listed(names: list[str]) -> str:
    if not names:
        return "none"
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
