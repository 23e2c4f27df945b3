"""``egretta status``: where a campaign stands."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from egretta.workflows.cli.common import (
    INCOMPLETE,
    AsJson,
    CampaignFile,
    Settings,
    exit_code,
    load,
    print_json,
)

if TYPE_CHECKING:
    from egretta.workflows.results import Status
    from egretta.workflows.summary import Trouble

_TROUBLES_SHOWN = 8


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("status")(status)


def status(campaign_file: CampaignFile, settings: Settings = None, as_json: AsJson = False) -> None:
    """Show units by state, events by what became of them, and what mends each kind of failure.

    A number in brackets is the change since the last look (--json leaves that mark alone). Exit codes:
    0 every unit is done, 3 units wait or run (also before the first run), 4 only failures are left.
    """
    found = load(campaign_file, settings).status(remember=not as_json)
    if as_json:
        print_json(_as_data(found))
    else:
        _show(found, campaign_file)
    raise typer.Exit(exit_code(found.totals) if found.started else INCOMPLETE)


def _as_data(status: Status) -> dict[str, object]:
    return {
        "campaign": status.campaign,
        "started": status.started,
        "running": status.running,
        "units": {str(state): count for state, count in status.totals.units.items()},
        "events": status.totals.events(),
        "failures": [_trouble(trouble) for trouble in status.troubles],
        "skipped_files": list(status.skipped_files),
    }


def _trouble(trouble: Trouble) -> dict[str, object]:
    data = asdict(trouble)
    data["class"] = data.pop("failure_class")
    return data


def _show(status: Status, campaign_file: str) -> None:
    from rich.console import Console

    from egretta.workflows.states import UnitState

    console = Console(highlight=False)
    if not status.started:
        console.print(f"{status.campaign}: not started; start it: egretta run {campaign_file}")
        return
    sums = status.totals
    runner = "a runner is at work" if status.running else "no runner is at work"
    console.print(f"[bold]{status.campaign}[/bold] ({runner})")
    units = []
    for state, count in sums.units.items():
        change = status.deltas.get(state, 0)
        if count or change:
            units.append(f"{state}: {count:,}" + (f" ({change:+,})" if change else ""))
    console.print("units    " + ", ".join(units))
    console.print("events   " + ", ".join(f"{name}: {count:,}" for name, count in sums.events().items()))
    orphans = sums.units[UnitState.RUNNING]
    if orphans and not status.running:
        console.print(f"{orphans:,} units were running when their runner died; egretta run takes them up")
    for trouble in status.troubles[:_TROUBLES_SHOWN]:
        kind = f"{trouble.failure_class} {trouble.error}".strip()
        text = f"{trouble.count:,} {trouble.what}(s) {trouble.state}, {kind}"
        console.print(f"\n[red]{text}[/red]")
        console.print(f"  e.g. {trouble.example}", markup=False, soft_wrap=True)
        console.print(f"  {trouble.message.partition(chr(10))[0]}", markup=False, soft_wrap=True)
        if trouble.command:
            console.print(f"  mend: {trouble.command}", markup=False, soft_wrap=True)
    if len(status.troubles) > _TROUBLES_SHOWN:
        console.print(
            f"\n... and {len(status.troubles) - _TROUBLES_SHOWN} more kinds of failure (--json has all)"
        )
