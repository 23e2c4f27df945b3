import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from egretta.kernels.errors import CorruptInputError
from egretta.workflows.validation.pairing import Pairing


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def located(pairing: Pairing, event: list[int], entry: list[int]) -> list[tuple[int, int]]:
    file, at = pairing.locate(ints(*event), ints(*entry))
    return list(zip(file.tolist(), at.tolist(), strict=True))


def test_unlike_event_numbers_find_their_file_in_any_order() -> None:
    pairing = Pairing([ints(7, 8), ints(70, 80)])
    assert located(pairing, [80, 7], [1, 0]) == [(1, 1), (0, 0)]
    assert located(pairing, [8, 70], [1, 0]) == [(0, 1), (1, 0)]
    assert pairing.finish() == 0


def test_files_that_number_their_events_alike_are_taken_in_order() -> None:
    pairing = Pairing([ints(0, 1), ints(0, 1, 2)])
    assert located(pairing, [0, 1], [0, 1]) == [(0, 0), (0, 1)]
    assert located(pairing, [0, 1, 2], [0, 1, 2]) == [(1, 0), (1, 1), (1, 2)]
    assert pairing.finish() == 0


@pytest.mark.parametrize(("event", "entry"), [(5, 0), (0, 1), (2**40, 0), (0, -1), (1, 99)])
def test_events_without_truth_are_named(event: int, entry: int) -> None:
    with pytest.raises(CorruptInputError, match=rf"no truth for 1 events .*{event} \(entry {entry}\)"):
        located(Pairing([ints(0, 1)]), [0, event], [0, entry])


def test_without_any_truth_every_event_is_named() -> None:
    with pytest.raises(CorruptInputError, match="no truth for 1 events"):
        located(Pairing([ints()]), [0], [0])


@pytest.mark.parametrize("before", [0, 1])
def test_an_event_that_comes_twice_is_named_within_a_batch_or_across_two(before: int) -> None:
    pairing = Pairing([ints(3, 4)])
    located(pairing, [3] * before, [0] * before)
    again = [3] * (2 - before)
    with pytest.raises(CorruptInputError, match=r"1 events more often than truth does.* 3 \(entry 0\)"):
        located(pairing, again, [0] * len(again))


def test_missing_events_are_named_unless_allowed() -> None:
    pairing = Pairing([ints(*range(10))])
    located(pairing, [0, 1], [0, 1])
    with pytest.raises(CorruptInputError, match=r"lack 8 events .* 2 \(entry 2\).* and 3 more"):
        pairing.finish()
    assert pairing.finish(allow_missing=True) == 8


def test_a_file_too_many_that_numbers_its_events_alike_is_refused_even_when_missing_is_allowed() -> None:
    pairing = Pairing([ints(0), ints(0)])
    located(pairing, [0], [0])
    with pytest.raises(CorruptInputError, match="in several truth files"):
        pairing.finish(allow_missing=True)


@given(st.lists(st.lists(st.integers(0, 3), max_size=6), min_size=1, max_size=4), st.randoms())
def test_every_event_of_truth_is_handed_out_once(numbers: list[list[int]], random: object) -> None:
    pairing = Pairing([ints(*file) for file in numbers])
    asked = [(event, entry) for file in numbers for entry, event in enumerate(file)]
    random.shuffle(asked)  # type: ignore[attr-defined]
    cut = len(asked) // 2
    found = []
    for part in (asked[:cut], asked[cut:]):
        found += located(pairing, [event for event, _ in part], [entry for _, entry in part])
    assert sorted(found) == [(f, e) for f, file in enumerate(numbers) for e in range(len(file))]
    assert pairing.finish() == 0
