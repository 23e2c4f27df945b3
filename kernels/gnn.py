"""The triplet graph network as one fused kernel.

The same function as the ONNX model ``velo-gnn`` (see engines/training/gnn.py for what it computes and why),
event by event, so that an event's edges stay in the cache: nothing but the logits goes back to memory.
Per edge it does about ``2 * steps * (2 * state * message + (state + 2 * message) * (state + rival))``
operations, and per triplet little; that is its floor, memory traffic is not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from egretta.kernels.batches import Float32, Int64
from egretta.kernels.triplets import Graph

N_EDGE_FEATURES = 8
N_TRIPLET_FEATURES = 5


@dataclass(frozen=True, slots=True)
class GnnWeights:
    """Weights of the network, float32, every matrix as (inputs, outputs).

    With S = state, M = message, R = rival and N steps: ``encode`` (8, S) and bias (S); by step ``first``
    and ``second`` (N, S, M), bias (N, M), ``kink`` (N, 5, M), ``rival`` (N, S + 2M, R) and bias (N, R),
    ``advance`` (N, S + 2M + 2R, S) and bias (N, S). The read-out's are ``last_first``, ``last_second``
    (S, M), bias (M), ``last_kink`` (5, M), ``triplet`` (M), ``edge`` (S) and their biases in ``offset`` (2):
    edge, triplet.
    """

    encode: Float32
    encode_bias: Float32
    first: Float32
    message_bias: Float32
    second: Float32
    kink: Float32
    rival: Float32
    rival_bias: Float32
    advance: Float32
    advance_bias: Float32
    last_first: Float32
    last_bias: Float32
    last_second: Float32
    last_kink: Float32
    edge: Float32
    triplet: Float32
    offset: Float32

    @property
    def n_steps(self) -> int:
        """Number of message-passing steps."""
        return len(self.first)


def classify(
    graph: Graph, hit_offsets: Int64, x: Float32, y: Float32, z: Float32, weights: GnnWeights
) -> tuple[Float32, Float32]:
    """Logits of all edges, float32[edges], and of all triplets, float32[triplets].

    ``hit_offsets`` int64[events + 1] cuts the hits, ``x``, ``y``, ``z`` float32 in mm, into events. No edge
    joins two events.
    """
    edge_offsets = np.searchsorted(graph.source, hit_offsets)
    triplet_offsets = np.searchsorted(graph.first, edge_offsets)
    w = weights
    return _classify(  # type: ignore[no-any-return]
        hit_offsets, edge_offsets, triplet_offsets,
        graph.source, graph.target, graph.first, graph.second, x, y, z,
        w.encode, w.encode_bias, w.first, w.message_bias, w.second, w.kink, w.rival, w.rival_bias,
        w.advance, w.advance_bias, w.last_first, w.last_bias, w.last_second, w.last_kink,
        w.edge, w.triplet, w.offset,
    )


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"})
def _dense(rows, columns, n, matrix, bias, out, out_column):  # type: ignore[no-untyped-def]
    """out[:, out_column:] = rows[:n, :columns] @ matrix + bias."""
    width = matrix.shape[1]
    for r in range(n):
        for o in range(width):
            out[r, out_column + o] = bias[o]
        for i in range(columns):
            value = rows[r, i]
            for o in range(width):
                out[r, out_column + o] += value * matrix[i, o]


@njit(cache=True, nogil=True)
def _rectify(rows, n, begin, end):  # type: ignore[no-untyped-def]
    for r in range(n):
        for o in range(begin, end):
            rows[r, o] = max(rows[r, o], np.float32(0))


@njit(cache=True, nogil=True, fastmath={"contract"})
def _edge_features(x, y, z, i, j, row):  # type: ignore[no-untyped-def]
    f = np.float32
    inverse = f(1) / (z[j] - z[i])
    tx, ty = (x[j] - x[i]) * inverse, (y[j] - y[i]) * inverse
    slope2 = tx * tx + ty * ty + f(1e-6)
    slope = np.sqrt(slope2)
    radius_i = np.sqrt(x[i] * x[i] + y[i] * y[i])
    radius_j = np.sqrt(x[j] * x[j] + y[j] * y[j])
    impact = abs(x[i] * ty - y[i] * tx) / slope
    z_beam = z[i] - (x[i] * tx + y[i] * ty) / slope2
    row[0] = radius_i * f(1 / 20)
    row[1] = radius_j * f(1 / 20)
    row[2] = z[i] * f(1 / 400)
    row[3] = (z[j] - z[i]) * f(1 / 50)
    row[4] = slope * f(4)
    row[5] = np.log(impact + f(0.05))
    row[6] = min(max(z_beam, f(-500)), f(500)) * f(1 / 200)
    row[7] = (radius_j - radius_i) * inverse * f(4)


@njit(cache=True, nogil=True, fastmath={"contract"})
def _triplet_features(x, y, z, i, j, k, row):  # type: ignore[no-untyped-def]
    f = np.float32
    in1, in2 = f(1) / (z[j] - z[i]), f(1) / (z[k] - z[j])
    tx, ty = (x[j] - x[i]) * in1, (y[j] - y[i]) * in1
    kx, ky = (x[k] - x[j]) * in2 - tx, (y[k] - y[j]) * in2 - ty
    slope = np.sqrt(tx * tx + ty * ty + f(1e-6))
    kink2 = kx * kx + ky * ky
    resolution2 = f(0.015**2) * ((in1 + in2) * (in1 + in2) + in1 * in1 + in2 * in2)
    row[0] = np.log(kink2 / resolution2 + f(0.1)) * f(0.5)
    row[1] = np.log(kink2 * f(1e5) + f(0.1)) * f(0.5)
    row[2] = abs(kx * tx + ky * ty) / slope * f(100)
    row[3] = abs(kx * ty - ky * tx) / slope * f(100)
    row[4] = (z[k] - z[j]) * f(1 / 50)


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"})
def _classify(  # type: ignore[no-untyped-def]
    hit_offsets, edge_offsets, triplet_offsets, source, target, first, second, x, y, z,
    encode, encode_bias, w_first, message_bias, w_second, w_kink, w_rival, rival_bias,
    w_advance, advance_bias, last_first, last_bias, last_second, last_kink, w_edge, w_triplet, offset,
):
    n_state, n_message, n_rival = encode.shape[1], last_first.shape[1], w_rival.shape[2]
    n_steps = len(w_first)
    n_events = len(hit_offsets) - 1
    most_hits = most_edges = most_triplets = 0
    for e in range(n_events):
        most_hits = max(most_hits, hit_offsets[e + 1] - hit_offsets[e])
        most_edges = max(most_edges, edge_offsets[e + 1] - edge_offsets[e])
        most_triplets = max(most_triplets, triplet_offsets[e + 1] - triplet_offsets[e])
    n_seen = n_state + 2 * n_message
    # one row an edge: state, strongest message onward and back, strongest rivals at either end
    row = np.empty((most_edges, n_seen + 2 * n_rival), np.float32)
    # what an edge says as the first and as the second of a triplet
    said = np.empty((most_edges, 2 * n_message), np.float32)
    rival = np.empty((most_edges, n_rival), np.float32)
    next_state = np.empty((most_edges, n_state), np.float32)
    kink = np.empty((most_triplets, N_TRIPLET_FEATURES), np.float32)
    leaving = np.empty((most_hits, n_rival), np.float32)
    entering = np.empty((most_hits, n_rival), np.float32)
    features = np.empty((most_edges, N_EDGE_FEATURES), np.float32)
    message = np.empty(n_message, np.float32)
    silent = np.zeros(n_message, np.float32)
    edge_logit = np.empty(len(source), np.float32)
    triplet_logit = np.empty(len(first), np.float32)
    zero = np.float32(0)
    for event in range(n_events):
        h0 = hit_offsets[event]
        e0, e1 = edge_offsets[event], edge_offsets[event + 1]
        t0, t1 = triplet_offsets[event], triplet_offsets[event + 1]
        n_hits, n_edges, n_triplets = hit_offsets[event + 1] - h0, e1 - e0, t1 - t0
        for e in range(n_edges):
            _edge_features(x, y, z, source[e0 + e], target[e0 + e], features[e])
        for t in range(n_triplets):
            a, b = first[t0 + t], second[t0 + t]
            _triplet_features(x, y, z, source[a], target[a], target[b], kink[t])
        _dense(features, N_EDGE_FEATURES, n_edges, encode, encode_bias, row, 0)
        _rectify(row, n_edges, 0, n_state)
        for step in range(n_steps + 1):
            last = step == n_steps
            if last:
                m_first, m_bias, m_second, m_kink = last_first, last_bias, last_second, last_kink
            else:
                m_first, m_bias = w_first[step], message_bias[step]
                m_second, m_kink = w_second[step], w_kink[step]
            _dense(row, n_state, n_edges, m_first, m_bias, said, 0)
            _dense(row, n_state, n_edges, m_second, silent, said, n_message)
            if last:
                for t in range(n_triplets):
                    a, b = first[t0 + t] - e0, second[t0 + t] - e0
                    for o in range(n_message):
                        message[o] = said[a, o] + said[b, n_message + o]
                    for i in range(N_TRIPLET_FEATURES):
                        value = kink[t, i]
                        for o in range(n_message):
                            message[o] += value * m_kink[i, o]
                    total = offset[1]
                    for o in range(n_message):
                        total += max(message[o], zero) * w_triplet[o]
                    triplet_logit[t0 + t] = total
                for e in range(n_edges):
                    total = offset[0]
                    for o in range(n_state):
                        total += row[e, o] * w_edge[o]
                    edge_logit[e0 + e] = total
                break
            for e in range(n_edges):
                for o in range(n_state, n_seen):
                    row[e, o] = zero
            for t in range(n_triplets):
                a, b = first[t0 + t] - e0, second[t0 + t] - e0
                for o in range(n_message):
                    message[o] = said[a, o] + said[b, n_message + o]
                for i in range(N_TRIPLET_FEATURES):
                    value = kink[t, i]
                    for o in range(n_message):
                        message[o] += value * m_kink[i, o]
                # the maxima start from zero, which rectifies the messages by the way
                for o in range(n_message):
                    row[a, n_state + o] = max(row[a, n_state + o], message[o])
                for o in range(n_message):
                    row[b, n_state + n_message + o] = max(row[b, n_state + n_message + o], message[o])
            _dense(row, n_seen, n_edges, w_rival[step], rival_bias[step], rival, 0)
            for h in range(n_hits):
                for o in range(n_rival):
                    leaving[h, o] = zero
                    entering[h, o] = zero
            for e in range(n_edges):
                i, j = source[e0 + e] - h0, target[e0 + e] - h0
                for o in range(n_rival):
                    leaving[i, o] = max(leaving[i, o], rival[e, o])
                for o in range(n_rival):
                    entering[j, o] = max(entering[j, o], rival[e, o])
            for e in range(n_edges):
                i, j = source[e0 + e] - h0, target[e0 + e] - h0
                for o in range(n_rival):
                    row[e, n_seen + o] = leaving[i, o]
                    row[e, n_seen + n_rival + o] = entering[j, o]
            _dense(row, n_seen + 2 * n_rival, n_edges, w_advance[step], advance_bias[step], next_state, 0)
            for e in range(n_edges):
                for o in range(n_state):
                    row[e, o] = max(next_state[e, o], zero)
    return edge_logit, triplet_logit
