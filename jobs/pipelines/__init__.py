"""Pipelines: the order of kernels and networks that turns one kind of batch into another.

A campaign names its pipeline: one of ``BUILT_IN``, or ``package.module:factory`` for one of the user's own.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from egretta.kernels.errors import CodeError, EgrettaError, SiteError, SpecError

if TYPE_CHECKING:
    from egretta.jobs.pipelines.base import Pipeline, PipelineFactory

BUILT_IN: Mapping[str, str] = {"velo": "egretta.jobs.pipelines.velo:make_pipeline"}
"""Names of the pipelines that come with Egretta, and where their factories are."""


def factory_name(name: str) -> tuple[str, str]:
    """Module and attribute of the factory that a pipeline's name stands for; imports nothing.

    Raises SpecError for a name that is neither built in nor of the form ``package.module:factory``.
    """
    module, colon, attribute = BUILT_IN.get(name, name).partition(":")
    if colon and module and attribute.isidentifier():
        return module, attribute
    near = difflib.get_close_matches(name, BUILT_IN, n=1)
    known = f"did you mean {near[0]!r}?" if near else f"built in: {', '.join(sorted(BUILT_IN))};"
    raise SpecError(
        f"no pipeline is named {name!r}",
        hint=f"{known} one of your own is named package.module:factory",
    )


def load_factory(name: str) -> PipelineFactory:
    """Import the factory of a pipeline.

    Raises SpecError for an unknown name, SiteError for a module that is not installed here, CodeError for
    one that cannot be imported or holds no such factory.
    """
    module_name, attribute = factory_name(name)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise SiteError(
            f"cannot import the pipeline {name!r}: no module named {error.name!r} on this machine",
            hint=f"install the package that holds {error.name} where the jobs run, or set PYTHONPATH",
        ) from error
    except EgrettaError:
        raise
    except Exception as error:
        raise CodeError(
            f"cannot import the pipeline {name!r}: {type(error).__name__}: {error}",
            hint=f"mend {module_name}: `python -c 'import {module_name}'` shows the error",
        ) from error
    factory = getattr(module, attribute, None)
    if not callable(factory):
        near = difflib.get_close_matches(attribute, dir(module), n=1)
        raise CodeError(
            f"the module {module_name} of pipeline {name!r} has no factory {attribute!r}",
            hint=f"did you mean {near[0]!r}?"
            if near
            else "name a function that takes the pipeline's options",
        )
    found: PipelineFactory = factory
    return found


def make_pipeline(name: str, options: Mapping[str, Any]) -> Pipeline:
    """Build the pipeline of that name from a unit's ``pipeline_options``."""
    return load_factory(name)(options)
