"""From files to units: half-open ranges of entries that cover each file once, without a gap. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

# A job takes some seconds to start; a unit of less work than this would mostly start.
MIN_UNIT_WALL_S = 15.0
# With a few units a worker, no worker waits long for the last one of another.
UNITS_PER_WORKER = 4


@dataclass(frozen=True, slots=True)
class Range:
    """Entries ``[start, stop)`` of the file at ``file_index`` of the dataset."""

    file_index: int
    start: int
    stop: int


def entries_for_time(total_events: int, workers: int, target_wall_s: float, events_per_s: float) -> int:
    """Entries of a unit that should take ``target_wall_s``, fewer where workers would be left without work.

    Aims at four units a worker, but at no unit of less than 15 s of work unless a worker would get none.
    """
    by_time = math.floor(target_wall_s * events_per_s)
    balanced = math.ceil(total_events / (workers * UNITS_PER_WORKER))
    one_each = math.ceil(total_events / workers)
    worth_starting = math.floor(MIN_UNIT_WALL_S * events_per_s)
    return max(1, min(by_time, max(balanced, min(one_each, worth_starting))))


def limit_entries(entries: Sequence[int], max_events: int | None) -> list[int]:
    """Entries to use of each file so that they sum to at most ``max_events``, the first files first."""
    if max_events is None:
        return list(entries)
    used = []
    left = max_events
    for count in entries:
        used.append(min(count, left))
        left -= used[-1]
    return used


def split(entries: Sequence[int], entries_per_unit: int | None) -> Iterator[Range]:
    """Cut each file into ranges of at most ``entries_per_unit`` (None: whole files), in order.

    A file of 0 entries gives one empty range, so that its processing (a success with 0 events) is on record.
    """
    if entries_per_unit is not None and entries_per_unit < 1:
        raise ValueError(f"entries_per_unit must be at least 1, not {entries_per_unit}")
    for index, count in enumerate(entries):
        step = entries_per_unit or max(count, 1)
        for start in range(0, max(count, 1), step):
            yield Range(index, start, min(start + step, count))
