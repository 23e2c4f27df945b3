"""Trained networks as ONNX files, written node by node.

Built by hand rather than traced, so that the files depend on no exporter's version, the weights carry the
names that the fused kernels read them by, and integer inputs are the kernels' own int32.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from egretta.engines.training.embedding import RADIUS_SCALE_MM, Z_SCALE_MM, Embedding
from egretta.engines.training.gnn import TripletGNN
from egretta.kernels.gnn import CLOSED_LOGIT

OPSET = 18


class _Graph:
    """Collects nodes and initializers; every method returns the name of its result."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: list[Any] = []
        self.weights: dict[str, NDArray[Any]] = {}

    def weight(self, name: str, value: Any, dtype: Any = np.float32) -> str:
        self.weights[name] = np.ascontiguousarray(value, dtype=dtype)
        return name

    def op(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        output = output or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def number(self, value: float) -> str:
        name = f"constant_{value:g}"
        return name if name in self.weights else self.weight(name, value)

    def shape(self, *sizes: int) -> str:
        name = "shape_" + "_".join(str(s) for s in sizes)
        return name if name in self.weights else self.weight(name, sizes, np.int64)

    def columns(self, matrix: str, *widths: int) -> list[str]:
        """A matrix cut into matrices of the given widths."""
        names = [f"split_{len(self.nodes)}_{i}" for i in range(len(widths))]
        self.nodes.append(helper.make_node("Split", [matrix, self.shape(*widths)], names, axis=1))
        return names

    def concat(self, *matrices: str, output: str | None = None) -> str:
        return self.op("Concat", *matrices, output=output, axis=1)

    def dense(self, rows: str, matrix: str, bias: str | None = None) -> str:
        product = self.op("MatMul", rows, matrix)
        return self.op("Add", product, bias) if bias else product

    def scale(self, value: str, factor: float) -> str:
        return self.op("Mul", value, self.number(factor))

    def plus(self, value: str, constant: float) -> str:
        return self.op("Add", value, self.number(constant))

    def cross(self, ax: str, ay: str, bx: str, by: str) -> str:
        return self.op("Sub", self.op("Mul", ax, by), self.op("Mul", ay, bx))

    def dot(self, ax: str, ay: str, bx: str, by: str) -> str:
        return self.op("Add", self.op("Mul", ax, bx), self.op("Mul", ay, by))

    def norm(self, x: str, y: str, offset: float = 0.0) -> str:
        squares = self.dot(x, y, x, y)
        return self.op("Sqrt", self.plus(squares, offset) if offset else squares)

    def gather(self, rows: str, index: str) -> str:
        return self.op("Gather", rows, index, axis=0)

    def strongest(self, values: str, width: int, index: str, like: str) -> str:
        """Maximum of non-negative rows by index, with as many rows as ``like`` has; 0 where there is none."""
        rows = self.op("Slice", self.op("Shape", like), self.shape(0), self.shape(1))
        size = self.op("Concat", rows, self.shape(width), axis=0)
        zeros = self.op("Expand", self.number(0.0), size)
        column = self.op("Unsqueeze", index, self.shape(1))
        places = self.op("Expand", column, self.op("Shape", values))
        return self.op("ScatterElements", zeros, places, values, axis=0, reduction="max")

    def save(self, path: Path, inputs: list[Any], outputs: list[Any], settings: dict[str, str]) -> None:
        """Check the graph and write it; ``settings`` become the file's metadata."""
        weights = [numpy_helper.from_array(value, name) for name, value in self.weights.items()]
        graph = helper.make_graph(self.nodes, self.name, inputs, outputs, weights)
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(graph, opset_imports=[opset], producer_name="egretta")
        model.ir_version = 9
        helper.set_model_props(model, settings)
        onnx.checker.check_model(model, full_check=True)
        path.write_bytes(model.SerializeToString(deterministic=True))


def _tensor(name: str, kind: int, *shape: int | str) -> Any:
    return helper.make_tensor_value_info(name, kind, list(shape))


def _linear(g: _Graph, name: str, layer: Any) -> str:
    """The weight of a linear layer, as (inputs, outputs), and its bias as NAME_bias."""
    if layer.bias is not None:
        g.weight(f"{name}_bias", layer.bias.detach().numpy())
    return g.weight(name, layer.weight.detach().numpy().T)


def export_embedding(model: Embedding, path: Path, settings: dict[str, str]) -> None:
    """Write ``velo-embedding``: position float32[hits, 3] to query and key float32[hits, dimensions]."""
    g = _Graph("velo-embedding")
    x, y, z = g.columns("position", 1, 1, 1)
    radius = g.norm(x, y, 1e-6)
    inverse = g.op("Div", g.number(5.0), g.plus(radius, 5.0))
    row = g.concat(g.scale(radius, 1 / RADIUS_SCALE_MM), g.scale(z, 1 / Z_SCALE_MM), inverse)
    layers = [model.layers[0], model.layers[2], model.layers[4]]
    for number, layer in enumerate(layers):
        row = g.dense(row, _linear(g, f"layer{number}", layer), f"layer{number}_bias")
        if layer is not layers[-1]:
            row = g.op("Relu", row)
    rest = model.dimensions - 2
    query_radius, query_rest, key_radius, key_rest = g.columns(row, 1, rest, 1, rest)
    direction = g.concat(g.op("Div", x, radius), g.op("Div", y, radius))
    g.concat(g.op("Mul", direction, query_radius), query_rest, output="query")
    g.concat(g.op("Mul", direction, key_radius), key_rest, output="key")
    f32 = TensorProto.FLOAT
    outputs = [_tensor(name, f32, "hits", model.dimensions) for name in ("query", "key")]
    g.save(path, [_tensor("position", f32, "hits", 3)], outputs, settings)


def _edge_features(g: _Graph) -> tuple[str, dict[str, str]]:
    xa, ya, za = g.columns(g.gather("position", "source"), 1, 1, 1)
    xb, yb, zb = g.columns(g.gather("position", "target"), 1, 1, 1)
    dz = g.op("Sub", zb, za)
    tx, ty = g.op("Div", g.op("Sub", xb, xa), dz), g.op("Div", g.op("Sub", yb, ya), dz)
    slope2 = g.plus(g.dot(tx, ty, tx, ty), 1e-6)
    slope = g.op("Sqrt", slope2)
    radius_a, radius_b = g.norm(xa, ya), g.norm(xb, yb)
    impact = g.op("Div", g.op("Abs", g.cross(xa, ya, tx, ty)), slope)
    z_beam = g.op("Sub", za, g.op("Div", g.dot(xa, ya, tx, ty), slope2))
    clipped = g.op("Clip", z_beam, g.number(-500.0), g.number(500.0))
    features = g.concat(
        g.scale(radius_a, 1 / 20),
        g.scale(radius_b, 1 / 20),
        g.scale(za, 1 / 400),
        g.scale(dz, 1 / 50),
        g.scale(slope, 4.0),
        g.op("Log", g.plus(impact, 0.05)),
        g.scale(clipped, 1 / 200),
        g.scale(g.op("Div", g.op("Sub", radius_b, radius_a), dz), 4.0),
    )
    return features, {"tx": tx, "ty": ty, "dz": dz, "slope": slope}


def _triplet_features(g: _Graph, edge: dict[str, str]) -> str:
    tx, ty, slope, dz1 = (g.gather(edge[name], "first") for name in ("tx", "ty", "slope", "dz"))
    dz2 = g.gather(edge["dz"], "second")
    kx = g.op("Sub", g.gather(edge["tx"], "second"), tx)
    ky = g.op("Sub", g.gather(edge["ty"], "second"), ty)
    kink2 = g.dot(kx, ky, kx, ky)
    in1, in2 = g.op("Reciprocal", dz1), g.op("Reciprocal", dz2)
    both = g.op("Add", in1, in2)
    resolution2 = g.scale(g.op("Add", g.op("Mul", both, both), g.dot(in1, in2, in1, in2)), 0.015**2)

    def half_log(value: str) -> str:
        return g.scale(g.op("Log", g.plus(value, 0.1)), 0.5)

    return g.concat(
        half_log(g.op("Div", kink2, resolution2)),
        half_log(g.scale(kink2, 1e5)),
        g.scale(g.op("Div", g.op("Abs", g.dot(kx, ky, tx, ty)), slope), 100.0),
        g.scale(g.op("Div", g.op("Abs", g.cross(kx, ky, tx, ty)), slope), 100.0),
        g.scale(dz2, 1 / 50),
    )


def export_gnn(model: TripletGNN, path: Path, settings: dict[str, str]) -> None:
    """Write ``velo-gnn``: position float32[hits, 3], source and target int32[edges], first and second
    int32[triplets] to gate_logit float32[edges] and triplet_logit float32[triplets]."""
    g = _Graph("velo-gnn")

    def messages(prefix: str, layers: Any, state: str, kink: str) -> str:
        said = g.dense(state, _linear(g, f"{prefix}first", layers["first"]), f"{prefix}first_bias")
        answer = g.dense(state, _linear(g, f"{prefix}second", layers["second"]))
        seen = g.dense(kink, _linear(g, f"{prefix}kink", layers["kink"]))
        joined = g.op("Add", g.gather(said, "first"), g.gather(answer, "second"))
        return g.op("Relu", g.op("Add", joined, seen))

    features, edge = _edge_features(g)
    kink = _triplet_features(g, edge)
    state = g.op("Relu", g.dense(features, _linear(g, "encode", model.encode), "encode_bias"))
    open_edge = open_triplet = ""
    for number, layers in enumerate(model.steps):
        prefix = f"step{number}_"
        n_message, n_rival = layers["first"].out_features, layers["rival"].out_features
        message = messages(prefix, layers, state, kink)
        if number > 0:
            message = g.op("Mul", message, open_triplet)
        onward = g.strongest(message, n_message, "first", "source")
        back = g.strongest(message, n_message, "second", "source")
        seen = g.concat(state, onward, back)
        matrix = _linear(g, f"{prefix}rival", layers["rival"])
        rival = g.op("Relu", g.dense(seen, matrix, f"{prefix}rival_bias"))
        if number > 0:
            rival = g.op("Mul", rival, open_edge)
        leaving = g.gather(g.strongest(rival, n_rival, "source", "position"), "source")
        entering = g.gather(g.strongest(rival, n_rival, "target", "position"), "target")
        matrix = _linear(g, f"{prefix}advance", layers["advance"])
        state = g.op("Relu", g.dense(g.concat(seen, leaving, entering), matrix, f"{prefix}advance_bias"))
        if number == 0:
            gate = g.dense(state, _linear(g, "gate", model.gate), "gate_bias")
            open_edge = g.op("Cast", g.op("Greater", gate, g.number(0.0)), to=TensorProto.FLOAT)
            open_triplet = g.op("Mul", g.gather(open_edge, "first"), g.gather(open_edge, "second"))
    last = messages("last_", {"first": model.first, "second": model.second, "kink": model.kink}, state, kink)
    triplet_logit = g.dense(last, _linear(g, "triplet", model.triplet), "triplet_bias")
    is_open = g.op("Greater", open_triplet, g.number(0.0))
    triplet_logit = g.op("Where", is_open, triplet_logit, g.number(CLOSED_LOGIT))
    g.op("Reshape", gate, g.shape(-1), output="gate_logit")
    g.op("Reshape", triplet_logit, g.shape(-1), output="triplet_logit")
    f32, i32 = TensorProto.FLOAT, TensorProto.INT32
    inputs = [_tensor("position", f32, "hits", 3)]
    inputs += [_tensor(name, i32, "edges") for name in ("source", "target")]
    inputs += [_tensor(name, i32, "triplets") for name in ("first", "second")]
    outputs = [_tensor("gate_logit", f32, "edges"), _tensor("triplet_logit", f32, "triplets")]
    g.save(path, inputs, outputs, settings)
