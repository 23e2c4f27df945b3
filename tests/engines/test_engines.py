"""Every engine keeps the protocol, on the shipped models and on files that are none."""

import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from egretta.engines.models import shipped
from egretta.engines.opening import ENGINES, open_engine
from egretta.engines.protocol import TensorSpec
from egretta.kernels.errors import CodeError, EgrettaError, SiteError, SpecError

MODELS = ("velo-embedding", "velo-gnn")
# A chain of four hits with one triplet of its two: hits in mm, edges, triplets.
GRAPH = {
    "position": np.array([[5, 1, 0], [6, 1, 25], [7, 1, 50], [8, 2, 75]], np.float32),
    "source": np.array([0, 1, 2], np.int32),
    "target": np.array([1, 2, 3], np.int32),
    "first": np.array([0], np.int32),
    "second": np.array([1], np.int32),
}


@pytest.fixture(scope="module", params=ENGINES)
def engine_name(request):
    return request.param


@pytest.fixture
def gnn(engine_name):
    engine = open_engine(engine_name, shipped("velo-gnn"))
    yield engine
    engine.close()


def foreign_model(path, name="someone-elses"):
    """A valid ONNX model that doubles its input."""
    node = helper.make_node("Add", ["a", "a"], ["b"])
    a, b = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["rows", 2]) for n in "ab")
    model = helper.make_model(
        helper.make_graph([node], name, [a], [b]), opset_imports=[helper.make_opsetid("", 18)]
    )
    model.ir_version = 9
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("model", MODELS)
def test_the_contract_names_every_tensor_with_its_type_and_shape(engine_name, model):
    engine = open_engine(engine_name, shipped(model), threads=1)
    spec = engine.spec
    assert spec.name == model
    inputs = {
        "velo-embedding": {"position": ("float32", (-1, 3))},
        "velo-gnn": {
            "position": ("float32", (-1, 3)),
            **dict.fromkeys(("source", "target", "first", "second"), ("int32", (-1,))),
        },
    }[model]
    assert {t.name: (t.dtype, t.shape) for t in spec.inputs} == {
        name: (np.dtype(kind), shape) for name, (kind, shape) in inputs.items()
    }
    assert all(isinstance(t, TensorSpec) and t.dtype == np.float32 for t in spec.outputs)
    engine.close()


@pytest.mark.parametrize("model", MODELS)
def test_engines_agree_on_the_contract(model):
    one, *others = (open_engine(name, shipped(model)).spec for name in ENGINES)
    for other in others:
        assert other == one


@pytest.mark.parametrize(
    ("model", "names"), [("velo-embedding", {"d_max", "k", "kink_max"}), ("velo-gnn", {"threshold"})]
)
def test_shipped_models_carry_the_settings_that_the_pipeline_needs(model, names):
    settings = open_engine("fused", shipped(model)).spec.settings
    assert names <= set(settings)
    assert all(float(word) for name in names for word in settings[name].split())


def test_all_outputs_come_with_the_shapes_and_types_of_the_contract(gnn):
    outputs = gnn.run(GRAPH)
    assert set(outputs) == {tensor.name for tensor in gnn.spec.outputs}
    assert outputs["gate_logit"].shape == (3,)
    assert outputs["triplet_logit"].shape == (1,)
    assert all(array.dtype == np.float32 and np.isfinite(array).all() for array in outputs.values())


def test_an_engine_answers_the_same_each_time_and_leaves_its_inputs(gnn):
    given = {name: array.copy() for name, array in GRAPH.items()}
    one, two = gnn.run(GRAPH), gnn.run(GRAPH)
    for name in one:
        assert np.array_equal(one[name], two[name])
    for name, array in given.items():
        assert np.array_equal(array, GRAPH[name])


def test_more_inputs_than_the_model_takes_do_not_matter(gnn):
    more = gnn.run({**GRAPH, "unused": np.zeros(3)})
    assert np.array_equal(more["gate_logit"], gnn.run(GRAPH)["gate_logit"])


def test_a_missing_input_is_named(gnn):
    less = {name: array for name, array in GRAPH.items() if name != "second"}
    with pytest.raises(CodeError, match=r"needs an input 'second'.*\['first', 'position'"):
        gnn.run(less)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("position", GRAPH["position"].astype(np.float64)),
        ("position", GRAPH["position"][:, :2]),
        ("position", GRAPH["position"].reshape(-1)),
        ("source", GRAPH["source"].astype(np.int64)),
        ("first", GRAPH["first"].reshape(1, 1)),
    ],
)
def test_an_input_of_another_type_or_shape_is_named_with_both(gnn, name, array):
    with pytest.raises(CodeError) as caught:
        gnn.run({**GRAPH, name: array})
    message = str(caught.value)
    assert f"input '{name}' of model velo-gnn is {array.dtype}{list(array.shape)}" in message
    assert "the model takes" in message


