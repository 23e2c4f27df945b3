"""Training events out of ROOT files with truth, into the one ``.npz`` that ``truth`` reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egretta.engines.training.truth import truth_of
from egretta.kernels.errors import CorruptInputError, MissingInputError, SiteError, UsageError

TREE = "Velo"
_HITS = ("hit_x", "hit_y", "hit_z", "hit_module")
_TRUTH = ("mc_nhits", "mchit_index")


def samples_of(words: list[str]) -> dict[str, Path]:
    """Files by sample from words ``NAME=FILE`` or ``FILE``, whose stem is then the name."""
    samples: dict[str, Path] = {}
    for word in words:
        name, equals, file = word.partition("=")
        path = Path(file if equals else word)
        name = name if equals else path.stem
        if not name or "/" in name or name in samples:
            raise UsageError(
                f"cannot call a sample {name!r} (given as {word!r}): it must be unique and without /",
                hint="name it yourself: NAME=FILE",
            )
        samples[name] = path
    return samples


def prepare(samples: Mapping[str, Path], output: Path) -> dict[str, tuple[int, int]]:
    """Write all samples into ``output`` and return the events and hits of each; the file appears whole or not
    at all.

    Raises MissingInputError or CorruptInputError for a file that cannot be used, SiteError where ``output``
    cannot be written.
    """
    arrays: dict[str, NDArray[Any]] = {}
    sizes = {}
    for name, path in samples.items():
        sample = read_sample(path)
        truth_of(sample, str(path))
        arrays |= {f"{name}/{key}": value for key, value in sample.items()}
        sizes[name] = (len(sample["hoff"]) - 1, len(sample["x"]))
    part = output.with_name(output.name + ".part")
    try:
        with part.open("wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        part.replace(output)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise SiteError(
            f"cannot write the training events to {output}: {error.strerror or error}",
            hint="give a file in a folder that exists, can be written and has room",
        ) from error
    return sizes


def read_sample(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of one sample, as ``truth.SAMPLE_ARRAYS`` describes them, from the tree ``Velo``."""
    import awkward as ak

    columns = _columns(path)
    n_hits, n_particles = (ak.to_numpy(ak.num(columns[name])) for name in ("hit_module", "mc_nhits"))

    def flat(name: str, dtype: Any) -> NDArray[Any]:
        return ak.to_numpy(ak.flatten(columns[name])).astype(dtype)  # type: ignore[no-any-return]

    module = flat("hit_module", np.int32)
    return {
        "hoff": np.concatenate([[0], np.cumsum(n_hits)]).astype(np.int64),
        **{axis: flat(f"hit_{axis}", np.float32) for axis in "xyz"},
        # out of range stays out of range
        "module": np.clip(module, -1, 127).astype(np.int8),
        "poff": np.concatenate([[0], np.cumsum(n_particles)]).astype(np.int64),
        "nhits": flat("mc_nhits", np.int32),
        "mchit": flat("mchit_index", np.int32),
    }


def _columns(path: Path) -> dict[str, Any]:
    import uproot

    if not path.is_file():
        raise MissingInputError(
            f"there is no file {path}", hint="check the path; a sample is NAME=FILE or FILE"
        )
    try:
        with uproot.open(path) as file:
            if TREE not in file.keys(cycle=False):
                raise MissingInputError(
                    f"{path} holds no tree {TREE!r}, but {', '.join(file.keys(cycle=False)) or 'nothing'}",
                    hint="training needs hits with truth, such as egretta simulate velo makes",
                )
            tree = file[TREE]
            held = set(tree.keys())
            missing = [name for name in (*_HITS, *_TRUTH) if name not in held]
            if missing:
                raise MissingInputError(
                    f"the tree {TREE!r} of {path} has no {', '.join(missing)}",
                    hint="training needs hits with truth, such as egretta simulate velo makes",
                )
            arrays = tree.arrays([*_HITS, *_TRUTH])
            return {name: arrays[name] for name in (*_HITS, *_TRUTH)}
    except (MissingInputError, MemoryError):
        raise
    except Exception as error:
        # what a damaged file raises out of uproot shares no base class
        raise CorruptInputError(
            f"cannot read {path}: {type(error).__name__}: {str(error).strip().splitlines()[0]}",
            hint="check the file; leave it out or fetch it again",
        ) from error
