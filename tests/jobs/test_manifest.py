"""Unit files and manifests: what is written is what is read, and anything else is refused by name."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egretta.jobs.manifest import Failure, Manifest, Quarantined
from egretta.jobs.unit import Unit
from egretta.kernels.errors import UsageError

UNIT = Unit(
    unit_id="u000001",
    attempt=2,
    campaign="c",
    config_hash="abc",
    pipeline="velo",
    file="/data/a file.root",
    file_uuid="7640dd10",
    start=10,
    stop=60,
    output_directory="out",
    pipeline_options={"d_max": 0.5, "models": {"gnn": "gnn.onnx"}},
)

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
counts = st.integers(0, 2**62)
seconds = st.floats(0, 1e9, allow_nan=False)
quarantined = st.lists(st.builds(Quarantined, counts, counts, names, names), max_size=3).map(tuple)


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    bad = draw(quarantined)
    failure = draw(st.none() | st.builds(Failure, names, names, names, names))
    processed = draw(st.integers(0, 10**6))
    start = draw(st.integers(0, 10**6))
    return Manifest(
        unit_id=draw(names),
        attempt=draw(counts),
        campaign=draw(names),
        config_hash=draw(names),
        file=draw(names),
        file_uuid=draw(names),
        start=start,
        stop=start + processed + len(bad),
        events_processed=processed,
        quarantined=bad,
        output=draw(st.none() | names),
        output_bytes=draw(counts),
        wall_seconds=draw(seconds),
        stage_seconds=draw(st.dictionaries(names, seconds, max_size=3)),
        counts=draw(st.dictionaries(names, counts, max_size=3)),
        histograms=draw(st.dictionaries(names, st.lists(seconds, max_size=3), max_size=3)),
        failure=failure,
    )


@given(manifests())
def test_manifest_is_read_as_it_was_written(manifest: Manifest) -> None:
    assert Manifest.from_json(manifest.to_json()) == manifest


def test_unit_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "unit.json"
    UNIT.write(path)
    assert Unit.load(path) == UNIT
    assert [entry.name for entry in tmp_path.iterdir()] == ["unit.json"]


def test_attempts_never_share_a_file():
    other = dataclasses.replace(UNIT, attempt=3)
    assert UNIT.output_path != other.output_path
    assert UNIT.manifest_path != other.manifest_path


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"attempts": 3}, "attempts"),
        ({"start": "10"}, "start"),
        ({"start": None}, "start"),
        ({"stop": 9}, "below start"),
        ({"start": -1}, "start is -1"),
        ({"batch_events": 0}, "batch_events is 0"),
        ({"threads": 0}, "threads is 0"),
        ({"memory_mb": 0}, "memory_mb is 0"),
        ({"unit_id": "../u1"}, "cannot name a file"),
        ({"schema": 99}, "schema is 99"),
    ],
)
def test_a_wrong_unit_is_refused_with_the_field(change, said):
    text = json.dumps({**json.loads(UNIT.to_json()), **change})
    with pytest.raises(UsageError, match=said):
        Unit.from_json(text)


def test_every_field_that_is_wrong_is_told_at_once():
    text = json.dumps({**json.loads(UNIT.to_json()), "start": "a", "stop": "b"})
    with pytest.raises(UsageError, match=r"start.*stop"):
        Unit.from_json(text)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", '{"schema": 1}'])
def test_what_is_no_unit_is_refused(text):
    with pytest.raises(UsageError, match="unit file x"):
        Unit.from_json(text, source="unit file x")


def test_a_missing_unit_file_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"none\.json: No such file"):
        Unit.load(tmp_path / "none.json")


def test_a_manifest_that_does_not_add_up_is_refused():
    manifest = Manifest("u", 0, "c", "h", "f", "i", start=0, stop=10, events_processed=9)
    with pytest.raises(UsageError, match=r"accounts for 9 events of entries \[0, 10\)"):
        Manifest.from_json(manifest.to_json())


def test_a_failed_manifest_need_not_add_up():
    failure = Failure("data", "DataError", "why")
    manifest = Manifest("u", 0, "c", "h", "f", "i", start=0, stop=10, events_processed=0, failure=failure)
    assert Manifest.from_json(manifest.to_json()).failure == failure


@pytest.mark.parametrize("cut", [0.0, 0.3, 0.9])
def test_a_cut_manifest_is_refused(tmp_path, cut):
    path = tmp_path / "m.json"
    text = Manifest("u", 0, "c", "h", "f", "i", start=0, stop=10, events_processed=10).to_json()
    path.write_text(text[: int(cut * len(text))])
    with pytest.raises(UsageError, match=str(path)):
        Manifest.load(path)
