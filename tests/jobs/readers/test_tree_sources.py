"""Hits and raw banks come out of TTrees and RNTuples as they were written, batch by batch."""

import tracemalloc

import awkward as ak
import numpy as np
import pytest
import uproot

from egretta.jobs.readers import open_source
from egretta.jobs.readers.columns import TTreeColumns, plan_chunks
from egretta.kernels.batches import BankBatch, HitBatch
from egretta.kernels.checks import HitStatus, check_hits
from egretta.kernels.encoding import encode_retina
from egretta.kernels.errors import CorruptInputError, MissingInputError, UsageError

COUNTS = [3, 0, 1, 7, 0, 2, 5, 4, 0, 1]


def hit_columns(counts=COUNTS, seed=0):
    random = np.random.default_rng(seed)
    n = int(np.sum(counts))
    x, y, z = random.normal(size=(3, n)) * 20
    columns = {"x": x, "y": y, "z": z, "module": np.sort(random.integers(0, 52, n))}
    return {key: ak.unflatten(values, counts) for key, values in columns.items()}


def write_ttree(path, hits, *, numbers=None, per_basket=4, tree="Velo"):
    numbers = np.arange(len(hits["x"])) + 50 if numbers is None else numbers
    with uproot.recreate(path) as file:
        data = {"event": numbers.astype(np.int64), "hit": ak.zip(hits)}
        out = file.mktree(tree, {"event": "int64", "hit": data["hit"].type.content})
        for first in range(0, len(numbers), per_basket):
            out.extend({key: values[first : first + per_basket] for key, values in data.items()})


def write_rntuple(path, hits, *, numbers=None, per_cluster=4, flat=True):
    numbers = np.arange(len(hits["x"])) + 50 if numbers is None else numbers
    data = {"event": numbers.astype(np.int64)}
    data |= {f"hit_{key}": values for key, values in hits.items()} if flat else {"hit": ak.zip(hits)}
    with uproot.recreate(path) as file:
        out = file.mkrntuple("Velo", {key: values[:per_cluster] for key, values in data.items()})
        for first in range(per_cluster, len(numbers), per_cluster):
            out.extend({key: values[first : first + per_cluster] for key, values in data.items()})


WRITERS = {
    "TTree": write_ttree,
    "RNTuple flat": write_rntuple,
    "RNTuple collection": lambda path, hits: write_rntuple(path, hits, flat=False),
}


def joined(batches) -> dict[str, np.ndarray]:
    batches = list(batches)
    assert all(isinstance(batch, HitBatch) for batch in batches)
    out = {
        name: np.concatenate([getattr(batch, name) for batch in batches])
        for name in ("entry", "event", "x", "y", "z", "module", "lhcb_id")
    }
    out["counts"] = np.concatenate([np.diff(batch.offsets) for batch in batches])
    return out


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize(("start", "stop"), [(0, 10), (0, 3), (3, 9), (9, 10), (4, 4)])
@pytest.mark.parametrize("batch_events", [1, 3, 100])
def test_any_range_in_batches_of_any_size_holds_the_events_as_written(
    tmp_path, writer, start, stop, batch_events
):
    hits = hit_columns()
    WRITERS[writer](tmp_path / "hits.root", hits)
    with open_source(str(tmp_path / "hits.root")) as source:
        assert (source.kind, source.tree, source.n_entries) == ("hits", "Velo", 10)
        assert source.format == writer.split()[0]
        batches = list(source.batches(start, stop, batch_events))
    assert all(1 <= batch.n_events <= batch_events for batch in batches)
    if start == stop:
        assert batches == []
        return
    got = joined(batches)
    assert got["entry"].tolist() == list(range(start, stop))
    assert got["event"].tolist() == list(range(50 + start, 50 + stop))
    assert got["counts"].tolist() == COUNTS[start:stop]
    for key, dtype in (("x", np.float32), ("y", np.float32), ("z", np.float32), ("module", np.int32)):
        assert got[key].dtype == dtype
        assert np.array_equal(got[key], ak.to_numpy(ak.flatten(hits[key][start:stop])).astype(dtype))
    assert not got["lhcb_id"].any()


def test_lhcb_ids_are_read_where_the_file_holds_them(tmp_path):
    ids = np.arange(int(np.sum(COUNTS)), dtype=np.uint32) + np.uint32(0xA0000000)
    write_ttree(tmp_path / "hits.root", hit_columns() | {"lhcb_id": ak.unflatten(ids, COUNTS)})
    with open_source(str(tmp_path / "hits.root")) as source:
        assert np.array_equal(joined(source.batches(0, 10, 4))["lhcb_id"], ids)


def test_a_tree_of_no_entries_is_no_error(tmp_path):
    with uproot.recreate(tmp_path / "empty.root") as file:
        file.mktree("Velo", {"event": "int64", "hit": ak.zip(hit_columns()).type.content})
    with open_source(str(tmp_path / "empty.root")) as source:
        assert source.n_entries == 0
        assert list(source.batches(0, 0, 10)) == []


