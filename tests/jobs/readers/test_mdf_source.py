"""MDF files are indexed by their headers and read in any range."""

import struct

import numpy as np
import pytest

from egretta.jobs.readers import mdf, open_source
from egretta.kernels.batches import BankBatch
from egretta.kernels.encoding import encode_retina
from egretta.kernels.errors import CorruptInputError
from egretta.kernels.mdf import MALFORMED_EVENT, encode_events

N_EVENTS = 9


@pytest.fixture
def banks() -> BankBatch:
    random = np.random.default_rng(4)
    offsets = np.cumsum([0, *random.integers(0, 40, N_EVENTS)])
    n = int(offsets[-1])
    pixels = (random.integers(0, end, n) for end in (208, 768, 256))
    return encode_retina(offsets, *pixels, *random.random((2, n)))


@pytest.fixture
def path(tmp_path, banks):
    path = tmp_path / "events.mdf"
    path.write_bytes(encode_events(banks))
    return path


@pytest.mark.parametrize("chunk_bytes", [1, 5000, 10**8])
@pytest.mark.parametrize(("start", "stop"), [(0, N_EVENTS), (2, 7), (8, 9), (3, 3)])
@pytest.mark.parametrize("batch_events", [1, 4, 100])
def test_any_range_comes_back(path, banks, start, stop, batch_events, chunk_bytes, monkeypatch):
    monkeypatch.setattr(mdf, "CHUNK_BYTES", chunk_bytes)
    with open_source(str(path)) as source:
        assert (source.kind, source.tree, source.format, source.n_entries) == ("banks", None, "MDF", N_EVENTS)
        batches = list(source.batches(start, stop, batch_events))
    assert all(1 <= batch.n_events <= batch_events for batch in batches)
    entries = [entry for batch in batches for entry in batch.entry.tolist()]
    assert entries == list(range(start, stop))
    words = np.concatenate([np.zeros(0, np.uint32), *(batch.words for batch in batches)])
    first, last = banks.word_offsets[banks.bank_offsets[[start, stop]]]
    assert np.array_equal(words, banks.words[first:last])


def test_opening_reads_headers_only(path):
    with open_source(str(path)) as source:
        assert source.bytes_read == 20 * N_EVENTS
        list(source.batches(0, N_EVENTS, 2))
        assert source.bytes_read == 20 * N_EVENTS + path.stat().st_size


def test_the_uuid_is_of_the_content_and_not_of_the_place(path, tmp_path):
    uuids = []
    copy, other = tmp_path / "copy.mdf", tmp_path / "other.mdf"
    data = path.read_bytes()
    copy.write_bytes(data)
    # another checksum in a header is another file
    other.write_bytes(data[:12] + b"\x01" + data[13:])
    for each in (path, copy, other):
        with open_source(str(each)) as source:
            uuids.append(source.uuid)
    assert uuids[0] == uuids[1] != uuids[2]


@pytest.mark.parametrize("cut", [4, 15, 21, 2000])
def test_a_truncated_file_is_refused(path, cut):
    data = path.read_bytes()
    path.write_bytes(data[: len(data) - cut])
    with pytest.raises(CorruptInputError, match=rf"event {N_EVENTS - 1} of .*is truncated"):
        open_source(str(path))


def test_a_header_cut_short_is_refused(path):
    path.write_bytes(path.read_bytes() + bytes(7))
    with pytest.raises(CorruptInputError, match=rf"event {N_EVENTS} of .*is truncated"):
        open_source(str(path))


def test_headers_that_do_not_chain_name_the_event(path):
    data = bytearray(path.read_bytes())
    [size] = struct.unpack_from("<I", data)
    struct.pack_into("<I", data, size + 4, 12)
    path.write_bytes(data)
    with pytest.raises(CorruptInputError, match=r"event 1 of .*size words disagree"):
        open_source(str(path))


def test_compressed_events_are_refused_with_a_way_out(path):
    data = bytearray(path.read_bytes())
    data[16] = 3
    path.write_bytes(data)
    with pytest.raises(CorruptInputError, match="compressed") as caught:
        open_source(str(path))
    assert "decompress" in caught.value.hint


def test_a_bad_bank_spoils_its_event_alone(path):
    data = bytearray(path.read_bytes())
    data[20] = 0
    path.write_bytes(data)
    with open_source(str(path)) as source:
        [batch] = source.batches(0, N_EVENTS, N_EVENTS)
    assert batch.bank_type[0] == MALFORMED_EVENT
    assert np.diff(batch.bank_offsets).tolist() == [1] + [208] * (N_EVENTS - 1)


@pytest.mark.shared_data
def test_the_experiments_mdf_holds_the_banks_of_its_root_file(shared_data):
    with open_source(str(shared_data / "velo" / "minbias10.mdf")) as source:
        [raw] = source.batches(0, 10, 10)
    with open_source(str(shared_data / "velo" / "minbias10_raw.root")) as source:
        [reference] = source.batches(0, 10, 10)
    for kind in (63, 73):
        for name in ("bank_version", "bank_source"):
            one, other = (getattr(batch, name)[batch.bank_type == kind] for batch in (raw, reference))
            assert np.array_equal(one, other)
        one, other = (
            batch.words[np.repeat(batch.bank_type == kind, np.diff(batch.word_offsets))]
            for batch in (raw, reference)
        )
        assert np.array_equal(one, other)
