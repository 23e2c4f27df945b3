"""ONNX Runtime on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egretta.engines.onnx_file import check_inputs, read_bytes
from egretta.engines.protocol import Arrays, ModelSpec, TensorSpec
from egretta.kernels.errors import CodeError

_DTYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
    "tensor(uint8)": np.uint8,
}


class OnnxRuntimeEngine:
    """Any ONNX model, run as it is."""

    def __init__(self, path: Path, *, threads: int = 1) -> None:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        content = read_bytes(path)
        try:
            self._session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            # ONNX Runtime's exceptions share no public base class
            raise CodeError(
                f"ONNX Runtime cannot load {path}: {str(error).strip().splitlines()[0]}",
                hint="export the model again, or leave out [inference] models to use the shipped ones",
            ) from error
        meta = self._session.get_modelmeta()
        self._spec = ModelSpec(
            meta.graph_name,
            tuple(_tensor(value) for value in self._session.get_inputs()),
            tuple(_tensor(value) for value in self._session.get_outputs()),
            dict(meta.custom_metadata_map),
        )

    @property
    def spec(self) -> ModelSpec:
        """The contract of the loaded model."""
        return self._spec

    def run(self, inputs: Arrays) -> dict[str, NDArray[Any]]:
        """All outputs for one batch."""
        check_inputs(self._spec, inputs)
        names = [output.name for output in self._spec.outputs]
        try:
            arrays = self._session.run(names, {value.name: inputs[value.name] for value in self._spec.inputs})
        except Exception as error:
            raise CodeError(
                f"ONNX Runtime failed in model {self._spec.name}: {str(error).strip().splitlines()[0]}",
                hint="run the unit by hand with the shipped models to see whether the model is at fault",
            ) from error
        return dict(zip(names, arrays, strict=True))

    def close(self) -> None:
        """Release the session."""
        del self._session


def _tensor(value: Any) -> TensorSpec:
    shape = tuple(size if isinstance(size, int) else -1 for size in value.shape)
    return TensorSpec(value.name, np.dtype(_DTYPES.get(value.type, np.object_)), shape)
