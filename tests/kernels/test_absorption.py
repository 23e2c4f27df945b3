"""Tracks get the free hits that lie on them, by the rules of a plain reference."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from egretta.kernels.absorption import AbsorptionConfig, absorb
from egretta.kernels.geometry import N_MODULES, VeloGeometry

MODULE_Z = VeloGeometry.nominal().module_z.astype(float)


class OnTheEdgeError(Exception):
    """Rounding would decide."""


def reference(event, module, x, y, z, tracks, config):
    """The description's rules, hit by hit in double precision; ``event`` of each hit."""
    used = {h for track in tracks for h in track}
    result = []
    for track in tracks:
        held = {int(module[h]) for h in track}
        taken = list(track)
        lowest = max(0, min(held) - config.beyond_modules)
        highest = min(N_MODULES - 1, max(held) + config.beyond_modules)
        for m in range(lowest, highest + 1):
            if m in held:
                continue
            before = [h for h in track if module[h] < m]
            after = [h for h in track if module[h] > m]
            if not before:
                (a, _, b), end, slack = track[:3], track[0], config.beyond_mrad / 1000
            elif not after:
                (a, _, b), end, slack = track[-3:], track[-1], config.beyond_mrad / 1000
            else:
                a, b, end, slack = before[-1], after[0], before[-1], 0.0
            close = []
            for h in range(len(x)):
                if event[h] != event[a] or module[h] != m or h in used:
                    continue
                part = (z[h] - z[a]) / (z[b] - z[a])
                away = np.hypot(x[h] - x[a] - part * (x[b] - x[a]), y[h] - y[a] - part * (y[b] - y[a]))
                reach = config.between_mm + slack * abs(z[h] - z[end])
                if abs(away - reach) < 1e-3 or any(abs(away - other) < 1e-3 for other, _ in close):
                    raise OnTheEdgeError
                if away < reach:
                    close.append((away, h))
            if close:
                _, nearest = min(close)
                used.add(nearest)
                taken.append(nearest)
        result.append(sorted(taken, key=lambda h: z[h]))
    return result


def random_events(rng, n_events, n_tracks, n_free):
    """Nearly straight tracks with gaps, and free hits about them; tracks count hits in the whole batch."""
    offsets, modules, xs, ys, zs, tracks, events = [0], [], [], [], [], [], []
    for e in range(n_events):
        hits = []
        for t in range(n_tracks):
            x0, y0 = rng.uniform(-2, 2, 2)
            tx, ty = rng.uniform(-0.1, 0.1, 2)
            span = np.arange(first := rng.integers(0, 40), first + 12)
            chosen = np.sort(rng.choice(span, rng.integers(3, 7), replace=False))
            for m in span if n_free else chosen:
                z = MODULE_Z[m] + rng.choice([-0.581, 0.581])
                own = m in chosen
                scatter = 0.05 if own else rng.choice([0.02, 0.1, 0.3])
                for _ in range(1 if own else rng.integers(0, n_free)):
                    dx, dy = rng.normal(0, scatter, 2)
                    hits.append((int(m), x0 + tx * z + dx, y0 + ty * z + dy, z, t if own else -1))
        order = rng.permutation(len(hits))
        hits = sorted((hits[h] for h in order), key=lambda hit: hit[0])
        base = offsets[-1]
        tracks.extend([base + h for h, hit in enumerate(hits) if hit[4] == t] for t in range(n_tracks))
        for column, k in ((modules, 0), (xs, 1), (ys, 2), (zs, 3)):
            column.extend(hit[k] for hit in hits)
        events.extend([e] * len(hits))
        offsets.append(base + len(hits))
    x, y, z = (np.array(c, np.float32) for c in (xs, ys, zs))
    return np.array(offsets, np.int64), np.array(modules, np.int32), x, y, z, tracks, events


