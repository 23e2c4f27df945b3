"""Dataset discovery: which files a campaign reads, what each holds, and which cannot be used.

Every bad file is found and named before anything runs; none is skipped unless the operator says so.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from egretta.kernels.errors import EgrettaError, FailureClass, SpecError
from egretta.workflows.sources import nearest
from egretta.workflows.spec import CampaignSpec

_GLOB_CHARACTERS = frozenset("*?[")
_OPEN_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file that can be read. ``path`` is absolute or a URL; ``kind`` is hits or banks."""

    path: str
    uuid: str
    tree: str | None
    kind: str
    entries: int


@dataclass(frozen=True, slots=True)
class BadFile:
    """A file that cannot be used, with the class of its failure and what to do."""

    path: str
    failure_class: FailureClass
    error: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Dataset:
    """All files of a campaign in the order of the campaign file."""

    files: tuple[InputFile, ...]
    bad_files: tuple[BadFile, ...] = ()

    @property
    def entries(self) -> int:
        """Entries of all readable files."""
        return sum(file.entries for file in self.files)


Inspector = Callable[[str, str | None], InputFile]


def inspect_file(path: str, tree: str | None) -> InputFile:
    """Open a file and read what it holds. Raises an EgrettaError of the data, transient or site class."""
    from egretta.jobs.readers import open_source

    with open_source(path, tree) as source:
        return InputFile(path, source.uuid, source.tree, source.kind, source.n_entries)


def discover(spec: CampaignSpec, inspect: Inspector = inspect_file) -> Dataset:
    """Find and inspect every input file.

    Raises SpecError for a list file that cannot be read, an input without any file, and a file that is
    there twice (the same UUID), since its events would be counted twice.
    """
    return inspect_all(expand(spec), spec.input.tree, inspect)


def inspect_all(
    paths: Iterable[str | BadFile], tree: str | None, inspect: Inspector = inspect_file
) -> Dataset:
    """Inspect files side by side, keeping their order and those known to be bad beforehand."""

    def attempt(path: str | BadFile) -> InputFile | BadFile:
        if isinstance(path, BadFile):
            return path
        try:
            return inspect(path, tree)
        except EgrettaError as error:
            return _bad(path, error)
        except Exception as error:
            # A reader's bug must not hide the other bad files.
            hint = "report this with the file's name"
            return BadFile(path, FailureClass.CODE, type(error).__name__, f"{path}: {error}", hint)

    # Opening remote files is waiting; the order of the results is that of the paths.
    with ThreadPoolExecutor(_OPEN_AT_ONCE) as pool:
        found = list(pool.map(attempt, paths))
    dataset = Dataset(
        tuple(item for item in found if isinstance(item, InputFile)),
        tuple(item for item in found if isinstance(item, BadFile)),
    )
    refuse_duplicates(dataset.files)
    return dataset


def expand(spec: CampaignSpec) -> list[str | BadFile]:
    """The paths that the campaign names, globs expanded in sorted order; patterns without a match are bad."""
    paths: list[str | BadFile] = []
    for name in _names(spec):
        paths.extend(expand_path(name if "://" in name else str(spec.resolve(name))))
    return paths


def expand_path(absolute: str) -> list[str | BadFile]:
    """The files that an absolute path or pattern stands for, sorted; a pattern without a match is bad.

    A URL stands for itself.
    """
    if "://" in absolute or _GLOB_CHARACTERS.isdisjoint(absolute) or Path(absolute).exists():
        return [absolute]
    # Path.glob takes no absolute pattern.
    found = glob.glob(absolute, recursive=True)  # noqa: PTH207
    matches = sorted(path for path in found if Path(path).is_file())
    if matches:
        return [*matches]
    hint = _near_miss(Path(absolute)) or "correct the pattern, or bring the files there"
    return [BadFile(absolute, FailureClass.DATA, "MissingInputError", f"no file matches {absolute}", hint)]


def refuse_duplicates(files: Iterable[InputFile]) -> None:
    """Raise SpecError if two files have one UUID."""
    seen: dict[str, str] = {}
    for file in files:
        if file.uuid in seen:
            first = seen[file.uuid]
            twice = (
                f"{file.path} is named twice" if first == file.path else f"{first} and {file.path} are one"
            )
            raise SpecError(
                f"[input] files: {twice} (UUID {file.uuid}); its events would be counted twice",
                hint="name each file once; a copy or a link counts as the same file",
            )
        seen[file.uuid] = file.path


def _names(spec: CampaignSpec) -> list[str]:
    names = list(spec.input.files)
    if spec.input.list_file is not None:
        path = spec.resolve(spec.input.list_file)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise SpecError(
                f"{spec.path}: [input] list_file: {path} cannot be read: {why}",
                hint="write one path, pattern or URL a line",
            ) from None
        lines = (line.strip() for line in text.splitlines())
        names += [line for line in lines if line and not line.startswith("#")]
    if not names:
        raise SpecError(f"{spec.path}: [input] names no file", hint="write paths into files or the list file")
    return names


def _bad(path: str, error: EgrettaError) -> BadFile:
    kind = error.failure_class or FailureClass.DATA
    hint = error.hint
    if "://" not in path and not Path(path).exists():
        hint = _near_miss(Path(path)) or hint
    return BadFile(path, kind, type(error).__name__, error.message, hint)


def _near_miss(path: Path) -> str:
    """A hint naming the file that was probably meant."""
    if not path.parent.is_dir():
        return f"there is no directory {path.parent}"
    # Without their suffix, which all of them share and which would make any two look alike.
    stems = {other.stem: other for other in path.parent.iterdir() if other.is_file()}
    guess = nearest(path.stem, list(stems))
    return f"did you mean {stems[guess]}?" if guess else ""
