"""What became of each event in decoding, as codes and in words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from egretta.kernels.batches import BankBatch, Int32
from egretta.kernels.mdf import MALFORMED_EVENT


class DecodeStatus(IntEnum):
    """What became of an event; everything but OK leaves it without hits."""

    OK = 0
    NO_VELO_BANKS = 1
    BAD_SIZE = 2
    BAD_VERSION = 3
    WORD_OUT_OF_RANGE = 4
    SENSOR_OUT_OF_RANGE = 5
    SENSOR_TWICE = 6
    MALFORMED_EVENT = 7

    @property
    def text(self) -> str:
        """The status in words."""
        return _TEXTS[self]


_TEXTS = {
    DecodeStatus.OK: "decoded",
    DecodeStatus.NO_VELO_BANKS: "the event has no VELO bank of the wanted type",
    DecodeStatus.BAD_SIZE: "the bank's size and its count of words disagree",
    DecodeStatus.BAD_VERSION: "the bank has a version that is not known (2, 3 and 4 are)",
    DecodeStatus.WORD_OUT_OF_RANGE: "the bank holds a column beyond the sensor's edge",
    DecodeStatus.SENSOR_OUT_OF_RANGE: "the bank names a sensor that does not exist",
    DecodeStatus.SENSOR_TWICE: "two banks of the event name the same sensor",
    DecodeStatus.MALFORMED_EVENT: "the event's banks do not line up: a bad magic number or size",
}


@dataclass(frozen=True, slots=True)
class DecodeReport:
    """``code`` uint8[n], a DecodeStatus an event; ``bank`` int32[n], the offending bank in it, -1 if none."""

    code: NDArray[np.uint8]
    bank: Int32

    def reason(self, batch: BankBatch, event: int) -> str:
        """Why event number ``event`` of the batch was not decoded, in words."""
        text = DecodeStatus(int(self.code[event])).text
        bank = int(self.bank[event])
        if bank < 0:
            return text
        at = int(batch.bank_offsets[event]) + bank
        if batch.bank_type[at] == MALFORMED_EVENT:
            return text
        return (
            f"{text} (bank {bank} of the event: type {batch.bank_type[at]}, "
            f"version {batch.bank_version[at]}, source {batch.bank_source[at]})"
        )