def test_events_of_very_many_hits_are_read(tmp_path):
    write_ttree(tmp_path / "hits.root", hit_columns([1, 100_000, 0]))
    with open_source(str(tmp_path / "hits.root")) as source:
        assert joined(source.batches(0, 3, 2))["counts"].tolist() == [1, 100_000, 0]


def test_a_file_keeps_its_uuid_and_another_has_its_own(tmp_path):
    uuids = []
    for name in ("a.root", "b.root", "a.root"):
        if not (tmp_path / name).exists():
            write_ttree(tmp_path / name, hit_columns())
        with open_source(str(tmp_path / name)) as source:
            uuids.append(source.uuid)
    assert uuids[0] == uuids[2] != uuids[1]


def test_raw_banks_come_back(tmp_path):
    banks = encode_retina(
        np.array([0, 2, 2, 3]), [0, 7, 207], [5, 700, 0], [1, 2, 3], [0, 0.5, 0], [0, 0, 0.25]
    )
    write_banks(tmp_path / "raw.root", banks)
    with open_source(str(tmp_path / "raw.root")) as source:
        assert (source.kind, source.tree) == ("banks", "RawEvent")
        [first, second] = source.batches(0, 3, 2)
        [whole] = source.batches(0, 3, 3)
    assert (first.n_events, second.n_events) in {(1, 2), (2, 1)}
    for name in BankBatch.__slots__:
        assert np.array_equal(getattr(whole, name), getattr(banks, name)), name
    assert second.word_offsets[0] == 0
    assert second.word_offsets[-1] == len(second.words)
    assert np.array_equal(np.concatenate([first.words, second.words]), banks.words)


def write_banks(path, banks, *, n_words=None):
    per_event = np.diff(banks.bank_offsets)
    n_words = np.diff(banks.word_offsets) if n_words is None else n_words
    words_per_event = np.diff(banks.word_offsets[banks.bank_offsets])
    columns = {
        "bank_type": banks.bank_type,
        "bank_version": banks.bank_version,
        "bank_source": banks.bank_source,
        "bank_nwords": n_words,
    }
    data = {"event": banks.event} | {
        name: ak.unflatten(values.astype(np.int64), per_event) for name, values in columns.items()
    }
    data["data_word"] = ak.unflatten(banks.words.astype(np.int64), words_per_event)
    with uproot.recreate(path) as file:
        file.mktree(
            "RawEvent",
            {name: values.dtype if name == "event" else values.type.content for name, values in data.items()},
        )
        file["RawEvent"].extend(data)


def test_banks_whose_lengths_disagree_are_refused(tmp_path):
    banks = encode_retina(np.array([0, 1]), [0], [5], [1], [0], [0])
    n_words = np.diff(banks.word_offsets)
    n_words[3] += 1
    write_banks(tmp_path / "raw.root", banks, n_words=n_words)
    with (
        open_source(str(tmp_path / "raw.root")) as source,
        pytest.raises(CorruptInputError, match="disagree"),
    ):
        list(source.batches(0, 1, 1))


def test_where_a_file_holds_both_raw_banks_come_first(tmp_path):
    hits = hit_columns()
    banks = encode_retina(np.array([0, 1]), [0], [5], [1], [0], [0])
    write_banks(tmp_path / "both.root", banks)
    with uproot.update(tmp_path / "both.root") as file:
        file.mktree("Velo", {"hit": ak.zip(hits).type.content})
        file["Velo"].extend({"hit": ak.zip(hits)})
    with open_source(str(tmp_path / "both.root")) as source:
        assert source.kind == "banks"
    with open_source(str(tmp_path / "both.root"), "Velo") as source:
        assert source.kind == "hits"
        # without numbers of their own, events are numbered by entry
        assert joined(source.batches(2, 4, 5))["event"].tolist() == [2, 3]


def test_a_wrong_tree_is_told_with_the_near_ones(tmp_path):
    write_ttree(tmp_path / "hits.root", hit_columns(), tree="VeloHits")
    with pytest.raises(MissingInputError, match=r"no tree RawEvent or Velo .*VeloHits") as caught:
        open_source(str(tmp_path / "hits.root"))
    assert "did you mean VeloHits" in caught.value.hint
    with pytest.raises(MissingInputError) as caught:
        open_source(str(tmp_path / "hits.root"), "VeloHit")
    assert "did you mean VeloHits" in caught.value.hint
    with open_source(str(tmp_path / "hits.root"), "VeloHits") as source:
        assert source.n_entries == 10


def test_a_wrong_branch_is_told_with_the_near_ones(tmp_path):
    hits = hit_columns()
    hits["modul"] = hits.pop("module")
    write_ttree(tmp_path / "hits.root", hits)
    with pytest.raises(MissingInputError, match="no branch hit_module in the tree Velo") as caught:
        open_source(str(tmp_path / "hits.root"))
    assert "did you mean hit_modul" in caught.value.hint


