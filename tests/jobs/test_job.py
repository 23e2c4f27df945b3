"""A job accounts for every event of its unit, or fails with a class, an exit code and nothing left behind."""

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import awkward as ak
import numpy as np
import pytest
import uproot

from egretta.jobs.histograms import HITS, TIME_PREFIX, TRACKS
from egretta.jobs.job import attempt, run_unit
from egretta.jobs.manifest import Manifest
from egretta.jobs.pipelines import BUILT_IN, factory_name, load_factory
from egretta.jobs.unit import Unit
from egretta.jobs.writers import file_checksum, read_tracks
from egretta.kernels.errors import CodeError, CorruptInputError, DataError, SiteError, SpecError

HERE = Path(__file__).parent
N_EVENTS = 40


def write_hits(path: Path, n_events: int, *, seed: int = 1) -> str:
    """A Velo tree of random hits; event numbers are 1000 + entry. Returns its UUID."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 30, n_events)
    n_hits = int(lengths.sum())
    columns = {
        name: ak.unflatten(rng.normal(size=n_hits).astype(np.float32), lengths)
        for name in ("hit_x", "hit_y", "hit_z")
    }
    columns["hit_module"] = ak.sort(ak.unflatten(rng.integers(0, 52, n_hits).astype(np.int32), lengths))
    with uproot.recreate(path) as file:
        tree = file.mktree(
            "Velo",
            {
                "event": "int64",
                "nhit": "int32",
                **dict.fromkeys(("hit_x", "hit_y", "hit_z"), "var * float32"),
                "hit_module": "var * int32",
            },
            counter_name=lambda counted: f"n_{counted}",
        )
        if n_events:
            event = 1000 + np.arange(n_events, dtype=np.int64)
            tree.extend({"event": event, "nhit": lengths.astype(np.int32), **columns})
    with uproot.open(path) as file:
        return str(file.file.uuid)


@pytest.fixture(autouse=True)
def _pipelines_can_be_imported(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.setenv("PYTHONPATH", str(HERE))


@pytest.fixture
def unit(tmp_path) -> Unit:
    uuid = write_hits(tmp_path / "hits.root", N_EVENTS)
    return Unit(
        unit_id="u000007",
        attempt=1,
        campaign="test",
        config_hash="abc",
        pipeline="plain_pipelines:Plain",
        file=str(tmp_path / "hits.root"),
        file_uuid=uuid,
        start=5,
        stop=30,
        output_directory=str(tmp_path / "out"),
        batch_events=7,
    )


def with_(unit: Unit, **changes: object) -> Unit:
    return dataclasses.replace(unit, **changes)


def job(unit: Unit, **options: object) -> "subprocess.CompletedProcess[str]":
    """Run the unit by the very command that a backend uses."""
    path = Path(unit.file).with_name(f"{unit.stem}.unit.json")
    unit.write(path)
    return subprocess.run(
        [sys.executable, "-m", "egretta.jobs", str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )


def left_in(unit: Unit) -> list[str]:
    folder = Path(unit.output_directory)
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def test_every_event_of_the_range_is_in_the_output_once(unit):
    manifest = run_unit(unit)
    tracks = read_tracks(unit.output_path)
    assert tracks.entry.tolist() == list(range(5, 30))
    assert tracks.event.tolist() == list(range(1005, 1030))
    assert manifest.events_processed == 25
    assert manifest.counts["tracks"] == tracks.n_tracks > 0
    assert left_in(unit) == ["u000007.a1.json", "u000007.a1.root"]


def test_the_manifest_describes_the_output(unit):
    manifest = run_unit(unit)
    assert Manifest.load(unit.manifest_path) == manifest
    assert manifest.output == unit.output_path.name
    assert manifest.output_bytes == unit.output_path.stat().st_size
    assert manifest.checksum == file_checksum(unit.output_path)
    assert manifest.bytes_read > 0
    assert manifest.wall_seconds > 0
    assert manifest.peak_memory_mb > 10
    assert set(manifest.stage_seconds) == {"start", "read", "copy", "other", "write"}
    assert manifest.stage_seconds["copy"] == pytest.approx(4 * 0.001)
    assert (manifest.unit_id, manifest.attempt, manifest.config_hash) == ("u000007", 1, "abc")
    assert manifest.file_uuid == unit.file_uuid


def test_the_histograms_add_up_to_the_processed_events(unit):
    manifest = run_unit(with_(unit, pipeline_options={"reject": [6, 7]}))
    assert {HITS, TRACKS, TIME_PREFIX + "read", TIME_PREFIX + "copy"} <= set(manifest.histograms)
    for name, counts in manifest.histograms.items():
        assert sum(counts) == manifest.events_processed, name


def test_the_batch_size_does_not_change_the_output(unit):
    run_unit(unit)
    run_unit(with_(unit, attempt=2, batch_events=1000))
    one, other = read_tracks(unit.output_path), read_tracks(with_(unit, attempt=2).output_path)
    for field in dataclasses.fields(one):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))


def test_a_rejected_event_is_quarantined_by_name_and_left_out(unit):
    manifest = run_unit(with_(unit, pipeline_options={"reject": [5, 12, 29, 3]}))
    assert [(event.entry, event.event) for event in manifest.quarantined] == [
        (5, 1005),
        (12, 1012),
        (29, 1029),
    ]
    assert {event.reason for event in manifest.quarantined} == {"told to"}
    assert manifest.events_processed == 22
    assert set(range(5, 30)) - set(read_tracks(unit.output_path).entry.tolist()) == {5, 12, 29}


def test_an_empty_range_succeeds_with_a_valid_empty_output(unit):
    manifest = run_unit(with_(unit, start=9, stop=9))
    assert manifest.events_processed == 0
    assert manifest.failure is None
    assert read_tracks(unit.output_path).n_events == 0


def test_an_empty_tree_succeeds_with_a_valid_empty_output(unit, tmp_path):
    uuid = write_hits(tmp_path / "none.root", 0)
    empty = with_(unit, file=str(tmp_path / "none.root"), file_uuid=uuid, start=0, stop=0, parquet=True)
    assert run_unit(empty).events_processed == 0
    assert read_tracks(unit.output_path).n_events == 0
    assert left_in(unit) == ["u000007.a1.json", "u000007.a1.parquet", "u000007.a1.root"]


def test_a_file_that_changed_since_planning_is_refused(unit):
    write_hits(Path(unit.file), N_EVENTS)
    with pytest.raises(DataError, match="has changed since it was planned"):
        run_unit(unit)
    assert left_in(unit) == []


def test_a_file_with_fewer_entries_than_planned_is_refused(unit):
    with pytest.raises(CorruptInputError, match=r"has 40 entries, the unit asks for \[5, 41\)"):
        run_unit(with_(unit, stop=41))


def test_a_reader_that_ends_early_is_not_taken_for_the_end(unit, monkeypatch):
    from egretta.jobs.readers.base import Source

    batches = Source.batches
    monkeypatch.setattr(Source, "batches", lambda source, start, stop, size: batches(source, start, 20, size))
    with pytest.raises(CorruptInputError, match=r"gave 15 events .* truncated"):
        run_unit(unit)
    assert left_in(unit) == []


def test_a_reader_that_gives_an_event_twice_is_caught(unit, monkeypatch):
    from egretta.jobs.readers.base import Source

    batches = Source.batches

    def twice(source, start, stop, size):
        yield from batches(source, start, 12, size)
        yield from batches(source, 11, stop - 1, size)

    monkeypatch.setattr(Source, "batches", twice)
    with pytest.raises(CodeError, match="do not go on at entry 12"):
        run_unit(unit)


def test_a_pipeline_that_loses_count_is_caught(unit):
    with pytest.raises(CodeError, match="lost count"):
        run_unit(with_(unit, pipeline="plain_pipelines:LosesAnEvent"))
    assert left_in(unit) == []


def failed(unit: Unit) -> Manifest:
    manifest = Manifest.load(unit.manifest_path)
    assert manifest.failure is not None
    assert manifest.output is None
    assert manifest.events_processed == 0
    assert left_in(unit) == [unit.manifest_path.name]
    return manifest


@pytest.mark.parametrize(
    ("error", "code", "failure_class"),
    [
        ("memory", 12, "resource"),
        (errno.ENOSPC, 12, "resource"),
        (errno.EACCES, 13, "site"),
        (errno.EROFS, 13, "site"),
        (errno.ECONNRESET, 10, "transient"),
        (errno.EIO, 10, "transient"),
        ("bug", 14, "code"),
    ],
)
def test_what_a_pipeline_raises_is_classed(unit, capsys, error, code, failure_class):
    unit = with_(unit, pipeline="plain_pipelines:Raises", pipeline_options={"error": error})
    assert attempt(unit) == code
    manifest = failed(unit)
    assert manifest.failure.failure_class == failure_class
    # a failed attempt took bandwidth and time all the same
    assert manifest.bytes_read > 0
    assert manifest.stage_seconds["read"] > 0
    said = capsys.readouterr().err
    assert f"unit {unit.unit_id}, attempt 1: " in said
    assert ("Traceback" in said) == (error == "bug")


@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        ({"file": "/none/at/all.root"}, 11, "/none/at/all.root"),
        ({"tree": "Velos"}, 11, "Velos"),
        ({"pipeline": "vleo"}, 14, "did you mean 'velo'"),
        ({"pipeline": "no_such_package:make"}, 13, "no_such_package"),
        ({"pipeline": "plain_pipelines:Plane"}, 14, "did you mean 'Plain'"),
        ({"output_directory": "/proc/none"}, 13, "/proc/none"),
    ],
)
def test_what_is_wrong_is_told_in_a_paragraph(unit, changes, code, said):
    done = job(with_(unit, **changes))
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_the_command_runs_a_unit_by_hand(unit):
    done = job(with_(unit, threads=2))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert Manifest.load(unit.manifest_path).events_processed == 25


@pytest.mark.parametrize("arguments", [[], ["none.json"], ["a", "b"]])
def test_without_a_usable_unit_file_nothing_is_attempted(tmp_path, arguments):
    command = [sys.executable, "-m", "egretta.jobs", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert "what to do" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_libraries_see_the_units_threads_before_they_are_imported(unit):
    code = (
        "import sys; from egretta.jobs.__main__ import main; status = main(sys.argv[1:]); import numba; "
        "print(numba.config.NUMBA_NUM_THREADS); sys.exit(status)"
    )
    path = Path(unit.file).with_name("unit.json")
    with_(unit, threads=1).write(path)
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == ["1"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_job_in_order(unit, number):
    unit = with_(unit, pipeline="plain_pipelines:Eats", batch_events=1)
    path = Path(unit.file).with_name("unit.json")
    unit.write(path)
    process = subprocess.Popen(
        [sys.executable, "-m", "egretta.jobs", str(path)], stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not left_in(unit) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 10, said
    assert f"stopped by {number.name}" in said
    assert failed(unit).failure.failure_class == "transient"


def test_a_job_over_its_memory_is_stopped_as_a_lack_of_resources(unit):
    done = job(with_(unit, pipeline="plain_pipelines:Eats", memory_mb=400))
    assert done.returncode == 12, done.stderr
    assert "memory_mb" in done.stderr
    manifest = failed(unit)
    assert manifest.failure.failure_class == "resource"
    assert 400 < manifest.peak_memory_mb < 700


def test_a_job_over_its_memory_that_does_not_come_back_is_ended(unit):
    done = job(with_(unit, pipeline="plain_pipelines:EatsDeaf", memory_mb=300))
    assert done.returncode == 12, done.stderr
    assert failed(unit).failure.failure_class == "resource"


def test_the_callers_signal_handlers_come_back(unit):
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    assert attempt(unit) == 0
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_a_killed_job_leaves_no_output_and_no_manifest(unit):
    unit = with_(unit, pipeline="plain_pipelines:Eats", batch_events=1)
    path = Path(unit.file).with_name("unit.json")
    unit.write(path)
    process = subprocess.Popen([sys.executable, "-m", "egretta.jobs", str(path)])
    deadline = time.monotonic() + 60
    while not left_in(unit) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.wait(timeout=60)
    assert not unit.output_path.exists()
    assert not unit.manifest_path.exists()
    # the unit runs again as if nothing had been
    assert run_unit(with_(unit, attempt=2, pipeline="plain_pipelines:Plain")).events_processed == 25


def test_a_full_disk_fails_the_manifest_too_but_not_in_silence(unit, capsys, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", refuse)
    assert attempt(unit) == 12
    assert "cannot write the tracks" in (said := capsys.readouterr().err)
    assert "and cannot write the manifest" in said
    assert left_in(unit) == []


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_built_in_pipelines_can_be_loaded(name):
    assert callable(load_factory(name))


@pytest.mark.parametrize("name", ["", "velox", "module.factory", ":x", "x:", "a:b c"])
def test_names_that_name_nothing_are_refused_without_an_import(name):
    with pytest.raises(SpecError, match="no pipeline is named"):
        factory_name(name)


def test_a_pipeline_module_that_breaks_is_the_codes_fault(tmp_path, monkeypatch):
    (tmp_path / "broken_pipeline.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(CodeError, match="ZeroDivisionError"):
        load_factory("broken_pipeline:make")


def test_a_pipeline_that_lacks_a_library_is_the_sites_fault(tmp_path, monkeypatch):
    (tmp_path / "lacking_pipeline.py").write_text("import no_such_library")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(SiteError, match="no_such_library"):
        load_factory("lacking_pipeline:make")


@pytest.mark.shared_data
def test_a_real_file_runs_through(unit, shared_data):
    real = with_(
        unit,
        file=str(shared_data / "velo" / "minbias10_hits.root"),
        file_uuid="",
        start=0,
        stop=10,
        tree="Velo",
    )
    manifest = run_unit(real)
    assert manifest.events_processed == 10
    assert json.loads(real.manifest_path.read_text())["counts"]["hits"] > 0
