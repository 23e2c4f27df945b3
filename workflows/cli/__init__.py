"""The command line: one module a command, each with ``register(app)``.

Exit codes of every command::

    0    done: what was asked for is complete
    1    an error of Egretta or of the system, told on stderr
    2    the request cannot be served: arguments, campaign file, lock
    3    incomplete: work is left that ``egretta run`` can do
    4    failed: work is left that needs a person
    130  stopped by Ctrl-C; ``egretta run`` continues

Modules of commands import what they need inside their functions, so that ``egretta --help`` stays fast.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from typing import Annotated

import typer

from egretta.kernels.errors import EgrettaError, UsageError
from egretta.kernels.version import __version__

COMMANDS = ("demo", "plan", "run", "status", "retry", "merge", "report", "validate", "simulate")

_debug = False


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"egretta {__version__}")
        raise typer.Exit


def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Reprocess detector events: plan a campaign, run it, prove that every event was processed once."""
    global _debug
    _debug = debug


def build_app() -> typer.Typer:
    """The application with every command registered."""
    app = typer.Typer(
        name="egretta",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        callback=_options,
        epilog="Exit codes: 0 done, 1 an error, 2 a wrong call or campaign file, "
        "3 work left that `egretta run` does, 4 failures left that need a person, 130 stopped by Ctrl-C.",
    )
    for name in COMMANDS:
        importlib.import_module(f"{__name__}.{name}").register(app)
    _let_help_flow(app)
    return app


def _let_help_flow(app: typer.Typer) -> None:
    """Join the lines of paragraphs, which Typer would break as the source does."""
    for command in app.registered_commands:
        paragraphs = inspect.getdoc(command.callback) or ""
        command.help = "\n\n".join(" ".join(text.split()) for text in paragraphs.split("\n\n"))
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _let_help_flow(group.typer_instance)


app = build_app()


def main() -> None:
    """Entry point of the ``egretta`` command."""
    try:
        app()
    except EgrettaError as error:
        if _debug:
            raise
        print(f"egretta: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, UsageError) else 1)
    except BrokenPipeError:
        # The reader of our output (head, less) has left; nothing is wrong.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        if _debug:
            raise
        print(f"egretta: {error}\n  what to do: run again with --debug for the details", file=sys.stderr)
        sys.exit(1)
