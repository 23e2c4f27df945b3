"""``egretta simulate velo``: events to try everything on, without any detector file."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from egretta.jobs.simulation.writing import Format


class Preset(StrEnum):
    """Kinds of events."""

    BSPHIPHI = "bsphiphi"
    MINBIAS = "minbias"


class Formats(StrEnum):
    """Trees to write."""

    HITS = "hits"
    BANKS = "banks"
    BOTH = "both"


def register(app: typer.Typer) -> None:
    """Add ``simulate`` and what it simulates."""
    group = typer.Typer(no_args_is_help=True, help="Make simulated events.")
    # a callback keeps `velo` a word of its own while it is the only one
    group.callback()(_group)
    group.command("velo")(velo)
    app.add_typer(group, name="simulate")


def _group() -> None:
    """Make simulated events, for tests, demonstrations and scale runs."""


def velo(
    output: Annotated[
        Path, typer.Argument(metavar="OUT.root", help="ROOT file to write; an existing one is replaced.")
    ],
    events: Annotated[int, typer.Option("--events", "-n", min=0, help="Number of events.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same events.")] = 1,
    preset: Annotated[
        Preset, typer.Option(help="Bs -> phi phi with pile-up, or minimum bias.")
    ] = Preset.BSPHIPHI,
    pile_up: Annotated[
        float | None, typer.Option(help="Mean number of interactions an event, instead of the preset's.")
    ] = None,
    form: Annotated[
        Formats,
        typer.Option("--format", help="hits: tree Velo (hits and truth). banks: tree RawEvent (raw banks)."),
    ] = Formats.BOTH,
    workers: Annotated[int, typer.Option(min=1, help="Threads that make events.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Simulate LHCb VELO events: tracks from primary and displaced vertices, hits, raw banks, truth.

    Hits and particles are calibrated to LHCb Run 3 simulation. The file appears once it is whole.
    """
    from dataclasses import asdict

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from egretta.jobs.simulation.writing import FORMATS, simulate_velo

    formats: tuple[Format, ...] = FORMATS
    if form is Formats.HITS:
        formats = ("hits",)
    elif form is Formats.BANKS:
        formats = ("banks",)
    columns = (
        TextColumn("[progress.description]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=as_json or not console.is_terminal) as progress:
        task = progress.add_task("events", total=events, rate="")

        def advance(done: int) -> None:
            speed = progress.tasks[0].speed
            progress.update(task, completed=done, rate=f"{speed:,.0f} ev/s" if speed else "")

        summary = simulate_velo(
            output,
            events,
            seed=seed,
            preset=preset.value,
            pile_up=pile_up,
            formats=formats,
            workers=workers,
            progress=advance,
        )
    if as_json:
        typer.echo(json.dumps({**asdict(summary), "events_per_second": summary.events_per_second}))
        return
    typer.echo(
        f"{summary.path}: {summary.events:,} events, {summary.hits:,} hits, "
        f"{summary.particles:,} particles, {summary.file_bytes / 1e6:,.1f} MB "
        f"in {summary.seconds:.1f} s ({summary.events_per_second:,.0f} ev/s)"
    )
