"""Reading ONNX files without running them: contract, settings and weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egretta.engines.protocol import ModelSpec, TensorSpec
from egretta.kernels.errors import CodeError, SiteError


def read_bytes(path: Path) -> bytes:
    """The file's content, or a SiteError that says what to do."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise SiteError(
            f"cannot read the model {path}: {error.strerror}",
            hint="check the path under [inference] models, and that the file is there on the worker",
        ) from error


def load(path: Path) -> tuple[ModelSpec, dict[str, NDArray[Any]]]:
    """A model's contract and its initializers by name."""
    import onnx
    from google.protobuf.message import DecodeError
    from onnx import numpy_helper

    try:
        model = onnx.load_model_from_string(read_bytes(path))
        onnx.checker.check_model(model)
    except (DecodeError, onnx.checker.ValidationError) as error:
        raise CodeError(
            f"{path} is not a valid ONNX model: {str(error).strip().splitlines()[0]}",
            hint="export the model again, or leave out [inference] models to use the shipped ones",
        ) from error
    spec = ModelSpec(
        model.graph.name,
        tuple(_tensor(value) for value in model.graph.input),
        tuple(_tensor(value) for value in model.graph.output),
        {entry.key: entry.value for entry in model.metadata_props},
    )
    weights = {w.name: numpy_helper.to_array(w) for w in model.graph.initializer}
    return spec, weights


def _tensor(value: Any) -> TensorSpec:
    import onnx

    tensor = value.type.tensor_type
    shape = tuple(d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim)
    return TensorSpec(value.name, np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)), shape)


def check_inputs(spec: ModelSpec, inputs: Any) -> None:
    """Raise CodeError where arrays are missing, or differ in type or shape from the contract."""
    for wanted in spec.inputs:
        array = inputs.get(wanted.name)
        if array is None:
            raise CodeError(
                f"model {spec.name} needs an input {wanted.name!r}, the pipeline gives {sorted(inputs)}",
                hint="use a model with the inputs that its model card names",
            )
        fits = array.ndim == len(wanted.shape) and all(
            size in (-1, have) for size, have in zip(wanted.shape, array.shape, strict=True)
        )
        if array.dtype != wanted.dtype or not fits:
            raise CodeError(
                f"input {wanted.name!r} of model {spec.name} is {array.dtype}{list(array.shape)}, "
                f"the model takes {wanted.dtype}{list(wanted.shape)}",
                hint="use a model with the inputs that its model card names",
            )
