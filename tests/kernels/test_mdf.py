"""MDF events are parsed back as they were encoded, and damage is found where it is."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from egretta.kernels.batches import BankBatch
from egretta.kernels.errors import CodeError, CorruptInputError
from egretta.kernels.mdf import MALFORMED_EVENT, encode_events, parse_events, read_header, words_of

banks = st.tuples(
    st.integers(0, 255),
    st.integers(0, 255),
    st.integers(-(2**15), 2**15 - 1),
    st.lists(st.integers(0, 2**32 - 1), max_size=5),
)


def batch_of(events) -> BankBatch:
    flat = [bank for event in events for bank in event]
    number = np.arange(len(events), dtype=np.int64)
    kind, version, source = (np.array([bank[i] for bank in flat], dtype=np.int32) for i in range(3))
    words = np.array([word for bank in flat for word in bank[3]], dtype=np.uint32)
    word_offsets = np.cumsum([0, *(len(bank[3]) for bank in flat)], dtype=np.int64)
    bank_offsets = np.cumsum([0, *map(len, events)], dtype=np.int64)
    return BankBatch(number, number, bank_offsets, kind, version, source, word_offsets, words)


def event_starts(data: bytes) -> np.ndarray:
    at = [0]
    while at[-1] < len(data):
        at.append(at[-1] + read_header(data[at[-1] : at[-1] + 20]).size)
    return np.array(at, dtype=np.int64) // 4


def assert_same(one: BankBatch, other: BankBatch) -> None:
    for name in BankBatch.__slots__:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@given(st.lists(st.lists(banks, max_size=5), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_banks_come_back(events):
    batch = batch_of(events)
    data = encode_events(batch)
    assert_same(parse_events(words_of(data), event_starts(data), 0), batch)


def test_entries_count_from_the_first():
    data = encode_events(batch_of([[], []]))
    parsed = parse_events(words_of(data), event_starts(data), 7)
    assert parsed.entry.tolist() == parsed.event.tolist() == [7, 8]


def test_a_subheader_and_the_padding_of_a_bank_are_passed_over():
    # a bank of 5 bytes of payload takes two words; three words of subheader lie before it
    bank = struct.pack("<HHBBh", 0xCBCB, 8 + 5, 63, 2, -4) + b"\x01\x02\x03\x04\x05\0\0\0"
    size = 20 + 12 + len(bank)
    head = struct.pack("<IIIIBBBB", size, size, size, 99, 0, 0x33, 1, 0)
    parsed = parse_events(words_of(head + bytes(12) + bank), np.array([0, size // 4]), 0)
    assert read_header(head).banks_at == 32
    assert parsed.bank_source.tolist() == [-4]
    assert parsed.words.tolist() == [0x04030201, 0x05]


@pytest.mark.parametrize(("at", "value", "what"), [(0, 0xCBCC, "magic"), (2, 7, "size"), (2, 60000, "size")])
def test_damage_to_one_event_leaves_the_others(at, value, what):
    batch = batch_of([[(63, 2, 0, [0])], [(63, 2, 1, [0]), (63, 2, 2, [0])], [(73, 3, 3, [0])]])
    data = bytearray(encode_events(batch))
    starts = event_starts(bytes(data))
    second_bank = 4 * int(starts[1]) + 20 + 12
    struct.pack_into("<H", data, second_bank + at, value)
    parsed = parse_events(words_of(data), starts, 0)
    assert parsed.bank_offsets.tolist() == [0, 1, 2, 3]
    assert parsed.bank_type.tolist() == [63, MALFORMED_EVENT, 73]
    assert parsed.words[1] == 20 + 12, f"the place of the bad {what}"


@given(hnp.arrays(np.uint32, st.integers(5, 60)), st.data())
@settings(max_examples=100, deadline=None)
def test_random_words_never_break_the_parser(words, data):
    n = len(words) // 5
    cuts = sorted(data.draw(st.lists(st.integers(0, n - 1), max_size=3, unique=True)))
    event_at = np.array(sorted({0, *(5 * cut for cut in cuts), len(words)}), dtype=np.int64)
    parsed = parse_events(words, event_at, 0)
    assert parsed.n_events == len(event_at) - 1
    assert parsed.word_offsets[-1] == len(parsed.words)


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (bytes(10), "has 20 bytes"),
        (struct.pack("<IIIIBBBB", 20, 24, 20, 0, 0, 0x30, 0, 0), "disagree"),
        (struct.pack("<IIIIBBBB", 20, 20, 20, 0, 1, 0x30, 0, 0), "compressed"),
        (struct.pack("<IIIIBBBB", 20, 20, 20, 0, 0, 0x31, 0, 0), "less than its header"),
        (struct.pack("<IIIIBBBB", 21, 21, 21, 0, 0, 0x30, 0, 0), "no multiple of 4"),
    ],
)
def test_bad_headers_say_why(head, why):
    with pytest.raises(CorruptInputError, match=why):
        read_header(head)


def test_offsets_beyond_the_words_are_refused():
    with pytest.raises(CodeError, match="offsets"):
        parse_events(np.zeros(5, dtype=np.uint32), np.array([0, 6]), 0)


def test_a_bank_too_large_for_the_format_is_refused():
    with pytest.raises(CodeError, match="65535"):
        encode_events(batch_of([[(1, 1, 1, [0] * 16383)]]))
