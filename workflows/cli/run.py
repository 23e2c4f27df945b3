"""``egretta run``: run what is not yet done."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from egretta.workflows.cli.common import (
    STOPPED,
    AsJson,
    CampaignFile,
    Settings,
    duration,
    exit_code,
    load,
    print_json,
)

if TYPE_CHECKING:
    from egretta.workflows.results import RunResult
    from egretta.workflows.runner import Notice, Progress

_LINE_EVERY_S = 10.0


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("run")(run)


def run(
    campaign_file: CampaignFile,
    workers: Annotated[int | None, typer.Option("--workers", "-j", help="Jobs at once.", min=1)] = None,
    skip_bad_files: Annotated[
        bool,
        typer.Option("--skip-bad-files", help="Leave out input files that cannot be used, and record them."),
    ] = False,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Run what is not yet done of a campaign; start it if need be.

    Ctrl-C stops in order; run again to continue. Whatever dies, whenever, running again completes the
    campaign with every event processed exactly once. Exit codes: 0 done, 3 incomplete (it paused), 4 some
    units failed, 130 stopped.
    """
    from egretta.workflows.runner import RunEnd

    campaign = load(campaign_file, settings, backend__workers=workers)
    with _Display(sys.stderr.isatty()) as display:
        result = campaign.run(display.observe, skip_bad_files=skip_bad_files)
    code = STOPPED if result.end is RunEnd.STOPPED else exit_code(result.totals)
    if as_json:
        units = {str(state): count for state, count in result.totals.units.items()}
        answer = {"end": result.end, "reason": result.reason, "units": units}
        print_json({**answer, "events": result.totals.events()})
    else:
        _conclude(result, campaign_file, code)
    raise typer.Exit(code)


def _conclude(result: RunResult, campaign_file: str, code: int) -> None:
    sums = result.totals
    typer.echo(
        f"{result.end}: {sums.processed:,} of {sums.expected:,} events processed, "
        f"{sums.quarantined:,} quarantined, {sums.failed:,} failed, {sums.remaining:,} to do"
    )
    if result.reason:
        typer.echo(f"paused: {result.reason}; nothing more was started")
    following = {
        0: f"next: egretta merge {campaign_file}",
        STOPPED: f"next: egretta run {campaign_file} continues",
    }
    typer.echo(
        following.get(code, f"next: egretta status {campaign_file} says what failed and what mends it")
    )


class _Display:
    """A progress bar on a terminal, plain lines elsewhere; on stderr, so that --json stays clean."""

    def __init__(self, terminal: bool) -> None:
        from rich.console import Console

        self._console = Console(stderr=True, highlight=False)
        self._terminal = terminal
        self._line_at = -_LINE_EVERY_S
        self._shown = ""

    def __enter__(self) -> _Display:
        if self._terminal:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("events"),
                TextColumn("{task.fields[rate]}"),
                TimeElapsedColumn(),
                console=self._console,
            )
            self._task = self._bar.add_task("events", total=None, rate="")
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._terminal:
            self._bar.stop()

    def observe(self, event: Progress | Notice) -> None:
        """Show one event of the runner."""
        from egretta.workflows.runner import Notice

        if isinstance(event, Notice):
            style = "red" if event.bad else ""
            self._console.print(event.text, style=style, markup=False, soft_wrap=True)
            return
        sums = event.totals
        settled = sums.processed + sums.quarantined + sums.failed
        rate = _rate(event)
        if self._terminal:
            self._bar.update(self._task, total=sums.expected, completed=settled, rate=rate)
            return
        line = f"{settled:,} / {sums.expected:,} events {rate}"
        now = time.monotonic()
        if sums.finished or now - self._line_at >= _LINE_EVERY_S:
            self._line_at = now
            if line != self._shown:
                self._console.print(line, markup=False)
            self._shown = line


def _rate(event: Progress) -> str:
    parts = []
    if event.events_per_s is not None and event.eta_s is not None:
        parts += [f"{event.events_per_s:.1f} events/s", f"{duration(event.eta_s)} left"]
    lost = event.totals.failed + event.totals.quarantined
    if lost:
        parts.append(f"{lost:,} failed or quarantined")
    return ", ".join(parts)
