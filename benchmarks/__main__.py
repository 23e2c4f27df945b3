"""Measure everything and write benchmarks/RESULTS.md: ``python -m benchmarks`` (or ``make bench``).

Each benchmark runs in a process of its own, one after the other. With --quick, few events are used and the
tables are only printed. Nothing else should run on the machine meanwhile.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.events import find_data
from benchmarks.machine import lines
from benchmarks.tables import Table, arguments, command_of, from_json

MODULES = ("velo_physics", "velo_speed", "scaling", "startup", "kernels", "occupancy")
_RESULTS = Path(__file__).resolve().with_name("RESULTS.md")


def main() -> int:
    """0 if every benchmark ran; else 1, and nothing is written."""
    parser = arguments(__doc__)
    parser.add_argument("--only", nargs="+", choices=MODULES, default=MODULES, help="print only these")
    parser.add_argument("--output", type=Path, metavar="FILE", help="where to write (default: RESULTS.md)")
    options = parser.parse_args()
    data = find_data(options.data)
    events = "real events" if data else "no real events here: simulated ones are measured in their place"
    print(f"{events}; {'few of them' if options.quick else 'this takes some minutes'}", flush=True)
    head, began = lines(), time.monotonic()
    sections: list[tuple[str, list[Table]]] = []
    for name in options.only:
        command = command_of(f"benchmarks.{name}", options)
        module_began = time.monotonic()
        print(f"\n==> {command}", flush=True)
        tables = _run(shlex.split(command)[3:], f"benchmarks.{name}")
        if tables is None:
            print(f"{name} failed; nothing is written", file=sys.stderr)
            return 1
        for table in tables:
            print(f"\n{table.markdown()}", flush=True)
        print(f"\n({time.monotonic() - module_began:.0f} s)", flush=True)
        sections.append((command, tables))
    output = options.output
    if output is None and not options.quick and tuple(options.only) == MODULES:
        output = _RESULTS
    if output is not None:
        output.write_text(document(head, events, sections, time.monotonic() - began))
        print(f"\nwritten to {output}")
    return 0


def _run(flags: Sequence[str], module: str) -> list[Table] | None:
    with tempfile.TemporaryDirectory() as directory:
        answer = Path(directory) / "tables.json"
        done = subprocess.run([sys.executable, "-m", module, *flags, "--json", str(answer)])
        return None if done.returncode else from_json(answer.read_text())


def document(
    head: Sequence[str], events: str, sections: Sequence[tuple[str, Sequence[Table]]], seconds: float
) -> str:
    """The text of RESULTS.md: the machine, then every table below the command that made it."""
    parts = [
        "# Results",
        "Written by `make bench`, not by hand. Each table stands below the command that made it.",
        "\n".join(
            f"- {line}" for line in (*head, f"Events: {events}", f"All took {seconds / 60:.1f} minutes")
        ),
    ]
    for command, tables in sections:
        parts += [f"## `{command}`", *[table.markdown() for table in tables]]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.exit(main())
