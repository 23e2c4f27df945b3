"""The campaign file: what is read, how it is split, through which pipeline, where to, and where it runs.

A value comes from the command line, else the file, else the environment (``EGRETTA_<SECTION>_<KEY>``),
else the default. Relative paths are relative to the campaign file. Unknown keys are refused.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from egretta.workflows.sources import describe_problems, read_layers

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]

# What the results depend on; all else may change while a campaign is under way.
_RESULT_SECTIONS = ("pipeline", "inference", "input", "splitting")


class Section(BaseModel):
    """A table of the campaign file: fixed keys, immutable once loaded."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class CampaignSection(Section):
    """``[campaign]``: what it is called and which pipeline it runs."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
    pipeline: Annotated[str, Field(min_length=1)]


class InputSection(Section):
    """``[input]``: paths, globs or URLs (``root://``, ``https://``), here or one a line in a list file."""

    files: tuple[str, ...] = ()
    list_file: str | None = None
    tree: str | None = None
    max_events: Count | None = None

    @model_validator(mode="after")
    def _some_input(self) -> InputSection:
        if not self.files and self.list_file is None:
            raise ValueError("no input: give files (paths, globs, URLs) or list_file")
        return self


class SplittingSection(Section):
    """``[splitting]``: how long a unit is, by entries, by files or by the wall time that it should take."""

    by: Literal["entries", "files", "time"] = "time"
    entries_per_unit: Count | None = None
    target_wall_s: Positive = 1800.0
    events_per_s: Positive = 100.0

    @model_validator(mode="after")
    def _complete(self) -> SplittingSection:
        if self.by == "entries" and self.entries_per_unit is None:
            raise ValueError('by = "entries" needs entries_per_unit')
        if self.by != "entries" and self.entries_per_unit is not None:
            raise ValueError(f'entries_per_unit has no effect with by = "{self.by}"; set by = "entries"')
        return self


class OutputSection(Section):
    """``[output]``: the campaign's directory (ledger, unit outputs, merged tracks) and its formats."""

    directory: Annotated[str, Field(min_length=1)] = "out"
    parquet: bool = False


class BackendSection(Section):
    """``[backend]``: where units run, how many at once, and what each may take."""

    name: Literal["local", "htcondor"] = "local"
    sites: str | None = None
    workers: Count | None = None
    unit_timeout_s: Positive = 7200.0
    memory_mb: Annotated[int, Field(ge=64)] = 2048
    threads: Count = 1
    batch_events: Count = 200


class BandwidthSection(Section):
    """``[bandwidth]``: what a job sends, and the site whose link it leaves through, if it is only one."""

    sent_mbit_per_event: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    event_time_s: Positive | None = None
    site: str | None = None

    @model_validator(mode="after")
    def _both(self) -> BandwidthSection:
        if (self.sent_mbit_per_event is None) != (self.event_time_s is None):
            raise ValueError("sent_mbit_per_event and event_time_s make a rate together: give both")
        return self


class RetrySection(Section):
    """``[retry]``: how often and how soon a failed unit is tried again, and when the campaign pauses."""

    max_attempts: Count = 5
    delay_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 2.0
    max_delay_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 300.0
    resource_factor: Annotated[float, Field(gt=1, le=10)] = 1.5
    pause_after_failures: Annotated[int, Field(ge=0)] = 10


class CampaignSpec(Section):
    """A whole campaign file. ``path`` is the file that it was read from."""

    campaign: CampaignSection
    input: InputSection
    splitting: SplittingSection = SplittingSection()
    output: OutputSection = OutputSection()
    backend: BackendSection = BackendSection()
    bandwidth: BandwidthSection = BandwidthSection()
    retry: RetrySection = RetrySection()
    pipeline: dict[str, Any] = Field(default_factory=dict)
    inference: dict[str, Any] = Field(default_factory=dict)
    path: Path = Field(exclude=True)

    @property
    def output_directory(self) -> Path:
        """The campaign's directory as an absolute path."""
        return self.resolve(self.output.directory)

    @property
    def workers(self) -> int:
        """Jobs at once: as written, else one for each core that this process may use."""
        return self.backend.workers or len(os.sched_getaffinity(0))

    @property
    def pipeline_options(self) -> dict[str, Any]:
        """The free tables as a unit carries them, with model paths made absolute."""
        inference = dict(self.inference)
        if "models" in inference:
            inference["models"] = self._absolute_models(inference["models"])
        return {"pipeline": dict(self.pipeline), "inference": inference}

    def resolve(self, path: str) -> Path:
        """An absolute path for one that may be relative to the campaign file."""
        return (self.path.parent / Path(path).expanduser()).resolve()

    def identity(self) -> dict[str, Any]:
        """What the results depend on, as nested plain data; ``config_hash`` is made from it."""
        dump = self.model_dump(mode="json")
        identity = {"campaign": {"pipeline": self.campaign.pipeline}} | {
            key: dump[key] for key in _RESULT_SECTIONS
        }
        digests = _model_digests(self.pipeline_options["inference"].get("models"))
        return identity | ({"model files": digests} if digests else {})

    @property
    def config_hash(self) -> str:
        """Sixteen hexadecimal digits that change if, and only if, the results could."""
        text = json.dumps(self.identity(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _absolute_models(self, models: Any) -> Any:
        """Resolve what names a file; a bare word names a model that Egretta ships."""
        if isinstance(models, Mapping):
            return {key: self._absolute_models(value) for key, value in models.items()}
        if isinstance(models, str) and "://" not in models and ("/" in models or models.endswith(".onnx")):
            return str(self.resolve(models))
        return models


def _model_digests(models: Any) -> dict[str, str]:
    """What is in each model file that the campaign brings: another network under the same path is another
    configuration. A file that is not there has none; the pipeline says so when it opens it."""
    named = models.items() if isinstance(models, Mapping) else ()
    return {
        str(role): hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]
        for role, path in named
        if isinstance(path, str) and Path(path).is_file()
    }


def load_spec(path: str | Path, overrides: Mapping[str, Any] | None = None) -> CampaignSpec:
    """Read and check a campaign file.

    ``overrides`` maps ``"section.key"`` to the value given on the command line. Raises SpecError, which
    names the file, every key at fault, why, and what to write instead.
    """
    path = Path(path).absolute()
    sections: dict[str, type[Section] | None] = {
        name: _section(field.annotation)
        for name, field in CampaignSpec.model_fields.items()
        if name != "path"
    }
    known = {name: None if model is None else tuple(model.model_fields) for name, model in sections.items()}
    values = read_layers(path, known, overrides or {}, os.environ)
    try:
        return CampaignSpec.model_validate({**values, "path": path})
    except ValidationError as error:
        raise describe_problems(path, known, error.errors()) from None


def _section(annotation: object) -> type[Section] | None:
    return annotation if isinstance(annotation, type) and issubclass(annotation, Section) else None
