"""The command line of training, as far as it needs no PyTorch."""

import importlib.util

import pytest

from egretta.engines.training.__main__ import main
from egretta.engines.training.config import TrainingConfig

REQUIRED = ["--data", "t.npz", "--train", "a", "--valid", "b", "--out", "models"]


def test_help_tells_the_defaults(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    config = TrainingConfig()
    for value in (
        config.recall,
        config.k,
        config.kink_max,
        config.threshold,
        config.embedding.steps,
        config.gnn.steps,
    ):
        assert f"(default: {value})" in said


@pytest.mark.parametrize("library", ["torch", "onnx"])
def test_a_library_that_is_missing_is_named_before_anything_is_read(library, monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == library else object())
    assert main(["train", *REQUIRED]) == 1
    said = capsys.readouterr().err
    assert f"{library} is not installed" in said
    assert "pip install 'egretta[train]'" in said


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--recall", "1", "not between 0 and 1"),
        ("--kink-max", "-0.1", "not positive"),
        ("--k", "0", "less than 1"),
        ("--gnn-steps", "3", "less than 10"),
        ("--seed", "x", "invalid whole number"),
    ],
)
def test_values_that_make_no_sense_are_refused(option, value, words, capsys):
    with pytest.raises(SystemExit) as left:
        main(["train", *REQUIRED, option, value])
    assert left.value.code == 2
    assert words in capsys.readouterr().err
