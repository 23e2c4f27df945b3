"""``egretta plan``: what a run would do."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from egretta.workflows.cli.common import (
    DONE,
    FAILED,
    AsJson,
    CampaignFile,
    Settings,
    duration,
    load,
    print_json,
)

if TYPE_CHECKING:
    from egretta.workflows.results import Plan

_FILES_SHOWN = 20


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("plan")(plan)


def plan(
    campaign_file: CampaignFile,
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure events/s by a short job first, and plan with that.")
    ] = False,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Show what a campaign would read, how it is split, and what it should cost. Changes nothing.

    Every input file is opened; each that cannot be used is named with the reason (then exit code 4).
    """
    campaign = load(campaign_file, settings)
    if measure:
        rate = campaign.measure()
        if not as_json:
            typer.echo(f"measured: write events_per_s = {rate:.3g} into [splitting]\n")
        campaign = load(campaign_file, settings, splitting__events_per_s=rate)
    made = campaign.plan()
    if as_json:
        print_json(asdict(made))
    else:
        _show(made)
    raise typer.Exit(FAILED if made.bad_files else DONE)


def _show(plan: Plan) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.print(f"[bold]{plan.campaign}[/bold]: pipeline {plan.pipeline}, configuration {plan.config_hash}")
    table = Table(box=None, pad_edge=False, header_style="dim")
    # a path is never cut off: it goes on in the next line
    table.add_column("file", overflow="fold")
    table.add_column("tree", no_wrap=True)
    table.add_column("holds", no_wrap=True)
    for name in ("entries", "used", "units"):
        table.add_column(name, justify="right")
    for file in plan.files[:_FILES_SHOWN]:
        counts = (f"{file.entries:,}", f"{file.used:,}", f"{file.units:,}")
        table.add_row(file.path, file.tree or "-", file.kind, *counts)
    console.print(table)
    if len(plan.files) > _FILES_SHOWN:
        console.print(f"... and {len(plan.files) - _FILES_SHOWN} more files")
    size = f"at most {plan.entries_per_unit:,} entries each" if plan.entries_per_unit else "one a file"
    console.print(f"{plan.entries:,} events in {plan.units:,} units, {size}; {plan.workers} at once")
    console.print(
        f"about {duration(plan.expected_wall_s)} at {plan.events_per_s:g} events/s a core "
        f"({duration(plan.expected_cpu_s)} of CPU); splitting.events_per_s sets the rate"
    )
    for site in plan.sites.values():
        console.print(f"bandwidth: {site.why}", soft_wrap=True)
    console.print(f"output: {plan.output_directory}" + (" (already started)" if plan.started else ""))
    for change in plan.changes:
        console.print(f"[red]changed since it was started:[/red] {change}", soft_wrap=True)
    for bad in plan.bad_files:
        console.print(f"[red]cannot be used ({bad.failure_class}):[/red] {bad.message}", soft_wrap=True)
        if bad.hint:
            console.print(f"  what to do: {bad.hint}", soft_wrap=True)