def test_columns_of_the_wrong_kind_are_refused(tmp_path):
    with uproot.recreate(tmp_path / "flat.root") as file:
        file["Velo"] = {f"hit_{key}": np.arange(3.0) for key in ("x", "y", "z", "module")}
    with open_source(str(tmp_path / "flat.root")) as source, pytest.raises(CorruptInputError, match="a list"):
        list(source.batches(0, 3, 3))


def test_numbers_too_large_for_their_column_are_refused(tmp_path):
    hits = hit_columns()
    hits["module"] = hits["module"] + 2**40
    write_ttree(tmp_path / "hits.root", hits)
    with (
        open_source(str(tmp_path / "hits.root")) as source,
        pytest.raises(CorruptInputError, match="outside of int32"),
    ):
        list(source.batches(0, 10, 3))


def test_nan_modules_are_refused_and_doubles_beyond_float32_are_infinite(tmp_path):
    hits = hit_columns()
    hits["x"] = hits["x"] + 1e300
    write_ttree(tmp_path / "hits.root", hits)
    with open_source(str(tmp_path / "hits.root")) as source:
        [batch] = source.batches(0, 10, 10)
    assert np.all(np.isinf(batch.x))
    assert set(check_hits(batch).code.tolist()) == {HitStatus.OK, HitStatus.NOT_FINITE}
    hits["module"] = ak.where(hits["module"] > 40, np.nan, hits["module"])
    write_ttree(tmp_path / "nan.root", hits)
    with open_source(str(tmp_path / "nan.root")) as source, pytest.raises(CorruptInputError, match="nan"):
        list(source.batches(0, 10, 10))


def test_an_rntuple_of_no_entries_is_no_error(tmp_path):
    with uproot.recreate(tmp_path / "empty.root") as file:
        file.mkrntuple("Velo", {f"hit_{key}": values[:0] for key, values in hit_columns().items()})
    with open_source(str(tmp_path / "empty.root")) as source:
        assert source.n_entries == 0
        assert list(source.batches(0, 0, 10)) == []


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("name", "n_entries", "form", "mean"),
    [
        ("bsphiphi_valid", 150, "TTree", 2381),
        ("minbias_valid", 150, "TTree", 1964),
        ("upgrade2_stress", 40, "RNTuple", 12968),
    ],
)
def test_the_experiments_files_are_read_and_good(shared_data, name, n_entries, form, mean):
    with open_source(str(shared_data / "velo" / f"{name}.root")) as source:
        assert (source.n_entries, source.format, source.kind) == (n_entries, form, "hits")
        batches = list(source.batches(0, n_entries, 64))
    assert not any(check_hits(batch).code.any() for batch in batches)
    counts = np.concatenate([np.diff(batch.offsets) for batch in batches])
    assert counts.mean() == pytest.approx(mean, rel=0.1)


@pytest.mark.parametrize(("start", "stop", "size"), [(-1, 3, 1), (0, 11, 1), (5, 4, 1), (0, 3, 0)])
def test_impossible_ranges_are_refused(tmp_path, start, stop, size):
    write_ttree(tmp_path / "hits.root", hit_columns())
    with open_source(str(tmp_path / "hits.root")) as source, pytest.raises(UsageError):
        list(source.batches(start, stop, size))


def test_no_basket_is_read_twice(tmp_path, monkeypatch):
    write_ttree(tmp_path / "hits.root", hit_columns([5] * 40), per_basket=10)
    seen = []
    original = TTreeColumns.array

    def array(self, name, start, stop):
        seen.append((name, start, stop))
        return original(self, name, start, stop)

    monkeypatch.setattr(TTreeColumns, "array", array)
    with open_source(str(tmp_path / "hits.root")) as source:
        assert len(list(source.batches(5, 40, 4))) > 8
    assert [part[1:] for part in seen if part[0] == "hit_x"] == [(5, 10), (10, 20), (20, 30), (30, 40)]


def test_chunks_join_small_pieces_and_keep_large_ones():
    boundaries = np.array([0, 2, 4, 6, 8, 30, 31], dtype=np.int64)
    assert list(plan_chunks(boundaries, 0, 31, 4)) == [(0, 4), (4, 8), (8, 30), (30, 31)]
    assert list(plan_chunks(boundaries, 3, 9, 4)) == [(3, 8), (8, 9)]
    assert list(plan_chunks(boundaries, 10, 12, 4)) == [(10, 12)]


@pytest.mark.parametrize("writer", ["TTree", "RNTuple"])
def test_memory_does_not_grow_with_the_file(tmp_path, writer):
    peaks = []
    write = {"TTree": write_ttree, "RNTuple": write_rntuple}[writer]
    for n_events in (40, 400):
        path = str(tmp_path / f"{n_events}.root")
        pieces = {"per_basket": 20} if writer == "TTree" else {"per_cluster": 20}
        write(path, hit_columns([1000] * n_events), **pieces)
        tracemalloc.start()
        with open_source(path) as source:
            for batch in source.batches(0, n_events, 10):
                assert batch.n_hits == 10_000
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]
