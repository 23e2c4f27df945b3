"""Our own kernels behind the engine protocol, with the weights of the same ONNX files.

Networks of some thousand weights spend their time in an inference engine on moving what the graph gathers and
scatters; kernels written for the network do not. Only models that Egretta's training exports fit.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from egretta.engines.onnx_file import check_inputs, load
from egretta.engines.protocol import Arrays, ModelSpec
from egretta.kernels.embedding import EmbeddingWeights, embed
from egretta.kernels.errors import CodeError
from egretta.kernels.gnn import GnnWeights, MessageWeights, StepWeights, Workspace, classify

Weights = dict[str, NDArray[Any]]
Outputs = dict[str, NDArray[Any]]

_HINT = 'export it with Egretta\'s training, or set engine = "onnxruntime" under [inference]'


class FusedEngine:
    """A model that a kernel of ours computes."""

    def __init__(self, path: Path, *, threads: int = 1) -> None:
        del threads  # NumPy's BLAS has its threads set once a process
        self._spec, weights = load(path)
        build = _KERNELS.get(self._spec.name)
        if build is None:
            raise CodeError(
                f"no fused kernel computes the model {self._spec.name!r} of {path}",
                hint='set engine = "onnxruntime" under [inference]; fused kernels exist for '
                + ", ".join(sorted(_KERNELS)),
            )
        try:
            self._compute = build(weights)
        except KeyError as error:
            raise CodeError(
                f"{path} calls itself {self._spec.name} but has no weights named {error}",
                hint=_HINT,
            ) from error
        except (ValueError, IndexError) as error:
            raise CodeError(
                f"{path} calls itself {self._spec.name} but has weights of other shapes: {error}", hint=_HINT
            ) from error

    @property
    def spec(self) -> ModelSpec:
        """The contract of the loaded model."""
        return self._spec

    def run(self, inputs: Arrays) -> Outputs:
        """All outputs for one batch."""
        check_inputs(self._spec, inputs)
        return self._compute(inputs)

    def close(self) -> None:
        """Nothing is held."""


def _embedding(weights: Weights) -> Callable[[Arrays], Outputs]:
    number, layers = 0, []
    while f"layer{number}" in weights or number == 0:
        layers.append((weights[f"layer{number}"], weights[f"layer{number}_bias"]))
        number += 1
    parameters = EmbeddingWeights(tuple(layers))

    def compute(inputs: Arrays) -> Outputs:
        query, key = embed(inputs["position"], parameters)
        return {"query": query, "key": key}

    return compute


def _message(weights: Weights, prefix: str) -> MessageWeights:
    return MessageWeights(
        np.concatenate((weights[f"{prefix}first"], weights[f"{prefix}second"]), axis=1),
        weights[f"{prefix}first_bias"],
        weights[f"{prefix}kink"],
    )


def _gnn(weights: Weights) -> Callable[[Arrays], Outputs]:
    steps: list[StepWeights] = []
    while f"step{len(steps)}_rival" in weights:
        prefix = f"step{len(steps)}_"
        rival, advance = weights[prefix + "rival"], weights[prefix + "advance"]
        seen, leaving, entering = np.split(advance, np.cumsum([len(rival), rival.shape[1]]))
        steps.append(
            StepWeights(
                _message(weights, prefix),
                np.concatenate((rival, seen), axis=1),
                leaving,
                entering,
                weights[prefix + "rival_bias"],
                weights[prefix + "advance_bias"],
            )
        )
    parameters = GnnWeights(
        weights["encode"],
        weights["encode_bias"],
        tuple(steps),
        weights["gate"][:, 0].copy(),
        float(weights["gate_bias"][0]),
        _message(weights, "last_"),
        weights["triplet"][:, 0].copy(),
        float(weights["triplet_bias"][0]),
    )

    workspace = Workspace()

    def compute(inputs: Arrays) -> Outputs:
        source, target = inputs["source"], inputs["target"]
        first, second = inputs["first"], inputs["second"]
        gate, triplet = classify(inputs["position"], source, target, first, second, parameters, workspace)
        return {"gate_logit": gate, "triplet_logit": triplet}

    return compute


_KERNELS: dict[str, Callable[[Weights], Callable[[Arrays], Outputs]]] = {
    "velo-embedding": _embedding,
    "velo-gnn": _gnn,
}
