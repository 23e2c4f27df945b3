"""``egretta report``: a campaign as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from egretta.workflows.cli.common import AsJson, CampaignFile, Settings, load, print_json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report")(report)


def report(
    campaign_file: CampaignFile,
    output: Annotated[
        Path | None, typer.Option(help="Where to write it; report.html in the output directory if left out.")
    ] = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Write what became of a campaign as one HTML file that needs nothing else, to read or to send.

    It holds the account of all events, time by stage, throughput, failures with what mends them, and the
    figures of `egretta validate --output OUTPUT_DIRECTORY/validation.json`, if there are any. It can be
    written at any time after the first run began. --json prints where it is and whether its checks hold.
    """
    from egretta.workflows.report.gather import gather
    from egretta.workflows.report.render import write_report

    campaign = load(campaign_file, settings)
    path = output or campaign.layout.directory / "report.html"
    data = gather(campaign)
    write_report(data, path)
    if as_json:
        checks = {check.claim: check.holds for check in data.checks}
        print_json({"path": str(path), "state": data.state, "checks": checks})
        return
    typer.echo(data.sentence)
    for check in data.checks:
        if not check.holds:
            typer.echo(f"does not hold: {check.claim} ({check.detail})", err=True)
    typer.echo(f"report: {path}")