def test_a_missing_file_is_the_sites_fault(engine_name, tmp_path):
    with pytest.raises(SiteError, match=r"cannot read the model .*none.onnx: No such file") as caught:
        open_engine(engine_name, tmp_path / "none.onnx")
    assert "[inference] models" in caught.value.hint


def test_a_folder_is_the_sites_fault(engine_name, tmp_path):
    with pytest.raises(SiteError, match="cannot read the model"):
        open_engine(engine_name, tmp_path)


@pytest.mark.parametrize("content", [b"", b"not a model", b"root\x00\x00\xf4\x7d", b"\x08\x09" * 50])
def test_a_file_that_is_no_model_is_refused_by_name(engine_name, tmp_path, content):
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    with pytest.raises(CodeError, match=r"bad\.onnx") as caught:
        open_engine(engine_name, path)
    assert caught.value.hint


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("part", [0.1, 0.5, 0.99])
def test_a_truncated_model_is_refused_by_name(engine_name, tmp_path, model, part):
    content = shipped(model).read_bytes()
    path = tmp_path / "cut.onnx"
    path.write_bytes(content[: int(len(content) * part)])
    with pytest.raises(CodeError, match=r"cut\.onnx"):
        open_engine(engine_name, path)


def test_onnx_runtime_runs_any_model(tmp_path):
    engine = open_engine("onnxruntime", foreign_model(tmp_path / "m.onnx"))
    assert engine.spec.name == "someone-elses"
    assert engine.run({"a": np.ones((1, 2), np.float32)})["b"].tolist() == [[2, 2]]


def test_a_model_without_a_fused_kernel_is_refused_with_those_that_have_one(tmp_path):
    path = foreign_model(tmp_path / "m.onnx")
    with pytest.raises(CodeError, match="no fused kernel computes the model 'someone-elses'") as caught:
        open_engine("fused", path)
    assert 'engine = "onnxruntime"' in caught.value.hint
    assert all(model in caught.value.hint for model in MODELS)


@pytest.mark.parametrize("model", MODELS)
def test_a_model_that_bears_a_known_name_but_not_its_weights_is_refused(tmp_path, model):
    path = foreign_model(tmp_path / "m.onnx", name=model)
    with pytest.raises(CodeError, match=f"calls itself {model} but has no weights named"):
        open_engine("fused", path)


def test_a_model_with_a_weight_of_another_shape_is_refused(tmp_path):
    model = onnx.load(shipped("velo-gnn"))
    (weight,) = [w for w in model.graph.initializer if w.name == "gate"]
    weight.CopyFrom(onnx.numpy_helper.from_array(np.zeros(3, np.float32), "gate"))
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(CodeError, match="calls itself velo-gnn but has weights of other shapes"):
        open_engine("fused", tmp_path / "m.onnx")


def test_failures_inside_onnx_runtime_are_ours(tmp_path):
    engine = open_engine("onnxruntime", shipped("velo-gnn"))
    with pytest.raises(CodeError, match="ONNX Runtime failed in model velo-gnn"):
        engine.run({**GRAPH, "source": np.array([0, 1, 99], np.int32)})


def test_an_unknown_engine_is_refused_with_the_known_ones():
    with pytest.raises(SpecError) as caught:
        open_engine("tensorflow", shipped("velo-gnn"))
    assert all(name in caught.value.hint for name in ENGINES)
    assert isinstance(caught.value, EgrettaError)


def test_the_protocol_and_the_kernels_need_no_inference_library():
    program = """
import pkgutil, importlib, sys
import egretta.engines.protocol, egretta.engines.opening, egretta.kernels as kernels
for module in pkgutil.iter_modules(kernels.__path__):
    importlib.import_module(f"egretta.kernels.{module.name}")
heavy = {"onnxruntime", "onnx", "torch", "tensorrt", "tritonclient"} & set(sys.modules)
rooms = ("egretta.jobs", "egretta.workflows", "egretta.engines.training")
ours = [m for m in sys.modules if m.startswith(rooms)]
assert not heavy and not ours, (heavy, ours)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_the_fused_engine_needs_no_inference_library():
    program = """
import sys
from egretta.engines.models import shipped
from egretta.engines.opening import open_engine
open_engine("fused", shipped("velo-gnn"))
assert not {"onnxruntime", "torch"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
