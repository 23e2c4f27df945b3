"""The embedding network on the CPU: queries and keys of hits.

The same function as the ONNX model ``velo-embedding`` (engines/training/embedding.py): a small network
of a hit's radius and z, whose first output is turned to the hit's azimuth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from egretta.kernels.batches import Float32

# Rows per block: what a layer makes of them stays in the second-level cache.
_BLOCK = 8192


@dataclass(frozen=True, slots=True)
class EmbeddingWeights:
    """Dense layers in order, each a float32 matrix (inputs, outputs) and its bias."""

    layers: tuple[tuple[Float32, Float32], ...]

    @property
    def dimensions(self) -> int:
        """Coordinates of a query or key."""
        return int(self.layers[-1][0].shape[1] // 2 + 1)


def embed(position: Float32, weights: EmbeddingWeights) -> tuple[Float32, Float32]:
    """Queries and keys, float32[hits, dimensions] each, of ``position`` float32[hits, 3] in mm."""
    query = np.empty((len(position), weights.dimensions), np.float32)
    key = np.empty_like(query)
    half = weights.dimensions - 1
    for begin in range(0, len(position), _BLOCK):
        rows = slice(begin, begin + _BLOCK)
        x, y, z = position[rows, 0], position[rows, 1], position[rows, 2]
        radius = np.sqrt(x * x + y * y + np.float32(1e-6))
        out = np.stack((radius / np.float32(20), z / np.float32(400), 5 / (radius + np.float32(5))), axis=1)
        for number, (matrix, bias) in enumerate(weights.layers):
            out = out @ matrix
            out += bias
            if number < len(weights.layers) - 1:
                np.maximum(out, 0, out=out)
        for values, block in ((query[rows], out[:, :half]), (key[rows], out[:, half:])):
            np.multiply(x / radius, block[:, 0], out=values[:, 0])
            np.multiply(y / radius, block[:, 0], out=values[:, 1])
            values[:, 2:] = block[:, 1:]
    return query, key
