"""Raw banks decode to the experiment's own hits; bad banks condemn their event and no other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from egretta.jobs.readers import open_source
from egretta.kernels.batches import BankBatch
from egretta.kernels.decode_report import DecodeStatus
from egretta.kernels.decoding import VP_RETINA_CLUSTER, VP_SUPERPIXEL, decode_banks
from egretta.kernels.encoding import encode_retina
from egretta.kernels.errors import CodeError
from egretta.kernels.geometry import VeloGeometry
from egretta.kernels.mdf import MALFORMED_EVENT

GEOMETRY = VeloGeometry.nominal()


def batch_of(*events) -> BankBatch:
    """A batch out of events, each a list of (type, version, source, words)."""
    flat = [bank for event in events for bank in event]
    number = np.arange(len(events), dtype=np.int64)
    return BankBatch(
        number,
        number + 100,
        np.cumsum([0, *map(len, events)], dtype=np.int64),
        *(np.array([bank[i] for bank in flat], dtype=np.int32) for i in range(3)),
        np.cumsum([0, *(len(bank[3]) for bank in flat)], dtype=np.int64),
        np.array([word for bank in flat for word in bank[3]], dtype=np.uint32),
    )


def retina(column, row):
    return column << 12 | row << 2


def superpixel(column, row, mask=1):
    return column << 14 | row << 8 | mask


RETINA = (VP_RETINA_CLUSTER, 3, 10, [1, retina(5, 6)])
PIXELS = (VP_SUPERPIXEL, 2, 20, [2, superpixel(5, 6), superpixel(50, 6)])


def test_auto_takes_retina_banks_where_an_event_has_them():
    batch = batch_of([PIXELS, RETINA], [PIXELS], [RETINA])
    hits, report = decode_banks(batch, GEOMETRY, "auto")
    assert report.code.tolist() == [0, 0, 0]
    assert np.diff(hits.offsets).tolist() == [1, 2, 1]
    assert hits.event.tolist() == [100, 101, 102]
    assert np.diff(decode_banks(batch, GEOMETRY, "superpixel")[0].offsets).tolist() == [2, 2, 0]
    assert decode_banks(batch, GEOMETRY, "retina")[1].code.tolist() == [0, DecodeStatus.NO_VELO_BANKS, 0]


def test_a_batch_of_nothing_decodes_to_nothing():
    hits, report = decode_banks(batch_of(), GEOMETRY)
    assert hits.n_events == hits.n_hits == len(report.code) == 0


def test_hits_come_in_order_of_module_and_within_it_of_banks():
    banks = [(VP_RETINA_CLUSTER, 3, s, [2, retina(9, s), retina(3, s)]) for s in (207, 2, 5, 0)]
    hits, _ = decode_banks(batch_of(banks), GEOMETRY)
    assert hits.module.tolist() == [0, 0, 0, 0, 1, 1, 51, 51]
    assert (hits.lhcb_id & 0xFF).tolist() == [2, 2, 0, 0, 5, 5, 207, 207]
    assert ((hits.lhcb_id >> 8) & 0xFF).tolist() == [9, 3] * 4


def test_other_banks_zero_words_and_higher_bits_are_passed_over():
    noisy = (VP_RETINA_CLUSTER, 3, 10, [2, 0, 0xFFC00000 | retina(5, 6)])
    hits, report = decode_banks(batch_of([(16, 7, 1, [1, 2, 3]), noisy, (9, 99, -1, [])]), GEOMETRY)
    clean, _ = decode_banks(batch_of([RETINA]), GEOMETRY)
    assert report.code.tolist() == [0]
    assert hits.lhcb_id.tolist() == clean.lhcb_id.tolist()


@pytest.mark.parametrize(
    ("bank", "status"),
    [
        ((73, 3, 11, []), DecodeStatus.BAD_SIZE),
        ((73, 3, 11, [2, 5]), DecodeStatus.BAD_SIZE),
        ((63, 2, 11, [0, 5]), DecodeStatus.BAD_SIZE),
        ((73, 3, 11, [2**32 - 1, 5]), DecodeStatus.BAD_SIZE),
        ((73, 1, 11, [0]), DecodeStatus.BAD_VERSION),
        ((63, 5, 11, [0]), DecodeStatus.BAD_VERSION),
        ((73, 3, 11, [1, retina(768, 0)]), DecodeStatus.WORD_OUT_OF_RANGE),
        ((73, 2, 11, [1, 768 << 14]), DecodeStatus.WORD_OUT_OF_RANGE),
        ((63, 2, 11, [2, superpixel(3, 3), superpixel(384, 3)]), DecodeStatus.WORD_OUT_OF_RANGE),
        ((73, 3, 208, [0]), DecodeStatus.SENSOR_OUT_OF_RANGE),
        ((63, 2, -1, [0]), DecodeStatus.SENSOR_OUT_OF_RANGE),
        ((73, 4, 104, []), DecodeStatus.SENSOR_OUT_OF_RANGE),
        ((73, 3, 10, [0]), DecodeStatus.SENSOR_TWICE),
        ((63, 3, 10, [0]), DecodeStatus.SENSOR_TWICE),
        ((73, 4, 5, []), DecodeStatus.SENSOR_TWICE),
        ((MALFORMED_EVENT, 0, 0, [12]), DecodeStatus.MALFORMED_EVENT),
    ],
)
def test_a_bad_bank_condemns_its_event_and_no_other(bank, status):
    source = "superpixel" if bank[0] == VP_SUPERPIXEL else "retina"
    kind = VP_SUPERPIXEL if source == "superpixel" else VP_RETINA_CLUSTER
    word = superpixel(5, 6) if source == "superpixel" else retina(5, 6)
    good = (kind, 3, 10, [1, word])
    batch = batch_of([good], [good, bank], [good])
    hits, report = decode_banks(batch, GEOMETRY, source)
    assert report.code.tolist() == [0, status, 0]
    assert report.bank.tolist() == [-1, 1, -1]
    assert hits.offsets.tolist() == [0, 1, 1, 2]
    assert DecodeStatus(status).text in report.reason(batch, 1)


def test_an_event_without_velo_banks_is_told_from_one_without_hits():
    batch = batch_of([(16, 7, 1, [1])], [], [(73, 3, 0, [0])])
    _, report = decode_banks(batch, GEOMETRY)
    assert report.code.tolist() == [DecodeStatus.NO_VELO_BANKS, DecodeStatus.NO_VELO_BANKS, 0]


@pytest.mark.parametrize("n", [1, 100_000])
def test_events_of_one_and_of_very_many_hits_decode(n):
    random = np.random.default_rng(1)
    sensor, column, row = (random.integers(0, end, n) for end in (208, 768, 256))
    fractions = random.random((2, n))
    banks = encode_retina(np.array([0, n]), sensor, column, row, *fractions)
    hits, report = decode_banks(banks, GEOMETRY)
    assert report.code.tolist() == [0]
    assert hits.n_hits == n
    assert np.all(np.diff(hits.module) >= 0)


def test_a_no_neighbour_flag_that_lies_does_not_split_a_cluster():
    # the pixels at (1, 3) and (2, 4) touch across the corner of their super-pixels
    words = [superpixel(0, 0, 1 << 7), superpixel(1, 1, 1 << 0)]
    told = [word | 1 << 31 for word in words]
    hits = [decode_banks(batch_of([(VP_SUPERPIXEL, 2, 20, [2, *w])]), GEOMETRY)[0] for w in (words, told)]
    assert hits[0].n_hits == 1
    assert hits[1].lhcb_id.tolist() == hits[0].lhcb_id.tolist()


def test_the_same_superpixel_twice_is_the_union_of_its_pixels():
    one = (VP_SUPERPIXEL, 2, 20, [1, superpixel(5, 6, 0b11)])
    two = (VP_SUPERPIXEL, 2, 20, [3, superpixel(5, 6, 0b01), superpixel(5, 6, 0b10), superpixel(7, 7, 0)])
    hits = [decode_banks(batch_of([bank]), GEOMETRY)[0] for bank in (one, two)]
    assert hits[0].lhcb_id.tolist() == hits[1].lhcb_id.tolist()


random_banks = st.tuples(
    st.sampled_from([63, 73, 73, 63, 16]),
    st.sampled_from([2, 3, 4, 4, 2, 3, 1]),
    st.integers(-3, 210),
    hnp.arrays(np.uint32, st.integers(0, 6)).map(list),
    st.booleans(),
)


@given(
    st.lists(st.lists(random_banks, max_size=5), max_size=5),
    st.sampled_from(["auto", "retina", "superpixel"]),
)
@settings(max_examples=200, deadline=None)
def test_random_banks_always_get_a_status(events, source):
    # half of the banks get a true count, so that their words are looked at
    events = [
        [(*bank[:3], [len(bank[3]), *bank[3]] if bank[4] and bank[1] < 4 else bank[3]) for bank in event]
        for event in events
    ]
    batch = batch_of(*events)
    hits, report = decode_banks(batch, GEOMETRY, source)
    n_hits = np.diff(hits.offsets)
    assert set(report.code.tolist()) <= set(DecodeStatus)
    assert not n_hits[report.code != 0].any()
    assert np.all((report.bank >= 0) == (report.code > DecodeStatus.NO_VELO_BANKS))
    assert np.all((hits.module >= 0) & (hits.module < 52))
    assert np.all(np.isfinite(hits.x + hits.y + hits.z))
    for event in range(hits.n_events):
        assert report.reason(batch, event)
        assert np.all(np.diff(hits.module[hits.offsets[event] : hits.offsets[event + 1]]) >= 0)


def test_offsets_that_do_not_fit_are_refused():
    batch = batch_of([RETINA])
    broken = BankBatch(
        batch.entry,
        batch.event,
        batch.bank_offsets,
        batch.bank_type,
        batch.bank_version,
        batch.bank_source,
        batch.word_offsets + np.array([0, 1]),
        batch.words,
    )
    with pytest.raises(CodeError, match="offsets"):
        decode_banks(broken, GEOMETRY)


@pytest.mark.shared_data
def test_retina_banks_reproduce_the_experiments_hits(shared_data):
    with open_source(str(shared_data / "velo" / "minbias10_raw.root")) as source:
        [banks] = source.batches(0, 10, 10)
    with open_source(str(shared_data / "velo" / "minbias10_hits.root")) as source:
        [reference] = source.batches(0, 10, 10)
    hits, report = decode_banks(banks, GEOMETRY, "retina")
    assert not report.code.any()
    assert np.array_equal(hits.offsets, reference.offsets)
    assert np.array_equal(hits.module, reference.module)
    for name in "xyz":
        np.testing.assert_allclose(getattr(hits, name), getattr(reference, name), atol=1e-3)


@pytest.mark.shared_data
def test_superpixels_agree_with_most_retina_clusters(shared_data):
    from scipy.spatial import cKDTree

    with open_source(str(shared_data / "velo" / "minbias10_raw.root")) as source:
        [banks] = source.batches(0, 10, 10)
    retina_hits, _ = decode_banks(banks, GEOMETRY, "retina")
    pixel_hits, report = decode_banks(banks, GEOMETRY, "superpixel")
    assert not report.code.any()
    for event in range(10):
        points = []
        for hits in (retina_hits, pixel_hits):
            here = slice(*hits.offsets[event : event + 2])
            points.append(np.stack([hits.x[here], hits.y[here], hits.z[here]], axis=1))
        distance, _ = cKDTree(points[1]).query(points[0])
        assert np.median(distance) < 1e-3
        assert 0.90 <= np.mean(distance < 0.055 / 2) <= 0.99
