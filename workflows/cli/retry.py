"""``egretta retry``: make failed units pending again."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from egretta.kernels.errors import FailureClass, UsageError
from egretta.workflows.cli.common import AsJson, CampaignFile, Settings, load, print_json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("retry")(retry)


def retry(
    campaign_file: CampaignFile,
    failure_class: Annotated[
        FailureClass | None, typer.Option("--class", help="Only units whose last failure is of this class.")
    ] = None,
    unit: Annotated[
        list[str] | None, typer.Option("--unit", metavar="u0000017", help="Only this unit. May be repeated.")
    ] = None,
    memory_mb: Annotated[
        int | None, typer.Option("--memory-mb", min=64, help="Let these units take that much memory.")
    ] = None,
    timeout_s: Annotated[
        float | None, typer.Option("--timeout-s", min=1, help="Let these units take that much time.")
    ] = None,
    damaged: Annotated[
        bool,
        typer.Option("--damaged", help="Instead: done units whose output files are lost or damaged."),
    ] = False,
    skipped_files: Annotated[
        bool,
        typer.Option("--skipped-files", help="Instead: input files left out that can be read by now."),
    ] = False,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Make failed and quarantined units pending again, once their cause is mended.

    `egretta run` then runs them. Classes of failure: transient (a moment's trouble of network or machine),
    data (the input is bad), resource (memory, time or disk ran out), site (the machine lacks something),
    code (a bug, or a model that does not fit). `egretta status` shows what failed, and why.
    """
    from egretta.workflows.layout import unit_number

    narrowed = bool(failure_class or unit or memory_mb or timeout_s)
    if narrowed + damaged + skipped_files > 1:
        raise UsageError("--damaged and --skipped-files go with no other option", hint="give them alone")
    try:
        numbers = [unit_number(name) for name in unit or ()]
    except ValueError as error:
        raise UsageError(str(error), hint="egretta status names the units that failed") from None
    campaign = load(campaign_file, settings)
    if damaged:
        result = campaign.redo_damaged()
    elif skipped_files:
        result = campaign.admit_skipped()
    else:
        result = campaign.retry(failure_class, numbers, memory_mb=memory_mb, timeout_s=timeout_s)
    if as_json:
        print_json(asdict(result))
        return
    typer.echo(f"{result.units:,} units ({result.events:,} events) are pending again")
    if result.units:
        typer.echo(f"next: egretta run {campaign_file}")
