"""``egretta validate``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from egretta.workflows.validation.metrics import Metrics


def _percent(value: float | None, uncertainty: float | None = None) -> str:
    if value is None:
        return "-"
    text = f"{100 * value:.2f}"
    return f"{text} ± {100 * uncertainty:.2f}" if uncertainty is not None else text


def _table(name: str, figures: dict[str, Any]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from egretta.workflows.validation.metrics import RANGE_TITLES, TITLES

    ghosts = _percent(figures["ghost_rate"], figures["ghost_rate_uncertainty"])
    clones = _percent(figures["clone_rate"], figures["clone_rate_uncertainty"])
    table = Table(
        title=f"{RANGE_TITLES[name]}, rates in %",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),  # with numbers of eight digits still no wider than 80
        caption=f"{figures['tracks']:,} tracks · ghosts {ghosts} % · clones {clones} %\n"
        "best: efficiency by best match, where a track counts for one particle only",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("particles", no_wrap=True)
    for heading in ("number", "efficiency", "best", "clones", "hit eff.", "purity"):
        table.add_column(heading, justify="right", no_wrap=True)
    for category, title in TITLES.items():
        row = figures[category]
        table.add_row(
            title,
            f"{row['particles']:,}",
            _percent(row["efficiency"], row["efficiency_uncertainty"]),
            _percent(row["efficiency_best_match"]),
            _percent(row["clone_rate"]),
            _percent(row["hit_efficiency"]),
            _percent(row["hit_purity"]),
        )
    return table


def _show(metrics: Metrics) -> None:
    from rich.console import Console

    console = Console()
    console.print(f"{metrics.events:,} events")
    for name, figures in metrics.to_dict().items():
        console.print()
        console.print(_table(name, figures))


def _validate(
    tracks: Annotated[
        Path, typer.Argument(metavar="TRACKS.root", help="Tracks that a campaign made (`egretta merge`).")
    ],
    truth: Annotated[
        list[Path],
        typer.Option(
            "--truth",
            metavar="HITS.root",
            help="File with hits and truth (tree Velo). "
            "Give one for each input file of the campaign, in their order.",
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON (fractions).")] = False,
    plots: Annotated[
        Path | None,
        typer.Option(help="Folder for plots of efficiency and ghost rate (PNG)."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Also write figures and curves here; `egretta report` shows those in "
            "OUTPUT_DIRECTORY/validation.json."
        ),
    ] = None,
    allow_missing: Annotated[
        bool,
        typer.Option("--allow-missing", help="Judge the events that are there, though truth holds more."),
    ] = False,
) -> None:
    """Judge tracks by simulated truth: efficiency, ghosts, clones, hit efficiency and purity.

    A track matches a particle if more than 70 % of its hits come from it. Efficiency counts particles
    with any matching track. Ghosts are tracks without a match; clones are further tracks of a particle
    that is found already. Electrons are left out of all categories but their own.
    """
    from egretta.workflows.validation.judge import judge

    judgement = judge(tracks, truth, allow_missing=allow_missing)
    if output is not None:
        from egretta.jobs.plain import write_text

        write_text(output, json.dumps(judgement.to_dict()), what="the validation")
    written = []
    if plots is not None and judgement.curves:
        from egretta.workflows.validation.plots import draw

        written = draw(judgement.curves, plots, title=f"Simulation, {judgement.metrics.events:,} events")
    if as_json:
        typer.echo(json.dumps(judgement.metrics.to_dict(), indent=1))
        return
    _show(judgement.metrics)
    for path in written:
        typer.echo(f"plot: {path}")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("validate")(_validate)
