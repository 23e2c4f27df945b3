"""A campaign from its file to its report: spec, dataset, ledger, backends, monitor, command line.

``from egretta.workflows import Campaign`` is the way in for Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from egretta.workflows.campaign import Campaign as Campaign

__all__ = ["Campaign"]


def __getattr__(name: str) -> Any:
    # Loaded when asked for: the command line imports this package and must start fast.
    if name == "Campaign":
        from egretta.workflows.campaign import Campaign

        return Campaign
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
