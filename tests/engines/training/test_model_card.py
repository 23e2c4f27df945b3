"""The shipped models are those that their card and the training's defaults describe."""

import re

import numpy as np
import pytest

from egretta.engines.models import shipped
from egretta.engines.onnx_file import load
from egretta.engines.training.config import TrainingConfig

CARD = shipped("velo-gnn").with_name("README.md")
MODELS = ("velo-embedding", "velo-gnn")


def trained(name: str) -> dict[str, np.ndarray]:
    """The weights without the constants that the graph needs."""
    _, weights = load(shipped(name))
    return {key: w for key, w in weights.items() if not key.startswith(("constant_", "shape_"))}


def test_the_defaults_of_training_make_networks_of_the_shipped_sizes():
    config = TrainingConfig()
    embedding, gnn = trained("velo-embedding"), trained("velo-gnn")
    assert embedding["layer0"].shape[1] == config.embedding.hidden
    assert embedding["layer2"].shape[1] == 2 * (config.embedding.dimensions - 1)
    assert gnn["encode"].shape[1] == config.gnn.states[0]
    assert gnn["triplet"].shape[0] == config.gnn.messages[-1]
    steps = range(len(config.gnn.rivals))
    assert sum(key.endswith("_rival") for key in gnn) == len(steps)
    assert tuple(gnn[f"step{n}_first"].shape for n in steps) == tuple(
        zip(config.gnn.states, config.gnn.messages[:-1], strict=False)
    )
    assert tuple(gnn[f"step{n}_rival"].shape[1] for n in steps) == config.gnn.rivals
    assert tuple(gnn[f"step{n}_advance"].shape[1] for n in steps) == config.gnn.states[1:]


def test_the_defaults_of_training_are_the_shipped_settings():
    config = TrainingConfig()
    embedding, gnn = (load(shipped(name))[0].settings for name in MODELS)
    assert int(embedding["k"]) == config.k
    assert float(embedding["kink_max"]) == config.kink_max
    assert float(gnn["threshold"]) == config.threshold


@pytest.mark.parametrize("name", MODELS)
def test_the_card_tells_parameters_contract_and_settings(name):
    card = CARD.read_text()
    spec, _ = load(shipped(name))
    parameters = sum(w.size for w in trained(name).values())
    assert f"| `{name}.onnx` | {parameters:,} |" in card
    contract = card.split(f"`{name}`:")[1].split("\n\n")[1]
    assert re.findall(r"`(\w+)`", re.sub(r"`target\[.*?`", "", contract)) == [
        tensor.name for tensor in (*spec.inputs, *spec.outputs)
    ]
    for key in ("d_max", "k", "kink_max", "threshold"):
        if key in spec.settings:
            assert f"| {name.removeprefix('velo-')} | `{key}` | `{spec.settings[key]}` |" in card
