"""The triplet graph network on the CPU: BLAS for its dense layers, Numba for all that follows the graph.

The same function as the ONNX model ``velo-gnn`` (engines/training/gnn.py says what it computes and why). It
works event by event, so that an event's rows stay in the cache from layer to layer. The floor is the dense layers'
``steps * (2 S M + (S + 2 M) R + (S + 2 M + 2 R) S) + 2 S M`` multiply-adds an edge, for widths S of the state,
M of the messages and R of the rivals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from egretta.kernels.batches import Float32, Int32

N_EDGE_FEATURES = 8
N_TRIPLET_FEATURES = 5
# Events are joined into blocks of at least this many edges, which spreads the cost of the calls.
_BLOCK_EDGES = 4096


@dataclass(frozen=True, slots=True)
class MessageWeights:
    """``said`` float32[S, 2 M], what an edge says as first and as second of a triplet, bias float32[M] for
    the former; ``kink`` float32[5, M]."""

    said: Float32
    bias: Float32
    kink: Float32


@dataclass(frozen=True, slots=True)
class StepWeights:
    """One step of message passing: ``rival`` float32[S + 2 M, R], ``advance`` float32[S + 2 M + 2 R, S], with
    their biases."""

    message: MessageWeights
    rival: Float32
    rival_bias: Float32
    advance: Float32
    advance_bias: Float32


@dataclass(frozen=True, slots=True)
class GnnWeights:
    """All weights, float32, matrices as (inputs, outputs): ``encode`` [8, S] with its bias [S], the steps, and
    the read-out: ``edge`` [S] and ``triplet`` [M] with their biases."""

    encode: Float32
    encode_bias: Float32
    steps: tuple[StepWeights, ...]
    last: MessageWeights
    edge: Float32
    edge_bias: float
    triplet: Float32
    triplet_bias: float


def classify(
    position: Float32, source: Int32, target: Int32, first: Int32, second: Int32, weights: GnnWeights
) -> tuple[Float32, Float32]:
    """Logits of all edges, float32[edges], and of all triplets, float32[triplets].

    ``position`` float32[hits, 3] in mm; the graph is as :class:`egretta.kernels.triplets.Graph` has it:
    edges ascend by source and triplets by first edge. Edges must have a positive dz.
    """
    edge_logit = np.empty(len(source), np.float32)
    triplet_logit = np.empty(len(first), np.float32)
    for hits, edges, triplets in _blocks(source, target, first):
        edge_logit[edges], triplet_logit[triplets] = _classify_block(
            position[hits],
            source[edges] - np.int32(hits.start),
            target[edges] - np.int32(hits.start),
            first[triplets] - np.int32(edges.start),
            second[triplets] - np.int32(edges.start),
            weights,
        )
    return edge_logit, triplet_logit


def _blocks(source: Int32, target: Int32, first: Int32) -> Iterator[tuple[slice, slice, slice]]:
    """Hits, edges and triplets of parts of the graph that no edge joins: events, a few together."""
    if len(source) == 0:
        return
    furthest = np.maximum.accumulate(target)
    cuts = np.flatnonzero(source[1:] > furthest[:-1]) + 1
    begin = 0
    for end in [*cuts.tolist(), len(source)]:
        if end - begin < _BLOCK_EDGES and end < len(source):
            continue
        hits = slice(int(source[begin]), int(furthest[end - 1]) + 1)
        t0, t1 = np.searchsorted(first, (begin, end))
        yield hits, slice(begin, end), slice(int(t0), int(t1))
        begin = end


def _classify_block(
    position: Float32, source: Int32, target: Int32, first: Int32, second: Int32, weights: GnnWeights
) -> tuple[Float32, Float32]:
    n_state, n_message = weights.encode.shape[1], weights.last.bias.shape[0]
    n_rival = weights.steps[0].rival.shape[1] if weights.steps else 0
    n_seen = n_state + 2 * n_message
    n_edges = len(source)
    features = np.empty((n_edges, N_EDGE_FEATURES), np.float32)
    kink = np.empty((len(first), N_TRIPLET_FEATURES), np.float32)
    slope = np.empty((n_edges, 4), np.float32)
    _edge_features(position, source, target, features, slope)
    _triplet_features(slope, first, second, kink)
    # one row an edge: state, strongest message onward and back, strongest rivals at either end
    row = np.empty((n_edges, n_seen + 2 * n_rival), np.float32)
    state, seen = row[:, :n_state], row[:, :n_seen]
    stride, flat = row.shape[1], _flat(row)
    renew = _state_kernel(n_state)
    renew(_flat(features @ weights.encode), weights.encode_bias, flat, stride)
    send, read_out = _message_kernels(n_message)
    compete = _rival_kernel(n_rival)
    for step in weights.steps:
        said, kinks = _say(state, kink, step.message)
        send(said, kinks, first, second, flat, stride, n_state)
        compete(
            _flat(seen @ step.rival), step.rival_bias, source, target, len(position), flat, stride, n_seen
        )
        renew(_flat(row @ step.advance), step.advance_bias, flat, stride)
    triplet_logit = np.empty(len(first), np.float32)
    said, kinks = _say(state, kink, weights.last)
    read_out(said, kinks, first, second, weights.triplet, np.float32(weights.triplet_bias), triplet_logit)
    return state @ weights.edge + np.float32(weights.edge_bias), triplet_logit


def _say(state: Float32, kink: Float32, weights: MessageWeights) -> tuple[Float32, Float32]:
    """What each edge and each kink adds to a message, flat; the bias goes with the kink."""
    return _flat(state @ weights.said), _flat(kink @ weights.kink + weights.bias)


def _flat(rows: Float32) -> Float32:
    return rows.reshape(-1)


@njit(cache=True, nogil=True, fastmath={"contract"})
def _edge_features(position, source, target, out, slopes):  # type: ignore[no-untyped-def]
    f = np.float32
    for e in range(len(source)):
        i, j = source[e], target[e]
        xi, yi, zi = position[i, 0], position[i, 1], position[i, 2]
        xj, yj, dz = position[j, 0], position[j, 1], position[j, 2] - position[i, 2]
        inverse = f(1) / dz
        tx, ty = (xj - xi) * inverse, (yj - yi) * inverse
        slope2 = tx * tx + ty * ty + f(1e-6)
        slope = np.sqrt(slope2)
        radius_i, radius_j = np.sqrt(xi * xi + yi * yi), np.sqrt(xj * xj + yj * yj)
        impact = abs(xi * ty - yi * tx) / slope
        z_beam = zi - (xi * tx + yi * ty) / slope2
        out[e, 0] = radius_i * f(1 / 20)
        out[e, 1] = radius_j * f(1 / 20)
        out[e, 2] = zi * f(1 / 400)
        out[e, 3] = dz * f(1 / 50)
        out[e, 4] = slope * f(4)
        out[e, 5] = np.log(impact + f(0.05))
        out[e, 6] = min(max(z_beam, f(-500)), f(500)) * f(1 / 200)
        out[e, 7] = (radius_j - radius_i) * inverse * f(4)
        slopes[e, 0], slopes[e, 1], slopes[e, 2], slopes[e, 3] = tx, ty, slope, inverse


@njit(cache=True, nogil=True, fastmath={"contract"})
def _triplet_features(slopes, first, second, out):  # type: ignore[no-untyped-def]
    f = np.float32
    for t in range(len(first)):
        a, b = first[t], second[t]
        tx, ty, slope, in1, in2 = slopes[a, 0], slopes[a, 1], slopes[a, 2], slopes[a, 3], slopes[b, 3]
        kx, ky = slopes[b, 0] - tx, slopes[b, 1] - ty
        kink2 = kx * kx + ky * ky
        resolution2 = f(0.015**2) * ((in1 + in2) * (in1 + in2) + in1 * in1 + in2 * in2)
        out[t, 0] = np.log(kink2 / resolution2 + f(0.1)) * f(0.5)
        out[t, 1] = np.log(kink2 * f(1e5) + f(0.1)) * f(0.5)
        out[t, 2] = abs(kx * tx + ky * ty) / slope * f(100)
        out[t, 3] = abs(kx * ty - ky * tx) / slope * f(100)
        out[t, 4] = f(1 / 50) / in2


# The widths below are constants of the compiled code: a row is then one or two registers, while a loop of unknown
# length would spend its time on the remainder.


@cache
def _message_kernels(width: int) -> tuple[Callable[..., None], Callable[..., None]]:
    zero = np.float32(0)
    # Flat arrays and unsigned places: Numba would check a signed index for Python's negative ones, lane by lane.
    one, two = np.uintp(width), np.uintp(2 * width)

    @njit(cache=True, nogil=True, fastmath={"contract", "nsz", "nnan"})
    def send(said, kink, first, second, row, stride, begin):  # type: ignore[no-untyped-def]
        """Each triplet's message to both its edges; the maxima start from zero, which rectifies them."""
        stride, begin = np.uintp(stride), np.uintp(begin)
        message = np.empty(width, np.float32)
        for e in range(len(said) // (2 * width)):
            at = np.uintp(e) * stride + begin
            for o in range(2 * width):
                row[at + np.uintp(o)] = zero
        for t in range(len(first)):
            a, b, at = np.uintp(first[t]), np.uintp(second[t]), np.uintp(t) * one
            said_a, said_b = a * two, b * two + one
            onward, back = a * stride + begin, b * stride + begin + one
            for o in range(width):
                k = np.uintp(o)
                message[k] = said[said_a + k] + said[said_b + k] + kink[at + k]
            for o in range(width):
                k = np.uintp(o)
                row[onward + k] = max(row[onward + k], message[k])
            for o in range(width):
                k = np.uintp(o)
                row[back + k] = max(row[back + k], message[k])

    @njit(cache=True, nogil=True, fastmath={"contract", "nsz", "nnan", "reassoc"})
    def read_out(said, kink, first, second, weight, offset, logit):  # type: ignore[no-untyped-def]
        for t in range(len(first)):
            said_a, said_b = np.uintp(first[t]) * two, np.uintp(second[t]) * two + one
            at = np.uintp(t) * one
            total = zero
            for o in range(width):
                k = np.uintp(o)
                total += max(said[said_a + k] + said[said_b + k] + kink[at + k], zero) * weight[k]
            logit[t] = total + offset

    return send, read_out


@cache
def _state_kernel(width: int) -> Callable[..., None]:
    one = np.uintp(width)

    @njit(cache=True, nogil=True, fastmath={"contract", "nsz", "nnan"})
    def renew(state, bias, row, stride):  # type: ignore[no-untyped-def]
        """The rectified state at the head of each row."""
        for e in range(len(state) // width):
            at, to = np.uintp(e) * one, np.uintp(e) * np.uintp(stride)
            for o in range(width):
                k = np.uintp(o)
                row[to + k] = max(state[at + k] + bias[k], np.float32(0))

    return renew


@cache
def _rival_kernel(width: int) -> Callable[..., Any]:
    one = np.uintp(width)

    @njit(cache=True, nogil=True, fastmath={"contract", "nsz", "nnan"})
    def compete(rival, bias, source, target, n_hits, row, stride, begin):  # type: ignore[no-untyped-def]
        """The strongest edge that leaves each edge's source, and that enters its target."""
        stride, begin = np.uintp(stride), np.uintp(begin)
        leaving = np.zeros(n_hits * width, np.float32)
        entering = np.zeros(n_hits * width, np.float32)
        value = np.empty(width, np.float32)
        for e in range(len(source)):
            i, j, at = np.uintp(source[e]) * one, np.uintp(target[e]) * one, np.uintp(e) * one
            for o in range(width):
                k = np.uintp(o)
                value[k] = rival[at + k] + bias[k]
            for o in range(width):
                k = np.uintp(o)
                leaving[i + k] = max(leaving[i + k], value[k])
            for o in range(width):
                k = np.uintp(o)
                entering[j + k] = max(entering[j + k], value[k])
        for e in range(len(source)):
            i, j = np.uintp(source[e]) * one, np.uintp(target[e]) * one
            at = np.uintp(e) * stride + begin
            for o in range(width):
                k = np.uintp(o)
                row[at + k] = leaving[i + k]
            for o in range(width):
                k = np.uintp(o)
                row[at + one + k] = entering[j + k]

    return compete
