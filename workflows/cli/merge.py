"""``egretta merge``: one file from all units."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from egretta.workflows.cli.common import AsJson, CampaignFile, Settings, load, print_json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("merge")(merge)


def merge(
    campaign_file: CampaignFile,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Merge what there is although events are missing.")
    ] = False,
    parquet: Annotated[
        bool | None, typer.Option("--parquet/--no-parquet", help="Write tracks.parquet too.")
    ] = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Merge the tracks of all units into tracks.root in the output directory, in the order of the input.

    Every part is checked against its manifest, and the number of events against what was expected.
    """
    result = load(campaign_file, settings).merge(allow_missing=allow_missing, parquet=parquet)
    if as_json:
        print_json(asdict(result))
        return
    typer.echo(f"{result.path}: {result.events:,} of {result.expected:,} events from {result.units:,} units")
    if result.quarantined:
        typer.echo(f"{result.quarantined:,} events are quarantined one by one; egretta status names them")
    if result.missing:
        typer.echo(f"{result.missing:,} events are missing, as you allowed")
