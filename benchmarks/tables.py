"""What a benchmark hands over: tables, with what a reader needs to make them again."""

from __future__ import annotations

import argparse
import json
import math
import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Table:
    """Figures as text, a row a list; the first column names what the others measure."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def markdown(self) -> str:
        """The table as Markdown, numbers to the right."""
        lines = [f"### {self.title}", "", _row(self.columns)]
        lines.append(_row([":--", *["--:"] * (len(self.columns) - 1)]))
        lines += [_row(row) for row in self.rows]
        if self.notes:
            lines += ["", *[f"- {note}" for note in self.notes]]
        return "\n".join(lines)

    @staticmethod
    def of(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *notes: str) -> Table:
        """A table of any sequences; every row must have as many cells as there are columns."""
        for row in rows:
            if len(row) != len(columns):
                raise ValueError(f"{title}: {len(columns)} columns, but a row of {len(row)}: {row}")
        return Table(title, tuple(columns), tuple(tuple(row) for row in rows), notes)


@dataclass(frozen=True, slots=True)
class Setting:
    """What a benchmark is given: where real events are (None: there are none), whether few of them are to do,
    and a directory that is removed afterwards."""

    data: Path | None
    quick: bool
    work: Path

    def size(self, full: int, quick: int) -> int:
        """A number of events or repetitions."""
        return quick if self.quick else full


Measure = Callable[[Setting], list[Table]]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def number(value: float | None, digits: int = 3) -> str:
    """Three digits that count, no exponent: 0.0123, 1.23, 123, 12,345; nothing for None or NaN."""
    if value is None or not math.isfinite(value):
        return ""
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits}g}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{value:,.{decimals}f}"


def times(part: float, whole: float) -> str:
    """The ratio of two figures, as ``9.87x``."""
    return f"{number(part / whole)}x" if whole and math.isfinite(part / whole) else ""


def arguments(description: str | None) -> argparse.ArgumentParser:
    """The options that all benchmarks share."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="folder of real events (holds velo/); default: EGRETTA_SHARED_DATA, else ../shared/data",
    )
    parser.add_argument("--quick", action="store_true", help="few events: to see that it runs, not how fast")
    return parser


def command_of(module: str, options: argparse.Namespace) -> str:
    """The command that makes the figures again."""
    words = ["python", "-m", module]
    if options.data is not None:
        words += ["--data", str(options.data)]
    if options.quick:
        words.append("--quick")
    return shlex.join(words)


def standalone(measure: Measure, description: str | None) -> None:
    """Run one benchmark by itself: its tables on stdout, or as JSON for ``python -m benchmarks``."""
    from benchmarks.events import find_data

    parser = arguments(description)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the tables there instead")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="egretta-bench-") as work:
        tables = measure(Setting(find_data(options.data), options.quick, Path(work)))
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(table) for table in tables]))
        return
    sys.stdout.write("\n\n".join(table.markdown() for table in tables) + "\n")


def from_json(text: str) -> list[Table]:
    """The tables that ``--json`` wrote."""
    found: list[dict[str, Any]] = json.loads(text)
    return [Table.of(t["title"], t["columns"], t["rows"], *t["notes"]) for t in found]
