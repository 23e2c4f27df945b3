"""``egretta demo``: the whole way on simulated events, by the commands that a user would type."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from egretta.kernels.errors import UsageError

_CAMPAIGN = """\
# Made by `egretta demo`. Every key is explained in docs/campaign.md; change one and run it again:
#   egretta run {path}

[campaign]
name = "demo"
pipeline = "velo"

[input]
files = ["events.root"]    # relative to this file; RawEvent holds the raw banks, Velo the truth
tree = "RawEvent"

[splitting]
by = "entries"
entries_per_unit = {entries_per_unit}

[output]
directory = "out"

[backend]
name = "local"             # one process a unit, on every core of this machine
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo")(demo)


def demo(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where to put it; made if it is not there.")
    ] = Path("demo"),
    events: Annotated[int, typer.Option(min=1, help="Simulated events.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the simulation.")] = 1,
) -> None:
    """Show the whole way on simulated events: simulate, plan, run, merge, validate, report.

    Each step is a command that is shown before it runs. Run again, it goes on from where it was.
    """
    source, campaign, output = directory / "events.root", directory / "campaign.toml", directory / "out"
    cores = len(os.sched_getaffinity(0))
    if _is_new(directory, source, events):
        size = ("--events", events, "--seed", seed, "--workers", cores)
        _step("Simulate (compiles its code the first time)", "simulate", "velo", source, *size)
    if not campaign.exists():
        per_unit = entries_per_unit(events, cores)
        campaign.write_text(_CAMPAIGN.format(path=campaign, entries_per_unit=per_unit), encoding="utf-8")
    _say("The campaign file", f"written to {campaign}")
    _step("Plan: what will happen", "plan", campaign)
    _step("Run: one process a unit, on all cores (the first compile the kernels)", "run", campaign)
    _step("Merge: one file, every event accounted for", "merge", campaign)
    verdict = ("--output", output / "validation.json")
    _step(
        "Validate: tracks against the truth", "validate", output / "tracks.root", "--truth", source, *verdict
    )
    _step("Report", "report", campaign)
    _say(
        "Done. What to try next",
        f"look at the report      {output / 'report.html'}",
        f"look at the campaign    egretta status {campaign}",
        f"read the tracks         uproot.open('{output / 'tracks.root'}')['Tracks']",
        "use your own events     copy campaign.toml, change [input] files, egretta run it",
    )


def entries_per_unit(events: int, cores: int) -> int:
    """Some three units a core, so that all cores end together; 50 to 500 events each."""
    return min(max(-(-events // (3 * cores)), 50), 500)


def _is_new(directory: Path, source: Path, events: int) -> bool:
    """Whether there is nothing yet. Raises UsageError for a directory that holds something else."""
    if source.exists():
        from egretta.jobs.readers import open_source

        with open_source(str(source)) as found:
            if found.n_entries == events:
                return False
            raise UsageError(
                f"{directory} holds a demo of {found.n_entries:,} events, not of {events:,}",
                hint=f"name another directory, or remove {directory}",
            )
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageError(
            f"{directory} is there already and holds no demo", hint="name a directory that is new or empty"
        )
    directory.mkdir(parents=True, exist_ok=True)
    return True


def _say(title: str, *lines: str) -> None:
    typer.secho(f"\n== {title}", bold=True)
    for line in lines:
        typer.echo(line)


def _step(title: str, *arguments: object) -> None:
    """Show a command, run it, and end here if it fails."""
    from egretta.workflows.cli import app

    words = [str(argument) for argument in arguments]
    _say(title, f"$ egretta {shlex.join(words)}")
    code = app(words, standalone_mode=False)
    if code:
        raise typer.Exit(code)
