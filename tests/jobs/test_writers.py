"""Tracks written are tracks read, in ROOT and in Parquet; files appear whole or not at all."""

import dataclasses
import errno
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import uproot
from hypothesis import given, settings
from hypothesis import strategies as st

from egretta.jobs import atomic, writers
from egretta.jobs.tracks import STATE, concatenate, offsets_of, without_events
from egretta.jobs.writers import TrackWriter, file_checksum, read_tracks
from egretta.kernels.batches import TrackBatch
from egretta.kernels.errors import CorruptInputError, MissingInputError, ResourceError, SiteError


def make_batch(tracks_per_event: list[int], first_entry: int = 0, seed: int = 0) -> TrackBatch:
    rng = np.random.default_rng(seed)
    offsets = offsets_of(tracks_per_event)
    n_tracks = int(offsets[-1])
    hit_offsets = offsets_of(rng.integers(3, 20, n_tracks))
    n_hits = int(hit_offsets[-1])
    entry = np.arange(first_entry, first_entry + len(tracks_per_event))
    state = {name: rng.normal(size=n_tracks).astype(np.float32) for name in STATE}
    return TrackBatch(
        entry=entry,
        event=rng.integers(0, 2**62, len(entry)),
        offsets=offsets,
        hit_offsets=hit_offsets,
        hit_index=rng.integers(0, 2**31, n_hits).astype(np.int32),
        lhcb_id=rng.integers(0, 2**32, n_hits).astype(np.uint32),
        **state,
    )


batches = st.lists(
    st.tuples(st.lists(st.integers(0, 5), max_size=6), st.integers(0, 2**32)), min_size=0, max_size=5
).map(lambda parts: [make_batch(lengths, seed=seed) for lengths, seed in parts])


def assert_same(one: TrackBatch, other: TrackBatch) -> None:
    for field in dataclasses.fields(TrackBatch):
        left, right = getattr(one, field.name), getattr(other, field.name)
        np.testing.assert_array_equal(left, right, err_msg=field.name)
        assert left.dtype == right.dtype, field.name


def write(path: Path, parts: list[TrackBatch], **options: bool) -> writers.Output:
    with TrackWriter(path, **options) as writer:
        for part in parts:
            writer.append(part)
        return writer.commit()


@settings(max_examples=25, deadline=None)
@given(batches, st.sampled_from([1, 4, 1000]))
def test_tracks_are_read_as_they_were_written_however_they_were_cut(parts, flush_events):
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(writers, "_FLUSH_EVENTS", flush_events)
        path = Path(folder) / "t.root"
        write(path, parts)
        assert_same(read_tracks(path), concatenate([*parts, make_batch([])]))


@settings(max_examples=10, deadline=None)
@given(batches)
def test_parquet_holds_the_same_tracks_with_their_hits_nested(parts):
    parquet = pytest.importorskip("pyarrow.parquet")
    expected = concatenate([*parts, make_batch([])])
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "t.root", parts, parquet=True)
        rows = parquet.read_table(Path(folder) / "t.parquet").to_pylist()
    assert [row["entry"] for row in rows] == expected.entry.tolist()
    assert [len(row["tracks"]) for row in rows] == np.diff(expected.offsets).tolist()
    tracks = [track for row in rows for track in row["tracks"]]
    for name in STATE:
        assert [track[name] for track in tracks] == getattr(expected, name).tolist()
    assert [len(track["hit_index"]) for track in tracks] == np.diff(expected.hit_offsets).tolist()
    assert [hit for track in tracks for hit in track["lhcb_id"]] == expected.lhcb_id.tolist()


@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=8), st.integers(0, 2**32))
def test_events_taken_out_leave_the_others_as_they_were(events, seed):
    tracks = make_batch([length for length, _ in events], seed=seed)
    rejected = np.array([out for _, out in events], dtype=np.bool_)
    kept = without_events(tracks, rejected)
    ones = [
        without_events(tracks, np.arange(len(events)) != event)
        for event in range(len(events))
        if not rejected[event]
    ]
    assert_same(kept, concatenate([*ones, make_batch([])]))
    assert kept.entry.tolist() == tracks.entry[~rejected].tolist()


def test_the_tree_is_as_documented(tmp_path):
    write(tmp_path / "t.root", [make_batch([2, 0, 3])])
    with uproot.open(tmp_path / "t.root") as file:
        types = file["Tracks"].typenames()
    assert types == {
        "event": "int64_t",
        "entry": "int64_t",
        "ntrack": "int32_t",
        **dict.fromkeys(STATE, "float[]"),
        "nhits": "int32_t[]",
        "nhit": "int32_t",
        "hit_index": "int32_t[]",
        "lhcb_id": "uint32_t[]",
    }


