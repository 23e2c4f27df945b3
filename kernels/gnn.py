"""The triplet graph network on the CPU: BLAS for its dense layers, Numba for all that follows the graph.

The same function as the ONNX model ``velo-gnn`` (engines/training/gnn.py says what it computes and why). It
works event by event, so that an event's rows stay in the cache from layer to layer. Edges that the gate
closes after the first step are taken out of the graph, so that the other steps cost only what they see. The
floor is the dense layers' ``2 S M + (S + 2 M) (R + S')`` multiply-adds an edge and step, for widths S of the
state, S' of the next state, M of the messages and R of the rivals.
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
# The logit of triplets that the gate has closed: as good as never.
CLOSED_LOGIT = -20.0
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
    """One step of message passing.

    ``rival_advance`` float32[S + 2 M, R + S'] takes what an edge has seen to its strength as a rival and, in
    the same product, to the part of its next state, S' wide, that depends on it alone; ``leaving`` and
    ``entering`` float32[R, S'] take the strongest rivals at its source and target to the other parts.
    """

    message: MessageWeights
    rival_advance: Float32
    leaving: Float32
    entering: Float32
    rival_bias: Float32
    advance_bias: Float32


@dataclass(frozen=True, slots=True)
class GnnWeights:
    """All weights, float32, matrices as (inputs, outputs).

    ``encode`` [8, S] with its bias [S], at least one step, the ``gate`` [S'] after the first one, and the
    read-out: a last message and ``triplet`` [M]; gate and triplet with their biases.
    """

    encode: Float32
    encode_bias: Float32
    steps: tuple[StepWeights, ...]
    gate: Float32
    gate_bias: float
    last: MessageWeights
    triplet: Float32
    triplet_bias: float


class Workspace:
    """Buffers that are used again from block to block and from call to call, from one thread at a time.

    Fresh memory costs more here than what is done with it: the system clears every page of it first.
    """

    def __init__(self) -> None:
        self._buffers: dict[str, Float32] = {}

    def rows(self, name: str, n: int, width: int) -> Float32:
        """An uninitialised float32[n, width]."""
        buffer = self._buffers.get(name)
        if buffer is None or buffer.size < n * width:
            buffer = self._buffers[name] = np.empty(n * width * 5 // 4, np.float32)
        return buffer[: n * width].reshape(n, width)

    def product(self, name: str, rows: Float32, matrix: Float32) -> Float32:
        """rows @ matrix."""
        return np.matmul(rows, matrix, out=self.rows(name, len(rows), matrix.shape[1]))


def classify(
    position: Float32,
    source: Int32,
    target: Int32,
    first: Int32,
    second: Int32,
    weights: GnnWeights,
    workspace: Workspace | None = None,
) -> tuple[Float32, Float32]:
    """Gate logits of all edges, float32[edges], and logits of all triplets, float32[triplets].

    A triplet with an edge that the gate has closed has ``CLOSED_LOGIT``.

    ``position`` float32[hits, 3] in mm; the graph is as :class:`egretta.kernels.triplets.Graph` has it:
    edges ascend by source and triplets by first edge. Edges must have a positive dz.
    """
    gate_logit = np.empty(len(source), np.float32)
    triplet_logit = np.empty(len(first), np.float32)
    workspace = workspace or Workspace()
    for hits, edges, triplets in _blocks(source, target, first):
        gate_logit[edges], triplet_logit[triplets] = _classify_block(
            position[hits],
            source[edges] - np.int32(hits.start),
            target[edges] - np.int32(hits.start),
            first[triplets] - np.int32(edges.start),
            second[triplets] - np.int32(edges.start),
            weights,
            workspace,
        )
    return gate_logit, triplet_logit


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
    position: Float32,
    source: Int32,
    target: Int32,
    first: Int32,
    second: Int32,
    weights: GnnWeights,
    work: Workspace,
) -> tuple[Float32, Float32]:
    n_edges, n_triplets = len(source), len(first)
    features = work.rows("features", n_edges, N_EDGE_FEATURES)
    kink = work.rows("kink", len(first), N_TRIPLET_FEATURES)
    slope = work.rows("slope", n_edges, 4)
    _edge_features(position, source, target, features, slope)
    _triplet_features(slope, first, second, kink)
    begin, *further = weights.steps
    state = _start_state(work.product("encoded", features, weights.encode), weights.encode_bias)
    state = _advance(state, len(position), source, target, first, second, kink, begin, work)
    gate_logit = state @ weights.gate + np.float32(weights.gate_bias)
    state, source, target, triplet, first, second, kink = _opened(
        gate_logit, state, source, target, first, second, kink
    )
    for step in further:
        state = _advance(state, len(position), source, target, first, second, kink, step, work)
    last = weights.last
    said = _flat(work.product("said", state, last.said))
    bias = np.float32(weights.triplet_bias)
    triplet_logit = np.full(n_triplets, CLOSED_LOGIT, np.float32)
    _, read_out = _message_kernels(len(last.bias))
    read_out(said, kink, last.kink, last.bias, first, second, weights.triplet, bias, triplet, triplet_logit)
    return gate_logit, triplet_logit


def _advance(
    state: Float32,
    n_hits: int,
    source: Int32,
    target: Int32,
    first: Int32,
    second: Int32,
    kink: Float32,
    step: StepWeights,
    work: Workspace,
) -> Float32:
    """The edges' next state, float32[edges, S'], which lies in ``work`` until the next call replaces it."""
    message = step.message
    n_state, n_message = state.shape[1], len(message.bias)
    n_rival, n_next = step.leaving.shape
    # one row an edge: its state, the strongest message onward, the strongest back
    n_seen = n_state + 2 * n_message
    seen = work.rows("seen", len(source), n_seen)
    send, _ = _message_kernels(n_message)
    compete, advance = _rival_kernels(n_rival, n_next)
    said = _flat(work.product("said", state, message.said))
    seen[:, :n_state] = state
    send(said, kink, message.kink, message.bias, first, second, _flat(seen), n_seen, n_state)
    both = _flat(work.product("both", seen, step.rival_advance))
    leaving, entering = compete(both, step.rival_bias, source, target, n_hits)
    from_source, from_target = _flat(leaving @ step.leaving), _flat(entering @ step.entering)
    following = work.rows("state", len(source), n_next)
    advance(both, from_source, from_target, step.advance_bias, source, target, _flat(following))
    return following


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


@njit(cache=True, nogil=True)
def _start_state(encoded, bias):  # type: ignore[no-untyped-def]
    """The first state, in place."""
    for e in range(encoded.shape[0]):
        for o in range(encoded.shape[1]):
            encoded[e, o] = max(encoded[e, o] + bias[o], np.float32(0))
    return encoded


@njit(cache=True, nogil=True)
def _opened(gate_logit, state, source, target, first, second, kink):  # type: ignore[no-untyped-def]
    """The part of the graph that the gate leaves: states, source, target; the number of each triplet left in
    the whole graph, its edges in the new one, its kink."""
    place = np.empty(len(gate_logit), np.int32)
    n_edges = 0
    for e in range(len(gate_logit)):
        place[e] = n_edges if gate_logit[e] > 0 else -1
        n_edges += gate_logit[e] > 0
    left = np.empty((n_edges, state.shape[1]), np.float32)
    left_source, left_target = np.empty(n_edges, np.int32), np.empty(n_edges, np.int32)
    for e in range(len(gate_logit)):
        if place[e] >= 0:
            left_source[place[e]], left_target[place[e]] = source[e], target[e]
            for o in range(state.shape[1]):
                left[place[e], o] = state[e, o]
    triplet = np.empty(len(first), np.int32)
    n_triplets = np.uintp(0)
    for t in range(len(first)):
        # no branch: each is written, and the next one over it unless it is open
        triplet[n_triplets] = t
        n_triplets += np.uintp((place[first[t]] >= 0) & (place[second[t]] >= 0))
    triplet = triplet[: np.int64(n_triplets)]
    left_first, left_second = np.empty(len(triplet), np.int32), np.empty(len(triplet), np.int32)
    left_kink = np.empty((len(triplet), kink.shape[1]), np.float32)
    for n in range(len(triplet)):
        t = triplet[n]
        left_first[n], left_second[n] = place[first[t]], place[second[t]]
        for o in range(kink.shape[1]):
            left_kink[n, o] = kink[t, o]
    return left, left_source, left_target, triplet, left_first, left_second, left_kink


# The widths below are constants of the compiled code: a row is then one or two registers, while a loop of
# unknown length would spend its time on the remainder.


@cache
def _message_kernels(width: int) -> tuple[Callable[..., None], Callable[..., None]]:
    zero = np.float32(0)
    # Flat arrays and unsigned places, because Numba checks signed ones for Python's negative indices.
    one, two = np.uintp(width), np.uintp(2 * width)

    @njit(cache=True, nogil=True, fastmath={"contract", "nsz", "nnan"})
    def send(said, kink, kink_weight, bias, first, second, row, stride, begin):  # type: ignore[no-untyped-def]
        """Each triplet's message to both its edges; the maxima start from zero, which rectifies them."""
        stride, begin = np.uintp(stride), np.uintp(begin)
        message = np.empty(width, np.float32)
        for e in range(len(said) // (2 * width)):
            at = np.uintp(e) * stride + begin
            for o in range(2 * width):
                row[at + np.uintp(o)] = zero
        for t in range(len(first)):
            a, b = np.uintp(first[t]), np.uintp(second[t])
            said_a, said_b = a * two, b * two + one
            onward, back = a * stride + begin, b * stride + begin + one
            k0, k1, k2, k3, k4 = kink[t, 0], kink[t, 1], kink[t, 2], kink[t, 3], kink[t, 4]
            for o in range(width):
                k = np.uintp(o)
                message[k] = (
                    (said[said_a + k] + said[said_b + k] + bias[k])
                    + (k0 * kink_weight[0, k] + k1 * kink_weight[1, k] + k2 * kink_weight[2, k])
                    + (k3 * kink_weight[3, k] + k4 * kink_weight[4, k])
                )
            for o in range(width):
                k = np.uintp(o)
                row[onward + k] = max(row[onward + k], message[k])
            for o in range(width):
                k = np.uintp(o)
                row[back + k] = max(row[back + k], message[k])

    @njit(cache=True, nogil=True, fastmath={"contract", "nsz", "nnan", "reassoc"})
    def read_out(said, kink, kink_weight, bias, first, second, weight, offset, place, logit):  # type: ignore[no-untyped-def]
        for t in range(len(first)):
            said_a, said_b = np.uintp(first[t]) * two, np.uintp(second[t]) * two + one
            k0, k1, k2, k3, k4 = kink[t, 0], kink[t, 1], kink[t, 2], kink[t, 3], kink[t, 4]
            total = zero
            for o in range(width):
                k = np.uintp(o)
                message = (
                    (said[said_a + k] + said[said_b + k] + bias[k])
                    + (k0 * kink_weight[0, k] + k1 * kink_weight[1, k] + k2 * kink_weight[2, k])
                    + (k3 * kink_weight[3, k] + k4 * kink_weight[4, k])
                )
                total += max(message, zero) * weight[k]
            logit[place[t]] = total + offset

    return send, read_out


@cache
def _rival_kernels(n_rival: int, n_state: int) -> tuple[Callable[..., Any], Callable[..., None]]:
    zero = np.float32(0)
    rivals, states, stride = np.uintp(n_rival), np.uintp(n_state), np.uintp(n_rival + n_state)

    @njit(cache=True, nogil=True, fastmath={"contract", "nsz", "nnan"})
    def compete(both, bias, source, target, n_hits):  # type: ignore[no-untyped-def]
        """The strongest edge that leaves each hit, and that enters it, float32[hits, n_rival] each."""
        leaving = np.zeros(n_hits * n_rival, np.float32)
        entering = np.zeros(n_hits * n_rival, np.float32)
        value = np.empty(n_rival, np.float32)
        for e in range(len(source)):
            i, j, at = np.uintp(source[e]) * rivals, np.uintp(target[e]) * rivals, np.uintp(e) * stride
            for o in range(n_rival):
                k = np.uintp(o)
                value[k] = both[at + k] + bias[k]
            for o in range(n_rival):
                k = np.uintp(o)
                leaving[i + k] = max(leaving[i + k], value[k])
            for o in range(n_rival):
                k = np.uintp(o)
                entering[j + k] = max(entering[j + k], value[k])
        return leaving.reshape(n_hits, n_rival), entering.reshape(n_hits, n_rival)

    @njit(cache=True, nogil=True, fastmath={"contract", "nsz", "nnan"})
    def advance(both, from_source, from_target, bias, source, target, state):  # type: ignore[no-untyped-def]
        """The next state."""
        for e in range(len(source)):
            at, to = np.uintp(e) * stride + rivals, np.uintp(e) * states
            i, j = np.uintp(source[e]) * states, np.uintp(target[e]) * states
            for o in range(n_state):
                k = np.uintp(o)
                total = (both[at + k] + bias[k]) + (from_source[i + k] + from_target[j + k])
                state[to + k] = max(total, zero)

    return compete, advance
