"""The line fit agrees with a least-squares fit that has the scattering angles among its parameters."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egretta.kernels.fit import HIT_RESOLUTION_MM, SCATTERING_FLOOR, SCATTERING_PER_SINE, fit_lines


def fit(*tracks):
    """Fit tracks given as (x, y, z) columns, their hits scattered over a shuffled array."""
    lengths = [len(track[0]) for track in tracks]
    columns = [np.concatenate([track[c] for track in tracks] or [[]]) for c in range(3)]
    place = np.random.default_rng(0).permutation(sum(lengths)).astype(np.int32)
    x, y, z = (np.zeros(len(place), np.float32) for _ in range(3))
    for to, values in zip((x, y, z), columns, strict=True):
        to[place] = values
    return fit_lines(np.cumsum([0, *lengths], dtype=np.int64), place, x, y, z)


def least_squares(u, z, scattering):
    """Position and slope at the first hit and chi2, in one projection.

    Unknowns are the line at the last hit and an angle at each plane but the last and the first, held to 0
    within ``scattering``: the same model as the filter's, solved at once.
    """
    n = len(z)
    rows, values = [], []
    for i in range(n):
        # angles of the planes between hit i and the last one turn the way from there to i
        turns = [max(z[j] - z[i], 0) * -1.0 for j in range(1, n - 1)]
        rows.append(np.array([1.0, z[i] - z[-1], *turns]) / HIT_RESOLUTION_MM)
        values.append(u[i] / HIT_RESOLUTION_MM)
    for j in range(n - 2):
        row = np.zeros(n)
        row[2 + j] = 1 / scattering
        rows.append(row)
        values.append(0.0)
    # NumPy's lstsq cuts small singular values: scale the columns first
    matrix = np.array(rows)
    scale = np.linalg.norm(matrix, axis=0)
    solution = np.linalg.lstsq(matrix / scale, np.array(values), rcond=None)[0] / scale
    chi2 = np.sum((matrix @ solution - values) ** 2)
    first = np.array([1.0, z[0] - z[-1], *(-(z[1:-1] - z[0]))])
    return first @ solution, solution[1] + solution[2:].sum(), chi2


def scattering_of(x, y, z):
    """Slope change at a plane for the slope from the first hit to the last."""
    slope2 = ((x[-1] - x[0]) ** 2 + (y[-1] - y[0]) ** 2) / (z[-1] - z[0]) ** 2
    sine2 = slope2 / (1 + slope2)
    return np.sqrt((SCATTERING_FLOOR**2 + SCATTERING_PER_SINE**2 * sine2) * (1 + slope2))


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(3, 15),
    slope=st.sampled_from([0.0, 0.01, 0.1, 0.4]),
)
def test_state_and_chi2_are_those_of_least_squares_with_scattering(seed, n, slope):
    rng = np.random.default_rng(seed)
    z = np.sort(rng.choice(np.arange(-280, 750, 12.5), n, replace=False))
    tx, ty = rng.uniform(-slope, slope, 2)
    # noise well above float32's rounding of the positions
    x, y = (t * z + rng.normal(0, 0.05, n) for t in (tx, ty))
    x, y, z = (c.astype(np.float32).astype(float) for c in (x, y, z))
    lines = fit((x, y, z))
    angle = scattering_of(x, y, z)
    for u, at, t in ((x, lines.x, lines.tx), (y, lines.y, lines.ty)):
        position, gradient, _ = least_squares(u, z, angle)
        assert at[0] == pytest.approx(position, abs=1e-4)
        assert t[0] == pytest.approx(gradient, abs=2e-5)
    chi2 = sum(least_squares(u, z, angle)[2] for u in (x, y))
    assert lines.chi2[0] == pytest.approx(chi2, rel=5e-3, abs=5e-3)
    assert lines.z[0] == z[0]


def test_where_scattering_is_negligible_the_fit_is_a_straight_line_fit():
    # planes a millimetre apart: an angle of 1e-4 moves a hit by less than a hundredth of its resolution
    rng = np.random.default_rng(3)
    z = np.arange(10.0)
    x, y = rng.normal(0, HIT_RESOLUTION_MM, (2, 10))
    lines = fit((x, y, z))
    chi2 = 0.0
    for u, at, slope in ((x, lines.x, lines.tx), (y, lines.y, lines.ty)):
        gradient, position = np.polyfit(z, u, 1)
        assert slope[0] == pytest.approx(gradient, abs=2e-5)
        assert at[0] == pytest.approx(position, abs=2e-4)
        chi2 += np.sum((u - gradient * z - position) ** 2) / HIT_RESOLUTION_MM**2
    assert lines.chi2[0] == pytest.approx(chi2, rel=2e-2)


@pytest.mark.parametrize(("tx", "ty"), [(0.0, 0.0), (0.1, -0.2), (-0.6, 0.3)])
@pytest.mark.parametrize("n", [2, 3, 26])
def test_hits_on_a_line_give_the_line_and_no_chi2(tx, ty, n):
    z = np.linspace(-250, 700, n)
    lines = fit((1 + tx * z, -2 + ty * z, z))
    assert lines.tx[0] == pytest.approx(tx, abs=1e-6)
    assert lines.ty[0] == pytest.approx(ty, abs=1e-6)
    assert lines.x[0] == pytest.approx(1 + tx * z[0], abs=1e-4)
    assert lines.y[0] == pytest.approx(-2 + ty * z[0], abs=1e-4)
    assert lines.z[0] == z[0]
    assert lines.chi2[0] < 1e-2


def test_stiff_tracks_with_the_resolution_expected_have_a_chi2_of_one_a_degree():
    rng = np.random.default_rng(5)
    n_tracks, n = 2000, 8
    z = np.arange(n) * 25.0
    tracks = []
    for _ in range(n_tracks):
        angle = rng.normal(0, SCATTERING_FLOOR, (2, n))
        path = [np.sum(angle[:, :i] * (z[i] - z[:i]), axis=1) for i in range(n)]
        x, y = np.array(path).T + rng.normal(0, HIT_RESOLUTION_MM, (2, n))
        tracks.append((x, y, z))
    lines = fit(*tracks)
    # the mean of 2000 has an uncertainty of 0.01
    assert np.mean(lines.chi2) / (2 * n - 4) == pytest.approx(1, abs=0.05)
    assert np.var(lines.chi2) / (2 * (2 * n - 4)) == pytest.approx(1, abs=0.2)


def test_a_kink_raises_chi2():
    z = np.arange(6) * 25.0
    straight, bent = np.zeros(6), np.maximum(0, z - 50) * 0.01
    lines = fit((straight, straight, z), (bent, straight, z))
    assert lines.chi2[1] > lines.chi2[0] + 10


def test_fewer_than_two_hits_give_a_point_without_slope():
    none, one = np.zeros(0), np.ones(1)
    lines = fit((none, none, none), (3 * one, 4 * one, 5 * one), (none, none, none))
    assert lines.x.tolist() == [0, 3, 0]
    assert lines.y.tolist() == [0, 4, 0]
    assert lines.z.tolist() == [0, 5, 0]
    for values in (lines.tx, lines.ty, lines.chi2):
        assert values.tolist() == [0, 0, 0]


def test_no_tracks_give_no_lines():
    lines = fit()
    assert [len(getattr(lines, name)) for name in ("x", "y", "z", "tx", "ty", "chi2")] == [0] * 6


def test_a_track_is_fitted_alike_alone_and_among_others():
    rng = np.random.default_rng(8)
    tracks = [(*rng.normal(0, 1, (2, n)), np.sort(rng.uniform(-200, 700, n))) for n in (4, 2, 11, 0, 3)]
    together = fit(*tracks)
    for t, track in enumerate(tracks):
        alone = fit(track)
        for name in ("x", "y", "z", "tx", "ty", "chi2"):
            assert getattr(alone, name)[0] == getattr(together, name)[t]