def test_the_output_tells_its_size_and_checksum(tmp_path):
    output = write(tmp_path / "t.root", [make_batch([2, 0, 3])])
    assert output.bytes == (tmp_path / "t.root").stat().st_size
    assert output.checksum == file_checksum(tmp_path / "t.root")
    assert output.checksum.startswith("xxh64:")
    with (tmp_path / "t.root").open("r+b") as file:
        file.seek(200)
        file.write(b"\xff\x00\xff")
    assert output.checksum != file_checksum(tmp_path / "t.root")


def test_memory_held_does_not_grow_with_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(writers, "_FLUSH_EVENTS", 10)
    with TrackWriter(tmp_path / "t.root") as writer:
        for index in range(50):
            writer.append(make_batch([3] * 4, seed=index))
            assert sum(part.n_events for part in writer._pending) < 10
        writer.commit()


def test_nothing_appears_before_the_commit_nor_without_it(tmp_path):
    with TrackWriter(tmp_path / "t.root", parquet=True) as writer:
        writer.append(make_batch([2]))
        assert not [path for path in tmp_path.iterdir() if not path.name.endswith(".tmp")]
    assert list(tmp_path.iterdir()) == []


def test_an_error_on_the_way_leaves_an_earlier_file_alone(tmp_path):
    path = tmp_path / "t.root"
    first = make_batch([2])
    write(path, [first])

    def fail_midway() -> None:
        with TrackWriter(path) as writer:
            writer.append(make_batch([4]))
            raise RuntimeError("midway")

    with pytest.raises(RuntimeError, match="midway"):
        fail_midway()
    assert_same(read_tracks(path), first)
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.root"]


def test_the_root_file_appears_after_the_parquet_file(tmp_path, monkeypatch):
    order = []
    commit = atomic.AtomicFile.commit
    monkeypatch.setattr(
        atomic.AtomicFile, "commit", lambda file: (commit(file), order.append(file.path.suffix))[0]
    )
    write(tmp_path / "t.root", [make_batch([2])], parquet=True)
    assert order == [".parquet", ".root"]


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(SiteError, match=r"egretta\[parquet\]"):
        TrackWriter(tmp_path / "t.root", parquet=True)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_made_is_the_sites_fault(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SiteError, match=r"file/t\.root: (File exists|Not a directory)"):
        TrackWriter(tmp_path / "file" / "t.root")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_directory_is_the_sites_fault(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(SiteError, match="Permission denied"):
        TrackWriter(tmp_path / "t.root")


@pytest.mark.parametrize(
    ("code", "kind"), [(errno.EROFS, SiteError), (errno.EACCES, SiteError), (errno.EDQUOT, ResourceError)]
)
def test_a_refused_open_is_classed_by_its_reason(tmp_path, monkeypatch, code, kind):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(kind, match=os.strerror(code)):
        TrackWriter(tmp_path / "t.root")


@pytest.fixture
def tiny_disk(tmp_path):
    """A file system of 128 kB, where this user may mount one."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("this user cannot mount a small file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill(path: Path, *, parquet: bool) -> None:
    # random bits do not compress: some 0.5 MB
    write(path, [make_batch([10] * 500, seed=seed) for seed in range(4)], parquet=parquet)


@pytest.mark.parametrize("parquet", [False, True])
def test_a_full_disk_is_a_lack_of_resources(tiny_disk, parquet):
    with pytest.raises(ResourceError, match="No space left"):
        fill(tiny_disk / "t.root", parquet=parquet)
    assert list(tiny_disk.iterdir()) == []


def test_a_full_disk_at_the_last_moment_is_a_lack_of_resources(tiny_disk):
    with TrackWriter(tiny_disk / "t.root") as writer:
        writer.append(make_batch([10] * 500))
        with pytest.raises(ResourceError, match="No space left"):
            writer.commit()
    assert list(tiny_disk.iterdir()) == []


def test_a_file_that_may_not_grow_is_a_lack_of_resources(tmp_path):
    # the same path without the right to mount: the system refuses writes past 100 kB with EFBIG
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(ResourceError, match="File too large"):
            fill(tmp_path / "t.root", parquet=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def test_reading_a_missing_file_or_tree_says_so(tmp_path):
    with pytest.raises(MissingInputError, match="no such file"):
        read_tracks(tmp_path / "t.root")
    with uproot.recreate(tmp_path / "other.root") as file:
        file.mktree("Velo", {"x": "float32"})
    with pytest.raises(MissingInputError, match="Tracks"):
        read_tracks(tmp_path / "other.root")


@pytest.mark.parametrize("keep", [0, 10, 2000])
def test_reading_a_truncated_file_says_so(tmp_path, keep):
    path = tmp_path / "t.root"
    write(path, [make_batch([10] * 200)])
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CorruptInputError, match=str(path)):
        read_tracks(path)


def test_reading_branches_that_disagree_says_so(tmp_path):
    path = tmp_path / "t.root"
    write(path, [make_batch([2, 3])])
    with uproot.open(path) as file:
        arrays = file["Tracks"].arrays(library="ak")
    arrays["nhits"] = arrays["nhits"] + 1
    with pytest.raises(CorruptInputError, match="disagree"):
        writers._track_batch(arrays, path)
