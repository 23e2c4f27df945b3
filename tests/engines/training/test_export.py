"""A network written as ONNX answers through every engine as it does in torch."""

import numpy as np
import onnx
import pytest

torch = pytest.importorskip("torch")

from egretta.engines.opening import ENGINES, open_engine  # noqa: E402
from egretta.engines.training.config import GnnConfig  # noqa: E402
from egretta.engines.training.embedding import Embedding  # noqa: E402
from egretta.engines.training.export import export_embedding, export_gnn  # noqa: E402
from egretta.engines.training.gnn import TripletGNN  # noqa: E402
from egretta.kernels.gnn import CLOSED_LOGIT  # noqa: E402

SETTINGS = {"d_max": "1 2 3", "seed": "7"}


def graph():
    """Two events of nearly straight chains with stray edges, in the kernels' order."""
    rng = np.random.default_rng(9)
    n = 40
    plane = np.arange(n) // 4 % 5
    event = np.arange(n) // 20
    z = plane * 25.0
    x, y = (0.1 * z + rng.normal(0, 0.3, n) for _ in range(2))
    near = (event[:, None] == event) & (plane[:, None] < plane) & (plane <= plane[:, None] + 2)
    source, target = np.nonzero(near & (rng.random((n, n)) < 0.6))
    first, second = np.nonzero((target[:, None] == source) & (rng.random((len(source),) * 2) < 0.7))
    return {
        "position": np.stack((x, y, z), axis=1).astype(np.float32),
        "source": source.astype(np.int32),
        "target": target.astype(np.int32),
        "first": first.astype(np.int32),
        "second": second.astype(np.int32),
    }


def forward(model, inputs):
    """Logits as torch gives them."""
    indices = (torch.from_numpy(inputs[n].astype(np.int64)) for n in ("source", "target", "first", "second"))
    with torch.no_grad():
        return [out.numpy() for out in model(torch.from_numpy(inputs["position"]), *indices)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("hidden", "dimensions"), [(12, 5), (7, 3)])
def test_an_embedding_travels(engine, hidden, dimensions, tmp_path):
    torch.manual_seed(1)
    model = Embedding(hidden, dimensions)
    position = graph()["position"]
    with torch.no_grad():
        query, key = (out.numpy() for out in model(torch.from_numpy(position)))
    export_embedding(model, tmp_path / "embedding.onnx", SETTINGS)
    outputs = open_engine(engine, tmp_path / "embedding.onnx").run({"position": position})
    np.testing.assert_allclose(outputs["query"], query, atol=1e-5, rtol=1e-4)
    np.testing.assert_allclose(outputs["key"], key, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "config",
    [GnnConfig((16, 16), (8, 8), (8,)), GnnConfig((8, 12, 16, 7), (4, 8, 16, 5), (4, 8, 3))],
    ids=["one step", "widths that change"],
)
def test_a_graph_network_travels(engine, config, tmp_path):
    torch.manual_seed(2)
    model = TripletGNN(config)
    inputs = graph()
    with torch.no_grad():
        # an untrained gate is all open or all closed: this one closes for about a third
        model.gate.weight *= 20
        gate = forward(model, inputs)[0]
        model.gate.bias -= float(np.quantile(gate, 1 / 3))
    logits = forward(model, inputs)
    closed = logits[1] == CLOSED_LOGIT
    assert 0 < np.count_nonzero(closed) < len(closed)
    export_gnn(model, tmp_path / "gnn.onnx", SETTINGS)
    outputs = open_engine(engine, tmp_path / "gnn.onnx").run(inputs)
    assert np.ptp(logits[1][~closed]) > 0.01
    for name, logit in zip(("gate_logit", "triplet_logit"), logits, strict=True):
        np.testing.assert_allclose(outputs[name], logit, atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "export", "model"),
    [
        ("velo-embedding", export_embedding, lambda: Embedding(6, 4)),
        ("velo-gnn", export_gnn, lambda: TripletGNN(GnnConfig((16, 16), (8, 8), (8,)))),
    ],
)
def test_files_are_valid_carry_their_settings_and_are_the_same_each_time(name, export, model, tmp_path):
    contents = []
    for number in range(2):
        torch.manual_seed(3)
        path = tmp_path / f"{number}.onnx"
        export(model(), path, SETTINGS)
        contents.append(path.read_bytes())
    assert contents[0] == contents[1]
    onnx.checker.check_model(onnx.load_model_from_string(contents[0]), full_check=True)
    for engine in ENGINES:
        spec = open_engine(engine, tmp_path / "0.onnx").spec
        assert (spec.name, dict(spec.settings)) == (name, SETTINGS)
