import pytest
from hypothesis import given
from hypothesis import strategies as st

from egretta.workflows.splitting import entries_for_time, limit_entries, split

counts = st.lists(st.integers(0, 500), max_size=20)


@given(counts, st.none() | st.integers(1, 600))
def test_ranges_cover_every_entry_of_every_file_once_and_in_order(entries, size):
    ranges = list(split(entries, size))
    for index, count in enumerate(entries):
        own = [r for r in ranges if r.file_index == index]
        covered = [entry for r in own for entry in range(r.start, r.stop)]
        assert covered == list(range(count))
        assert all(r.stop - r.start <= (size or count) for r in own)
        assert own, "an empty file has a unit too, so that its processing is on record"
    assert [r.file_index for r in ranges] == sorted(r.file_index for r in ranges)


def test_a_unit_of_no_entries_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        list(split([3], 0))


@given(counts, st.none() | st.integers(1, 5000))
def test_the_limit_takes_the_first_events(entries, limit):
    used = limit_entries(entries, limit)
    assert all(0 <= u <= e for u, e in zip(used, entries, strict=True))
    assert sum(used) == (sum(entries) if limit is None else min(limit, sum(entries)))
    short = [i for i, (u, e) in enumerate(zip(used, entries, strict=True)) if u < e]
    assert all(used[i] == 0 for i in short[1:])


@given(st.integers(0, 10**7), st.integers(1, 200), st.floats(1, 1e5), st.floats(0.01, 1e4))
def test_units_by_time_never_exceed_the_target_and_leave_no_worker_idle(total, workers, wall_s, rate):
    size = entries_for_time(total, workers, wall_s, rate)
    assert size >= 1
    assert size <= max(1, wall_s * rate)
    if total >= workers:
        assert -(-total // size) > workers / 2


def test_a_small_campaign_keeps_each_worker_busy_once_rather_than_starting_tiny_jobs():
    assert entries_for_time(150, workers=2, target_wall_s=1800, events_per_s=100) == 75
    assert entries_for_time(100_000, workers=2, target_wall_s=1800, events_per_s=100) == 12_500
    assert entries_for_time(10**8, workers=2, target_wall_s=1800, events_per_s=100) == 180_000
