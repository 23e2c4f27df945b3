"""LHCb's raw format MDF, over bytes that are already in memory.

An event: its size in bytes three times (u32), a checksum (u32; 0 or not, it is not looked at), compression
(u8), header type (u8; the low nibble is the number of 32-bit words of the subheader), data type (u8), a
spare byte, the subheader, the banks. A bank: 0xCBCB (u16), its size in bytes with the header (u16), type
(u8), version (u8), source (i16), the payload, padded to 4 bytes. All little endian.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Final

import numpy as np
from numba import njit

from egretta.kernels.batches import BankBatch, Int64, UInt32
from egretta.kernels.errors import CodeError, CorruptInputError

HEADER_BYTES = 20
BANK_MAGIC = 0xCBCB
BANK_HEADER_BYTES = 8
LARGEST_BANK_BYTES = 0xFFFF
# The type of the bank that stands for an event whose banks do not line up; real types are 0 to 255.
MALFORMED_EVENT: Final = -1


@dataclass(frozen=True, slots=True)
class EventHeader:
    """The head of an event: its size in bytes, and where its banks begin."""

    size: int
    banks_at: int


def read_header(data: bytes) -> EventHeader:
    """The header out of an event's first 20 bytes.

    Raises CorruptInputError for what is no header, or the header of a compressed event; the message says
    what is wrong, and the caller adds the file.
    """
    if len(data) < HEADER_BYTES:
        raise CorruptInputError(f"an MDF event's header has {HEADER_BYTES} bytes, not {len(data)}")
    sizes = {int.from_bytes(data[at : at + 4], "little") for at in (0, 4, 8)}
    if len(sizes) != 1:
        raise CorruptInputError(f"its three size words disagree: {sorted(sizes)}")
    size = sizes.pop()
    compression, header_type = data[16], data[17]
    if compression:
        raise CorruptInputError(
            f"the event is compressed (type {compression}), which is not supported",
            hint="decompress the file with LHCb's tools first",
        )
    banks_at = HEADER_BYTES + 4 * (header_type & 0xF)
    if size < banks_at or size % 4:
        raise CorruptInputError(f"its size, {size} bytes, is less than its header's or no multiple of 4")
    return EventHeader(size, banks_at)


def parse_events(words: UInt32, event_at: Int64, first_entry: int) -> BankBatch:
    """Banks of whole events that lie one after another.

    ``words`` are the events as uint32; event ``e`` is ``words[event_at[e]:event_at[e + 1]]`` (int64, n + 1),
    its header read and found good by `read_header`. MDF headers do not count events: ``event`` is the entry
    in the file. An event in which a bank's magic or size is wrong comes out as one bank of type
    MALFORMED_EVENT, whose word is the place of the bad bank in bytes from the event's start.
    """
    n = len(event_at) - 1
    if n < 0 or event_at[0] < 0 or event_at[-1] > len(words) or np.any(np.diff(event_at) < HEADER_BYTES // 4):
        raise CodeError("cannot parse MDF events: the offsets do not fit the words")
    bank_offsets = np.zeros(n + 1, dtype=np.int64)
    bad_at = np.full(n, -1, dtype=np.int64)
    n_words = _count_banks(words, event_at, bank_offsets, bad_at)
    n_banks = int(bank_offsets[-1])
    bank_type, bank_version, bank_source = (np.empty(n_banks, dtype=np.int32) for _ in range(3))
    word_offsets = np.zeros(n_banks + 1, dtype=np.int64)
    payload = np.empty(n_words, dtype=np.uint32)
    _fill_banks(words, event_at, bad_at, bank_type, bank_version, bank_source, word_offsets, payload)
    entry = np.arange(first_entry, first_entry + n, dtype=np.int64)
    return BankBatch(entry, entry, bank_offsets, bank_type, bank_version, bank_source, word_offsets, payload)


@njit(cache=True, nogil=True)
def _first_bank(words, start):  # type: ignore[no-untyped-def]
    return start + HEADER_BYTES // 4 + ((np.int64(words[start + 4]) >> 8) & 0xF)


@njit(cache=True, nogil=True)
def _next_bank(words, at, stop):  # type: ignore[no-untyped-def]
    """Where the bank behind the one at ``at`` begins, or -1 if the one at ``at`` is bad."""
    if at + 2 > stop:
        return -1
    head = np.int64(words[at])
    size = head >> 16
    behind = at + (size + 3) // 4
    if (head & 0xFFFF) != BANK_MAGIC or size < BANK_HEADER_BYTES or behind > stop:
        return -1
    return behind


@njit(cache=True, nogil=True)
def _count_banks(words, event_at, bank_offsets, bad_at):  # type: ignore[no-untyped-def]
    n_words = 0
    for event in range(len(event_at) - 1):
        start = event_at[event]
        at = _first_bank(words, start)
        stop = event_at[event + 1]
        n_banks = 0
        n_event = 0
        while at < stop:
            behind = _next_bank(words, at, stop)
            if behind < 0:
                bad_at[event] = 4 * (at - start)
                n_banks = 1
                n_event = 1
                break
            n_banks += 1
            n_event += behind - at - 2
            at = behind
        bank_offsets[event + 1] = bank_offsets[event] + n_banks
        n_words += n_event
    return n_words


@njit(cache=True, nogil=True)
def _fill_banks(words, event_at, bad_at, bank_type, bank_version, bank_source, word_offsets, payload):  # type: ignore[no-untyped-def]
    bank = 0
    to = 0
    for event in range(len(event_at) - 1):
        if bad_at[event] >= 0:
            bank_type[bank] = MALFORMED_EVENT
            bank_version[bank] = 0
            bank_source[bank] = 0
            payload[to] = np.uint32(bad_at[event])
            to += 1
            bank += 1
            word_offsets[bank] = to
            continue
        at = _first_bank(words, event_at[event])
        stop = event_at[event + 1]
        while at < stop:
            behind = _next_bank(words, at, stop)
            head = np.int64(words[at + 1])
            bank_type[bank] = head & 0xFF
            bank_version[bank] = (head >> 8) & 0xFF
            source = (head >> 16) & 0xFFFF
            bank_source[bank] = source - 0x10000 if source >= 0x8000 else source
            for word in range(at + 2, behind):
                payload[to] = words[word]
                to += 1
            at = behind
            bank += 1
            word_offsets[bank] = to


def encode_events(batch: BankBatch) -> bytes:
    """A batch of banks as an MDF file's bytes: no subheader, checksum 0, not compressed.

    Event numbers are lost, as the format has no place for them. Raises CodeError for a bank over 65,535
    bytes.
    """
    n_words = np.diff(batch.word_offsets)
    bank_bytes = BANK_HEADER_BYTES + 4 * n_words
    if np.any(bank_bytes > LARGEST_BANK_BYTES):
        raise CodeError(
            f"cannot write MDF: a bank has {bank_bytes.max()} bytes of {LARGEST_BANK_BYTES} at most"
        )
    per_event = np.diff(batch.bank_offsets)
    header_words = HEADER_BYTES // 4
    event_of_bank = np.repeat(np.arange(batch.n_events), per_event)
    banks_before = np.arange(len(n_words))
    # a bank lies behind the headers of its event and those before, of the banks before, and their words
    bank_at = header_words * (event_of_bank + 1) + 2 * banks_before + batch.word_offsets[:-1]
    event_at = (
        header_words * np.arange(batch.n_events + 1)
        + 2 * batch.bank_offsets
        + batch.word_offsets[batch.bank_offsets]
    )
    out = np.zeros(int(event_at[-1]), dtype="<u4")
    size = 4 * np.diff(event_at)
    for copy in range(3):
        out[event_at[:-1] + copy] = size
    # byte 1 of the fifth word: header type 3, no words of a subheader in its low nibble
    out[event_at[:-1] + 4] = 0x3000
    out[bank_at] = BANK_MAGIC | (bank_bytes << 16)
    kind, version, source = (
        array.astype(np.int64) for array in (batch.bank_type, batch.bank_version, batch.bank_source)
    )
    out[bank_at + 1] = (kind & 0xFF) | ((version & 0xFF) << 8) | ((source & 0xFFFF) << 16)
    bank_of_word = np.repeat(banks_before, n_words)
    out[np.arange(len(batch.words)) - batch.word_offsets[bank_of_word] + bank_at[bank_of_word] + 2] = (
        batch.words
    )
    return out.tobytes()


def words_of(data: bytes | bytearray | memoryview) -> UInt32:
    """Bytes as uint32, without a copy where the machine is little endian."""
    words = np.frombuffer(data, dtype="<u4")
    return words if sys.byteorder == "little" else words.astype(np.uint32)
