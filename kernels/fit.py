"""Straight-line fit of tracks, with multiple scattering."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from egretta.kernels.batches import Float32, Int32, Int64

HIT_RESOLUTION_MM = 0.0135
# Slope change at one plane, for a transverse momentum of 400 MeV and 2 % of a radiation length:
# 13.6 MeV / p * sqrt(0.02) with p = pt / sin(theta). The floor stands for stiff tracks along the beam.
SCATTERING_PER_SINE = 13.6 / 400.0 * 0.1414
SCATTERING_FLOOR = 1e-4


@dataclass(frozen=True, slots=True)
class Lines:
    """Fitted lines: states at the first hits (mm, slopes), chi2 for 2 * hits - 4 degrees of freedom."""

    x: Float32
    y: Float32
    z: Float32
    tx: Float32
    ty: Float32
    chi2: Float32


def fit_lines(hit_offsets: Int64, hit: Int32, x: Float32, y: Float32, z: Float32) -> Lines:
    """Fit each track by a Kalman filter that runs from its last hit to its first.

    ``hit_offsets`` int64[tracks + 1] cuts ``hit`` int32 into tracks; ``x``, ``y``, ``z`` float32 in mm are
    what ``hit`` counts in. Hits of a track ascend in z. Every plane between two hits adds scattering as
    for a transverse momentum of 400 MeV. Fewer than two hits give slopes and chi2 of 0. The filter is that
    of Frühwirth, Nucl. Instrum. Meth. A 262, 444, with one covariance for both projections.
    """
    return Lines(*_fit(hit_offsets, hit, x, y, z))


@njit(cache=True, nogil=True)
def _fit(hit_offsets, hit, x, y, z):  # type: ignore[no-untyped-def]
    n = len(hit_offsets) - 1
    out_x = np.zeros(n, np.float32)
    out_y = np.zeros(n, np.float32)
    out_z = np.zeros(n, np.float32)
    out_tx = np.zeros(n, np.float32)
    out_ty = np.zeros(n, np.float32)
    out_chi2 = np.zeros(n, np.float32)
    variance = HIT_RESOLUTION_MM * HIT_RESOLUTION_MM
    for t in range(n):
        begin, end = hit_offsets[t], hit_offsets[t + 1]
        if end == begin:
            continue
        first, last = hit[begin], hit[end - 1]
        px, py, pz = np.float64(x[last]), np.float64(y[last]), np.float64(z[last])
        tx = ty = chi2 = 0.0
        if end - begin > 1 and z[last] > z[first]:
            span = np.float64(z[last]) - np.float64(z[first])
            slope_x = (px - x[first]) / span
            slope_y = (py - y[first]) / span
            slope2 = slope_x * slope_x + slope_y * slope_y
            sine2 = slope2 / (1.0 + slope2)
            scattering2 = (SCATTERING_FLOOR**2 + SCATTERING_PER_SINE**2 * sine2) * (1.0 + slope2)
            tx, ty = slope_x, slope_y
            # covariance of (position, slope); the slope starts unknown
            c00, c01, c11 = variance, 0.0, 1.0
            for at in range(end - 2, begin - 1, -1):
                h = hit[at]
                dz = z[h] - pz
                c11 += scattering2
                c00 += dz * (2.0 * c01 + dz * c11)
                c01 += dz * c11
                px += tx * dz
                py += ty * dz
                pz += dz
                rx, ry = x[h] - px, y[h] - py
                total = c00 + variance
                gain, slope_gain = c00 / total, c01 / total
                chi2 += (rx * rx + ry * ry) / total
                px += gain * rx
                py += gain * ry
                tx += slope_gain * rx
                ty += slope_gain * ry
                c11 -= slope_gain * c01
                c00 *= 1.0 - gain
                c01 *= 1.0 - gain
        out_x[t], out_y[t], out_z[t] = px, py, pz
        out_tx[t], out_ty[t], out_chi2[t] = tx, ty, chi2
    return out_x, out_y, out_z, out_tx, out_ty, out_chi2
