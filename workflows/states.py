"""The states of units and of their attempts.

A unit::

    pending ──claimed──▶ running ──manifest taken in──▶ done
       ▲                    │
       ├─ retried, lost ────┤──attempts used up, or not worth another──▶ failed
       │                    └──its input is at fault───────────────────▶ quarantined
       └──────────── egretta retry ── failed, quarantined

``done``, ``failed`` and ``quarantined`` are terminal: only ``egretta retry`` leads out of the last two, and
nothing out of the first. Each event of a unit that is done was processed or is quarantined by itself.
"""

from __future__ import annotations

from enum import StrEnum


class UnitState(StrEnum):
    """What becomes of a unit's events."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    QUARANTINED = "quarantined"


TERMINAL = frozenset({UnitState.DONE, UnitState.FAILED, UnitState.QUARANTINED})


class AttemptState(StrEnum):
    """What became of one attempt.

    ``duplicate``: it finished well, but after another attempt of its unit; its output was removed.
    ``lost``: its runner died and it left no whole output. ``cancelled``: the runner was told to stop.
    Neither of the last two counts against the unit.
    """

    RUNNING = "running"
    DONE = "done"
    DUPLICATE = "duplicate"
    FAILED = "failed"
    LOST = "lost"
    CANCELLED = "cancelled"
