"""What the commands share: the campaign argument, settings from the command line, JSON, exit codes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from egretta.kernels.errors import UsageError

if TYPE_CHECKING:
    from egretta.workflows.campaign import Campaign
    from egretta.workflows.summary import Totals

DONE, INCOMPLETE, FAILED, STOPPED = 0, 3, 4, 130

CampaignFile = Annotated[
    str,
    typer.Argument(
        metavar="CAMPAIGN.toml", help="The campaign file: what to read, how to process it, where to write."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="SECTION.KEY=VALUE",
        help="Override a setting of the campaign file, e.g. --set backend.workers=4. May be repeated.",
    ),
]


def load(path: str, settings: Sequence[str] | None = None, **direct: Any) -> Campaign:
    """The campaign of a file under the command line's settings.

    ``direct`` holds options of their own as ``section__key=value``; None means not given.
    """
    from egretta.workflows.campaign import Campaign
    from egretta.workflows.sources import parse_value

    overrides = {}
    for setting in settings or ():
        name, equals, value = setting.partition("=")
        if not equals:
            raise UsageError(f"--set {setting}: no value", hint="write --set section.key=value")
        overrides[name.strip()] = parse_value(value.strip())
    for name, value in direct.items():
        if value is not None:
            overrides[name.replace("__", ".")] = value
    return Campaign.load(path, overrides)


def print_json(value: Any) -> None:
    """Plain data as JSON on stdout."""
    typer.echo(json.dumps(value, indent=1))


def exit_code(totals: Totals) -> int:
    """0 every unit is done, 3 units wait or run, 4 nothing is left but what failed."""
    if totals.flawless:
        return DONE
    return FAILED if totals.finished else INCOMPLETE


def duration(seconds: float) -> str:
    """A time for people: 42 s, 7 min, 3.5 h, 2.1 d."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.1f} d"
