"""Options of the pipeline velo: what is unknown or wrong is named with what would be right."""

from pathlib import Path

import pytest

from egretta.jobs.pipelines.velo_options import VeloOptions, read_options
from egretta.kernels.errors import SpecError


def test_without_options_all_comes_from_the_models():
    for options in ({}, {"pipeline": {}, "inference": {}}):
        assert read_options(options) == VeloOptions()
    assert VeloOptions().engine == "fused"


def test_every_option_is_read_from_its_section():
    read = read_options(
        {
            "pipeline": {
                "geometry": "velo.bin",
                "banks": "retina",
                "k": 12,
                "d_max": [1, 2.5, 3],
                "kink_max": 0.01,
                "threshold": -1.5,
            },
            "inference": {"engine": "onnxruntime", "models": {"gnn": "my.onnx"}},
        }
    )
    assert read == VeloOptions(
        geometry=Path("velo.bin"),
        banks="retina",
        k=12,
        d_max=(1.0, 2.5, 3.0),
        kink_max=0.01,
        threshold=-1.5,
        engine="onnxruntime",
        models={"gnn": Path("my.onnx")},
    )


@pytest.mark.parametrize(
    ("section", "key", "near"),
    [
        ("pipeline", "treshold", "threshold"),
        ("pipeline", "kinkmax", "kink_max"),
        ("pipeline", "bank", "banks"),
        ("inference", "engines", "engine"),
        ("inference", "model", "models"),
    ],
)
def test_an_unknown_key_names_the_nearest(section, key, near):
    with pytest.raises(SpecError, match=rf"knows no '{key}' under \[{section}\]") as caught:
        read_options({section: {key: 1}})
    assert f"did you mean '{near}'" in caught.value.hint


@pytest.mark.parametrize(
    ("section", "key", "known"),
    [
        ("pipeline", "xyzzy", "geometry, banks, k"),
        ("inference", "xyzzy", "engine, models"),
        # a key of the other section is not accepted in this one
        ("pipeline", "engine", "geometry, banks, k"),
        ("elsewhere", "k", "none"),
    ],
)
def test_a_key_like_no_other_lists_the_known(section, key, known):
    with pytest.raises(SpecError, match=f"knows no '{key}'") as caught:
        read_options({section: {key: 1}})
    assert f"known keys: {known}" in caught.value.hint


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("pipeline", "k", 0),
        ("pipeline", "k", 2000),
        ("pipeline", "k", 1.5),
        ("pipeline", "k", "many"),
        ("pipeline", "banks", "pixels"),
        ("pipeline", "d_max", [1, 2]),
        ("pipeline", "d_max", [1, 2, 0]),
        ("pipeline", "d_max", [1, 2, float("inf")]),
        ("pipeline", "kink_max", -0.1),
        ("pipeline", "kink_max", float("nan")),
        ("pipeline", "threshold", float("nan")),
        ("pipeline", "geometry", 3),
        ("inference", "engine", "tensorflow"),
        ("inference", "models", {"embeddings": "my.onnx"}),
        ("inference", "models", "my.onnx"),
    ],
)
def test_a_wrong_value_is_named_with_its_section(section, key, value):
    with pytest.raises(SpecError) as caught:
        read_options({section: {key: value}})
    assert f"cannot use {key} = {value!r} under [{section}]" in caught.value.message
    assert caught.value.hint


def test_a_section_that_is_no_table_is_refused():
    with pytest.raises(SpecError, match=r"takes a table \[pipeline\], not 3"):
        read_options({"pipeline": 3})
