"""What the ledger says about a campaign as a whole: units, events, and what went wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from egretta.workflows.layout import unit_id
from egretta.workflows.ledger import Ledger
from egretta.workflows.states import UnitState


@dataclass(slots=True)
class Totals:
    """Units by state, and events by what became of them; moved along by the runner.

    ``expected == processed + quarantined + failed + remaining`` holds at all times. The events of a
    quarantined unit are all quarantined, those of a failed one all failed.
    """

    units: dict[UnitState, int] = field(default_factory=lambda: dict.fromkeys(UnitState, 0))
    expected: int = 0
    processed: int = 0
    quarantined: int = 0
    failed: int = 0

    @property
    def remaining(self) -> int:
        """Events that are still to be processed."""
        return self.expected - self.processed - self.quarantined - self.failed

    @property
    def finished(self) -> bool:
        """True once no unit is pending or running."""
        return self.units[UnitState.PENDING] + self.units[UnitState.RUNNING] == 0

    @property
    def flawless(self) -> bool:
        """True if every unit is done."""
        return self.finished and self.units[UnitState.FAILED] + self.units[UnitState.QUARANTINED] == 0

    def move(
        self, before: UnitState, after: UnitState, events: int, processed: int = 0, quarantined: int = 0
    ) -> None:
        """Move a unit of ``events`` events; the last two are those of a unit that is now done."""
        self.units[before] -= 1
        self.units[after] += 1
        self.processed += processed
        self.quarantined += quarantined
        if after is UnitState.QUARANTINED:
            self.quarantined += events
        if after is UnitState.FAILED:
            self.failed += events

    def events(self) -> dict[str, int]:
        """The events as plain data."""
        return {
            "expected": self.expected,
            "processed": self.processed,
            "quarantined": self.quarantined,
            "failed": self.failed,
            "remaining": self.remaining,
        }


@dataclass(frozen=True, slots=True)
class Trouble:
    """One kind of failure: how many units or events it concerns, an example, and what mends it.

    ``what`` is unit, event or file.
    """

    what: str
    failure_class: str
    error: str
    state: str
    count: int
    events: int
    example: str
    message: str
    command: str = ""


def totals(ledger: Ledger) -> Totals:
    """Counted in one pass over the units, without an index or sorting."""
    parts = ", ".join(
        f"coalesce(sum(state = '{state}'), 0), coalesce(sum((state = '{state}') * (stop - start)), 0)"
        for state in UnitState
    )
    row = ledger.connection.execute(
        f"SELECT coalesce(sum(processed), 0), coalesce(sum(quarantined), 0), {parts} FROM units"
    ).fetchone()
    processed, quarantined, *by_state = row
    units = dict(zip(UnitState, by_state[0::2], strict=True))
    events = dict(zip(UnitState, by_state[1::2], strict=True))
    return Totals(
        units=units,
        expected=sum(events.values()),
        processed=processed,
        quarantined=quarantined + events[UnitState.QUARANTINED],
        failed=events[UnitState.FAILED],
    )


def troubles(ledger: Ledger) -> list[Trouble]:
    """All that went wrong and has not come right, the most frequent first."""
    db = ledger.connection
    found = []
    query = (
        "SELECT failure_class, error, state, count(*), sum(stop - start), min(unit) FROM units "
        "WHERE failure_class IS NOT NULL GROUP BY failure_class, error, state"
    )
    for kind, error, state, count, events, unit in db.execute(query).fetchall():
        path, start, stop, message = db.execute(
            "SELECT path, start, stop, units.message FROM units JOIN files USING (file) WHERE unit = ?",
            (unit,),
        ).fetchone()
        example = f"{unit_id(unit)}: entries [{start}, {stop}) of {path}"
        found.append(Trouble("unit", kind, error, state, count, events, example, message))
    query = (
        "SELECT failure_class, count(*), min(unit), entry, event, reason FROM quarantined_events "
        "GROUP BY failure_class"
    )
    for kind, count, unit, entry, event, reason in db.execute(query).fetchall():
        example = f"event {event}, entry {entry} in {unit_id(unit)}"
        found.append(Trouble("event", kind, "", "quarantined", count, count, example, reason))
    query = (
        "SELECT failure_class, error, count(*), path, message FROM files "
        "WHERE failure_class IS NOT NULL GROUP BY failure_class, error"
    )
    for kind, error, count, path, message in db.execute(query).fetchall():
        found.append(Trouble("file", kind, error, "quarantined", count, 0, path, message))
    return sorted(found, key=lambda trouble: -trouble.count)


def skipped_files(ledger: Ledger) -> list[dict[str, Any]]:
    """The input files that the operator chose to leave out, and why they could not be used."""
    rows = ledger.connection.execute(
        "SELECT path, failure_class, error, message, hint FROM files WHERE failure_class IS NOT NULL"
    )
    return [dict(zip(("path", "class", "error", "message", "hint"), row, strict=True)) for row in rows]


def differences(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> list[str]:
    """What changed between two nested tables, one readable line a key: ``input.tree: 'Velo' -> 'Hits'``."""
    lines = []
    for key in sorted({*old, *new}):
        name = f"{prefix}{key}"
        before, after = old.get(key), new.get(key)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            lines += differences(before, after, f"{name}.")
        elif before != after:
            lines.append(f"{name}: {_shown(before)} -> {_shown(after)}")
    return lines


def _shown(value: Any) -> str:
    return "(not set)" if value is None else repr(value)
