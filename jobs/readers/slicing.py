"""Ranges of events out of a batch, as views."""

from __future__ import annotations

from egretta.kernels.batches import BankBatch, HitBatch


def slice_batch(batch: HitBatch | BankBatch, first: int, last: int) -> HitBatch | BankBatch:
    """Events [first, last) of a batch; the flat arrays are views, the offsets are new."""
    return slice_hits(batch, first, last) if isinstance(batch, HitBatch) else slice_banks(batch, first, last)


def slice_hits(batch: HitBatch, first: int, last: int) -> HitBatch:
    """Events [first, last) of a batch of hits."""
    offsets = batch.offsets[first : last + 1]
    hits = slice(int(offsets[0]), int(offsets[-1]))
    return HitBatch(
        batch.entry[first:last],
        batch.event[first:last],
        offsets - offsets[0],
        batch.x[hits],
        batch.y[hits],
        batch.z[hits],
        batch.module[hits],
        batch.lhcb_id[hits],
    )


def slice_banks(batch: BankBatch, first: int, last: int) -> BankBatch:
    """Events [first, last) of a batch of banks."""
    offsets = batch.bank_offsets[first : last + 1]
    banks = slice(int(offsets[0]), int(offsets[-1]))
    word_offsets = batch.word_offsets[banks.start : banks.stop + 1]
    return BankBatch(
        batch.entry[first:last],
        batch.event[first:last],
        offsets - offsets[0],
        batch.bank_type[banks],
        batch.bank_version[banks],
        batch.bank_source[banks],
        word_offsets - word_offsets[0],
        batch.words[int(word_offsets[0]) : int(word_offsets[-1])],
    )
