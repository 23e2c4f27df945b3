"""Events whose hits cannot be used are found, and only those."""

import numpy as np
import pytest

from egretta.kernels.batches import HitBatch
from egretta.kernels.checks import HitStatus, check_hits, without_events


def batch_of(modules, **changes):
    flat = np.array([m for event in modules for m in event], dtype=np.int32)
    offsets = np.cumsum([0, *map(len, modules)], dtype=np.int64)
    number = np.arange(len(modules), dtype=np.int64)
    x, y, z = (np.full(len(flat), value, dtype=np.float32) for value in (1, 2, 3))
    for name, (at, value) in changes.items():
        {"x": x, "y": y, "z": z}[name][at] = value
    return HitBatch(number, number, offsets, x, y, z, flat, np.zeros(len(flat), dtype=np.uint32))


def test_good_events_pass_also_empty_ones_and_those_of_one_hit():
    report = check_hits(batch_of([[], [3, 3, 51], [0], [], [0, 1], []]))
    assert report.code.tolist() == [0] * 6
    assert report.hit.tolist() == [-1] * 6


def test_a_batch_without_events_or_hits_passes():
    assert len(check_hits(batch_of([])).code) == 0
    assert check_hits(batch_of([[], []])).code.tolist() == [0, 0]


@pytest.mark.parametrize("name", ["x", "y", "z"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_position_that_is_no_number_condemns_its_event_alone(name, value):
    report = check_hits(batch_of([[1, 2], [1, 2, 3], [0]], **{name: (3, value)}))
    assert report.code.tolist() == [HitStatus.OK, HitStatus.NOT_FINITE, HitStatus.OK]
    assert report.hit.tolist() == [-1, 1, -1]
    assert "hit 1" in report.reason(1)


@pytest.mark.parametrize("module", [-1, 52, 2**31 - 1])
def test_a_module_that_does_not_exist_is_named_before_its_order(module):
    report = check_hits(batch_of([[0, 1], [5, module, 6]]))
    assert report.code.tolist() == [HitStatus.OK, HitStatus.MODULE_OUT_OF_RANGE]
    assert report.hit[1] == 1


def test_modules_out_of_order_are_found_within_events_only():
    report = check_hits(batch_of([[40, 50], [0, 3, 2, 1], [], [0]]))
    assert report.code.tolist() == [0, HitStatus.MODULES_NOT_ASCENDING, 0, 0]
    assert report.hit[1] == 2


def test_events_taken_out_stay_as_empty_ones():
    batch = batch_of([[1, 2], [3], [4, 5, 6]])
    rest = without_events(batch, np.array([False, True, False]))
    assert rest.n_events == 3
    assert rest.offsets.tolist() == [0, 2, 2, 5]
    assert rest.module.tolist() == [1, 2, 4, 5, 6]
    assert without_events(batch, np.zeros(3, dtype=np.bool_)) is batch