def absorbed(offsets, module, x, y, z, tracks, config):
    track_offsets = np.cumsum([0, *map(len, tracks)], dtype=np.int64)
    flat = np.array([h for track in tracks for h in track], np.int32)
    out_offsets, out = absorb(offsets, module, x, y, z, track_offsets, flat, config)
    assert out_offsets.dtype == np.int64
    assert out.dtype == np.int32
    assert len(out_offsets) == len(tracks) + 1
    assert out_offsets[-1] == len(out)
    return [out[a:b].tolist() for a, b in pairwise(out_offsets)]


CONFIGS = st.builds(
    AbsorptionConfig,
    between_mm=st.sampled_from([0.02, 0.1, 0.3]),
    beyond_mrad=st.sampled_from([0.0, 2.0, 10.0]),
    beyond_modules=st.integers(0, 4),
)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), CONFIGS)
def test_tracks_get_the_hits_of_the_reference(seed, n_events, n_tracks, n_free, config):
    *hits, tracks, event = random_events(np.random.default_rng(seed), n_events, n_tracks, n_free)
    _, module, x, y, z = hits
    try:
        expected = reference(event, module, *(a.astype(float) for a in (x, y, z)), tracks, config)
    except OnTheEdgeError:
        assume(False)
    assert absorbed(*hits, tracks, config) == expected


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), CONFIGS)
def test_no_hit_is_taken_twice_and_no_module_gets_two(seed, config):
    *hits, tracks, event = random_events(np.random.default_rng(seed), 3, 6, 4)
    _, module, _, _, z = hits
    result = absorbed(*hits, tracks, config)
    everything = [h for track in result for h in track]
    assert len(everything) == len(set(everything))
    for before, after in zip(tracks, result, strict=True):
        assert set(before) <= set(after)
        assert (np.diff(module[after]) > 0).all()
        assert (np.diff(z[after]) > 0).all()
        assert len({event[h] for h in after}) == 1


def line(modules, x):
    module = np.array(modules, np.int32)
    return (
        np.array([0, len(module)]),
        module,
        np.array(x, np.float32),
        np.zeros(len(module), np.float32),
        MODULE_Z[module].astype(np.float32),
    )


@pytest.mark.parametrize(("x", "taken"), [(0.09, True), (-0.09, True), (0.11, False)])
def test_a_hit_between_two_of_a_track_must_lie_within_the_tolerance(x, taken):
    result = absorbed(*line([10, 12, 13, 14], [0, 0, x, 0]), [[0, 1, 3]], AbsorptionConfig())
    assert result == [[0, 1, 2, 3] if taken else [0, 1, 3]]


def test_the_nearest_hit_of_a_module_is_taken_by_the_first_track():
    hits = line([10, 10, 12, 12, 13, 13, 14, 14], [0, 0.02, 0, 0.02, 0.015, 0.05, 0, 0.02])
    assert absorbed(*hits, [[0, 2, 6], [1, 3, 7]], AbsorptionConfig()) == [[0, 2, 4, 6], [1, 3, 5, 7]]


def test_a_module_that_holds_a_hit_of_the_track_gives_no_other():
    assert absorbed(*line([10, 12, 12, 14], [0, 0, 0, 0]), [[0, 1, 3]], AbsorptionConfig()) == [[0, 1, 3]]


@pytest.mark.parametrize(
    ("beyond", "taken"), [(0, [2, 3, 4]), (1, [1, 2, 3, 4, 5]), (2, [0, 1, 2, 3, 4, 5, 6])]
)
def test_the_line_is_followed_past_both_ends(beyond, taken):
    hits = line([8, 9, 10, 12, 14, 15, 16], [0] * 7)
    assert absorbed(*hits, [[2, 3, 4]], AbsorptionConfig(beyond_modules=beyond)) == [taken]


def test_without_tracks_or_free_hits_nothing_changes():
    hits = line([10, 12, 14], [0, 0, 0])
    assert absorbed(*hits, [], AbsorptionConfig()) == []
    assert absorbed(*hits, [[0, 1, 2]], AbsorptionConfig()) == [[0, 1, 2]]
