"""The options of the pipeline ``velo``, as a campaign's [pipeline] and [inference] tables give them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from egretta.kernels.errors import SpecError

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class VeloOptions(BaseModel):
    """All options; what is None comes from the models' own settings.

    ``geometry``: path of a binary VELO geometry, the nominal one where absent. ``banks``: which raw banks
    are decoded. ``k``: neighbours of a hit at most. ``d_max``: largest distance in the embedding for gaps of
    0, 1 and 2 stations. ``kink_max``: largest change of slope in a triplet. ``threshold``: triplet logit
    above which a triplet is kept. ``engine``: what runs the networks. ``models``: paths by role, of
    ``embedding`` and ``gnn``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    geometry: Path | None = None
    banks: Literal["auto", "retina", "superpixel"] = "auto"
    k: Annotated[int, Field(ge=1, le=1024)] | None = None
    d_max: tuple[Positive, Positive, Positive] | None = None
    kink_max: Positive | None = None
    threshold: Annotated[float, Field(allow_inf_nan=False)] | None = None
    engine: Literal["fused", "onnxruntime"] = "fused"
    models: dict[Literal["embedding", "gnn"], Path] = Field(default_factory=dict)


_SECTIONS = {
    "pipeline": ("geometry", "banks", "k", "d_max", "kink_max", "threshold"),
    "inference": ("engine", "models"),
}


def read_options(options: Mapping[str, Any]) -> VeloOptions:
    """Check ``{"pipeline": {...}, "inference": {...}}``. Raises SpecError with the nearest known key."""
    values: dict[str, Any] = {}
    for section, table in options.items():
        known = _SECTIONS.get(section, ())
        if not isinstance(table, Mapping):
            raise SpecError(
                f"the pipeline velo takes a table [{section}], not {table!r}",
                hint=f"known keys: {', '.join(known) or 'none'}",
            )
        for key, value in table.items():
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                advice = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(known) or 'none'}"
                raise SpecError(f"the pipeline velo knows no {key!r} under [{section}]", hint=advice)
            values[key] = value
    try:
        return VeloOptions.model_validate(values)
    except ValidationError as error:
        problem = error.errors()[0]
        key = str(problem["loc"][0])
        section = next(name for name, keys in _SECTIONS.items() if key in keys)
        raise SpecError(
            f"the pipeline velo cannot use {key} = {values[key]!r} under [{section}]: {problem['msg']}",
            hint="docs/velo.md lists the options of the pipeline with their units",
        ) from error
