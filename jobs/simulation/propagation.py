"""Straight tracks through the VELO's sensors: scattering, and what the material makes of them.

There is no field. A particle moves from sensor plane to sensor plane; at each sensor that it crosses it
scatters (Highland's formula, Review of Particle Physics) and may convert (photons), knock on an electron or
interact (hadrons). The RF foil is not drawn: its material is spread over the sensors, which it follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from egretta.jobs.simulation import config
from egretta.jobs.simulation.particles import (
    ELECTRON,
    KAON,
    MASS_MEV,
    PION,
    PROTON,
    Float64,
    Int32,
    Particles,
    masses,
)
from egretta.kernels.geometry import (
    N_COLUMNS,
    N_ROWS,
    N_SENSORS,
    PITCH_MM,
    SENSORS_PER_MODULE,
    VeloGeometry,
)

# Outermost corner of any sensor, and the innermost radius of their active area, with a margin.
OUTER_RADIUS_MM = 56.0
INNER_RADIUS_MM = 4.5
SENSOR_X_MM = (
    N_COLUMNS + 6
) * PITCH_MM  # each of the two gaps between chips widens two columns by 1.5 pixels
SENSOR_Y_MM = N_ROWS * PITCH_MM

_ELECTRON_MASS_MEV = MASS_MEV[ELECTRON]
# Knock-on electrons above this energy are followed. Rate of one crossing: constant / (beta^2 * this energy).
_KNOCK_ON_MIN_MEV = 1.0
_KNOCK_ON_MEV_PER_X0 = 0.0768 * 21.8 * 2 * 0.5
# Energy lost by ionisation in one radiation length of silicon.
_IONISATION_MEV_PER_X0 = 36.0
_LOSS_BELOW_MEV = 1500.0
_STOPPED_MEV = 0.5
# Steeper tracks are lost, and no path counts for more than this many perpendicular ones.
_SLOPE_MAX = 30.0
_PATH_MAX = 8.0
_MODULE_DEPTH_MM = 0.8
_FOIL_LEVER_MM = 6.0
# More material than any straight way through the detector meets, and more than there is.
_MATERIAL_MAX_X0 = 1.0
_NEVER_X0 = 1e9
_COS_45 = 0.5**0.5
_CHUNK = 64
_PRODUCTS_MAX = 15


@dataclass(frozen=True, slots=True)
class Planes:
    """Sensor planes in ascending z.

    ``z`` float64[104]; ``module`` int32[104]; ``sensor`` int32[104, 2], the two sensors of each. In axes
    turned by 45 degrees, a = (x + y) / sqrt(2) and b = (y - x) / sqrt(2), sensors are upright rectangles:
    ``bounds`` float64[104, 2, 4], their lowest and highest a, lowest and highest b.
    ``rotation`` float64[208, 3, 3] and ``translation`` float64[208, 3] are the geometry's.
    """

    z: Float64
    sensor: Int32
    module: Int32
    bounds: Float64
    rotation: Float64
    translation: Float64

    @staticmethod
    @cache
    def nominal() -> Planes:
        """The planes of the nominal geometry."""
        geometry = VeloGeometry.nominal()
        z = geometry.translation[:, 2].astype(np.float64)
        sensors = np.arange(N_SENSORS, dtype=np.int32).reshape(-1, SENSORS_PER_MODULE)
        pairs = np.concatenate((sensors[:, [0, 3]], sensors[:, [1, 2]]))
        pairs = pairs[np.argsort(z[pairs[:, 0]], kind="stable")]
        rotation = geometry.rotation.astype(np.float64)
        translation = geometry.translation.astype(np.float64)
        far_corner = rotation[:, :, 0] * SENSOR_X_MM + rotation[:, :, 1] * SENSOR_Y_MM + translation
        corners = np.stack((translation, far_corner))
        a, b = _turn(corners[..., 0], corners[..., 1])
        bounds = np.stack((a.min(0), a.max(0), b.min(0), b.max(0)), axis=-1)
        return Planes(
            z[pairs[:, 0]],
            pairs,
            (pairs[:, 0] // SENSORS_PER_MODULE).astype(np.int32),
            bounds[pairs],
            rotation,
            translation,
        )


def _turn(x: Float64, y: Float64) -> tuple[Float64, Float64]:
    return (x + y) / np.sqrt(2.0), (y - x) / np.sqrt(2.0)


@dataclass(frozen=True, slots=True)
class Crossings:
    """Where particles cross sensors: ``particle`` int32 and ``sensor`` int32, local ``x``, ``y`` (mm) and
    local slopes ``tx``, ``ty`` float64; only crossings that the sensor saw. ``n_modules`` int32, one a
    particle: distinct modules crossed, seen or not."""

    particle: Int32
    sensor: Int32
    x: Float64
    y: Float64
    tx: Float64
    ty: Float64
    n_modules: Int32


@njit(cache=True, nogil=True)
def _grown(array: NDArray[Any], used: int, spare: int) -> NDArray[Any]:
    """The array, or a copy twice as long if it cannot take ``spare`` more rows behind ``used``."""
    if used + spare <= array.shape[0]:
        return array
    bigger = np.empty((2 * array.shape[0] + spare, array.shape[1]), array.dtype)
    bigger[:used] = array[:used]
    return bigger


@njit(cache=True, nogil=True)
def _turned(dx: float, dy: float, dz: float, cosine: float, phi: float) -> tuple[float, float, float]:
    """The unit vector at a polar angle (by its cosine) and azimuth from the unit vector (dx, dy, dz)."""
    sine = np.sqrt(max(0.0, 1.0 - cosine * cosine))
    transverse = np.sqrt(dx * dx + dy * dy)
    c, s = np.cos(phi), np.sin(phi)
    if transverse < 1e-9:
        return sine * c, sine * s, np.sign(dz) * cosine
    ux, uy = -dy / transverse, dx / transverse
    wx, wy, wz = -dz * uy, dz * ux, transverse
    return (
        cosine * dx + sine * (c * ux + s * wx),
        cosine * dy + sine * (c * uy + s * wy),
        cosine * dz + sine * s * wz,
    )


@njit(cache=True, nogil=True)
def _make(  # type: ignore[no-untyped-def]
    made_i, made_f, at, parent, species, charge, p, direction, cosine, phi, x, y, z
):
    """Write down one secondary: ``p`` MeV at an angle from ``direction``, from (x, y, z)."""
    dx, dy, dz = _turned(direction[0], direction[1], direction[2], cosine, phi)
    made_i[at, 0], made_i[at, 1], made_i[at, 2] = parent, species, charge
    made_f[at, 0], made_f[at, 1], made_f[at, 2] = p * dx, p * dy, p * dz
    made_f[at, 3], made_f[at, 4], made_f[at, 5] = x, y, z
    return at + 1


@njit(cache=True, nogil=True)
def _convert(rng, made_i, made_f, at, parent, p, direction, tx, ty, x, y, z):  # type: ignore[no-untyped-def]
    """A photon's electron pair: energy shared evenly at random, opening angles of order m/E."""
    depth = (rng.random() - 0.5) * _MODULE_DEPTH_MM
    phi = rng.random() * 2.0 * np.pi
    share = rng.random()
    for half in range(2):
        pe = p * (share if half == 0 else 1.0 - share) + 1e-3
        theta = min(1.0, _ELECTRON_MASS_MEV / pe * (0.9 + 2.6 * rng.standard_exponential()))
        at = _make(
            made_i, made_f, at, parent, ELECTRON, 1 - 2 * half, pe, direction, np.cos(theta),
            phi + np.pi * half, x + tx * depth, y + ty * depth, z + depth,
        )  # fmt: skip
    return at


@njit(cache=True, nogil=True)
def _knock_on_max(p, energy, mass):  # type: ignore[no-untyped-def]
    """Highest kinetic energy of a knock-on electron: that of two-body kinematics, or half of the parent's."""
    return min(2.0 * _ELECTRON_MASS_MEV * (p / mass) ** 2, 0.5 * (energy - mass))


@njit(cache=True, nogil=True)
def _knock_on(  # type: ignore[no-untyped-def]
    rng, made_i, made_f, at, parent, p, energy, highest, direction, x, y, z
):
    """A knock-on electron, with the 1/T^2 spectrum up to ``highest`` and the angle of two-body kinematics."""
    kinetic = _KNOCK_ON_MIN_MEV / (1.0 - rng.random() * (1.0 - _KNOCK_ON_MIN_MEV / highest))
    pe = np.sqrt(kinetic * (kinetic + 2.0 * _ELECTRON_MASS_MEV))
    cosine = min(1.0, kinetic * (energy + _ELECTRON_MASS_MEV) / (pe * p))
    phi = rng.random() * 2.0 * np.pi
    # it starts behind the sensor: what it adds to its parent's own cluster is that cluster's tail
    behind = 0.15 if direction[2] > 0 else -0.15
    return _make(made_i, made_f, at, parent, ELECTRON, -1, pe, direction, cosine, phi, x, y, z + behind)


@njit(cache=True, nogil=True)
def _interact(rng, made_i, made_f, at, parent, p, direction, tx, ty, x, y, z):  # type: ignore[no-untyped-def]
    """Charged products of a nuclear interaction: hadrons about the parent's direction, slow protons."""
    depth = (rng.random() - 0.2) * _MODULE_DEPTH_MM
    if direction[2] < 0:
        depth = -depth
    fast = min(rng.poisson(0.5 + 0.55 * np.log(1.0 + p / 500.0)), _PRODUCTS_MAX)
    slow = min(rng.poisson(0.8), _PRODUCTS_MAX)
    for k in range(fast + slow):
        species = PION if k < fast and rng.random() < 0.75 else PROTON
        charge = 1 if species == PROTON or rng.random() < 0.5 else -1
        if k < fast:
            along = 0.6 * p * rng.standard_exponential() / (1.0 + fast)
            across = 150.0 * rng.standard_gamma(2.0)
            momentum = np.sqrt(along * along + across * across)
            cosine = along / momentum
        else:
            momentum = 120.0 + 110.0 * rng.standard_gamma(2.0)
            cosine = 2.0 * rng.random() - 1.0
        at = _make(
            made_i, made_f, at, parent, species, charge, momentum, direction, cosine,
            rng.random() * 2.0 * np.pi, x + tx * depth, y + ty * depth, z + depth,
        )  # fmt: skip
    return at


@njit(cache=True, nogil=True)
def _highland(p, beta2, x0):  # type: ignore[no-untyped-def]
    """Width of the projected scattering angle."""
    return 13.6 / (p * np.sqrt(beta2)) * np.sqrt(x0) * (1.0 + 0.038 * np.log(x0 / beta2))


@njit(cache=True, nogil=True)
def _foil_path(path):  # type: ignore[no-untyped-def]
    """Length in the foil before the first sensor, in thicknesses, of a track of slope sqrt(path^2 - 1).

    Partly a wall across the beam, partly one along it, which forward tracks cross at a grazing angle.
    """
    return min(0.4 * path + 0.05 * path / np.sqrt(path * path - 1.0 + 1e-12), _PATH_MAX)


@njit(cache=True, nogil=True)
def _follow(  # type: ignore[no-untyped-def]
    rng, begin, end, species, charge, mass, momentum, origin,
    plane_z, plane_sensor, plane_module, bounds, rotation, translation, with_secondaries,
    sensor_x0, foil_x0, entry_x0, interactions_per_x0, efficiency,
    hit_i, hit_f, n_hits, made_i, made_f, n_made, n_modules,
):  # fmt: skip
    """Follow particles ``begin`` to ``end``; fills ``n_modules`` and returns how much it filled of others."""
    for i in range(begin, end):
        last_module = -1
        m = mass[i]
        px, py, pz = momentum[i, 0], momentum[i, 1], momentum[i, 2]
        x, y, z = origin[i, 0], origin[i, 1], origin[i, 2]
        p = np.sqrt(px * px + py * py + pz * pz)
        if p < _STOPPED_MEV or abs(pz) < 1e-3 * p:
            continue
        # one draw each says after how much material something happens, instead of one at every sensor
        to_interaction = _NEVER_X0
        to_knock_on = _NEVER_X0
        if charge[i] == 0:
            to_interaction = 9.0 / 7.0 * rng.standard_exponential()
            if to_interaction > _MATERIAL_MAX_X0:
                continue
        elif with_secondaries:
            to_knock_on = rng.standard_exponential()
            if species[i] in (PION, KAON, PROTON):
                to_interaction = rng.standard_exponential() / interactions_per_x0
        tx, ty = px / pz, py / pz
        energy = np.sqrt(p * p + m * m)
        step = 1 if pz > 0 else -1
        # where the particle can have left the beam hole at the earliest
        inside = INNER_RADIUS_MM - np.sqrt(x * x + y * y)
        start = z + step * max(inside, 0.0) / np.sqrt(tx * tx + ty * ty + 1e-18)
        plane = np.searchsorted(plane_z, start)
        if step < 0:
            plane -= 1
        entered = not with_secondaries
        changed = True
        path = x0 = beta2 = theta = highest = knock_on_rate = 0.0
        while 0 <= plane < len(plane_z):
            dz = plane_z[plane] - z
            xn, yn = x + tx * dz, y + ty * dz
            a, b = (xn + yn) * _COS_45, (yn - xn) * _COS_45
            which = -1
            for k in range(2):
                low_a, high_a, low_b, high_b = bounds[plane, k]
                if low_a < a < high_a and low_b < b < high_b:
                    # sensors of one plane do not overlap: the other one needs no look
                    which = k
                    break
            if which < 0:
                if xn * xn + yn * yn > OUTER_RADIUS_MM**2 and (xn * tx + yn * ty) * step > 0:
                    break
                plane += step
                continue
            sensor = plane_sensor[plane, which]
            if changed:
                # scattering hardly turns fast particles: what depends on slope and momentum is kept for them
                changed = p < _LOSS_BELOW_MEV
                path = np.sqrt(1.0 + tx * tx + ty * ty)
                x0 = (sensor_x0 + foil_x0) * min(path, _PATH_MAX)
                beta2 = (p / energy) ** 2
                if charge[i] != 0:
                    theta = _highland(p, beta2, x0) * path
                    highest = _knock_on_max(p, energy, m)
                    knock_on_rate = 0.0
                    if highest > _KNOCK_ON_MIN_MEV:
                        knock_on_rate = (
                            _KNOCK_ON_MEV_PER_X0 / beta2 * (1.0 / _KNOCK_ON_MIN_MEV - 1.0 / highest)
                        )
            direction = (step * tx / path, step * ty / path, step / path)
            in_foil = 0.0
            if not entered:
                in_foil = entry_x0 * _foil_path(path)
            to_interaction -= x0 + in_foil
            if charge[i] == 0:
                entered = True
                if to_interaction < 0.0:
                    at = plane_z[plane]
                    n_made = _convert(rng, made_i, made_f, n_made, i, p, direction, tx, ty, xn, yn, at)
                    break
                plane += step
                continue
            if not entered:
                # the foil in front of the first sensor, some millimetres before it
                entered = True
                lever = min(_FOIL_LEVER_MM, abs(dz)) * step
                before = _highland(p, beta2, in_foil) * path
                dtx = before * rng.standard_normal() * np.sqrt(1.0 + tx * tx)
                dty = before * rng.standard_normal() * np.sqrt(1.0 + ty * ty)
                tx, ty = tx + dtx, ty + dty
                xn, yn = xn + dtx * lever, yn + dty * lever
            x, y, z = xn, yn, plane_z[plane]
            rx, ry = x - translation[sensor, 0], y - translation[sensor, 1]
            lx = rotation[sensor, 0, 0] * rx + rotation[sensor, 1, 0] * ry
            ly = rotation[sensor, 0, 1] * rx + rotation[sensor, 1, 1] * ry
            if not (0.0 < lx < SENSOR_X_MM and 0.0 < ly < SENSOR_Y_MM):
                plane += step
                continue
            if plane_module[plane] != last_module:
                last_module = plane_module[plane]
                n_modules[i] += 1
            if rng.random() < efficiency:
                hit_i[n_hits, 0], hit_i[n_hits, 1] = i, sensor
                hit_f[n_hits, 0], hit_f[n_hits, 1] = lx, ly
                hit_f[n_hits, 2] = rotation[sensor, 0, 0] * tx + rotation[sensor, 1, 0] * ty
                hit_f[n_hits, 3] = rotation[sensor, 0, 1] * tx + rotation[sensor, 1, 1] * ty
                n_hits += 1
            to_knock_on -= knock_on_rate * x0
            if to_knock_on < 0.0:
                to_knock_on = rng.standard_exponential()
                n_made = _knock_on(rng, made_i, made_f, n_made, i, p, energy, highest, direction, x, y, z)
            if to_interaction < 0.0:
                n_made = _interact(rng, made_i, made_f, n_made, i, p, direction, tx, ty, x, y, z)
                break
            tx += theta * rng.standard_normal() * np.sqrt(1.0 + tx * tx)
            ty += theta * rng.standard_normal() * np.sqrt(1.0 + ty * ty)
            if abs(tx) > _SLOPE_MAX or abs(ty) > _SLOPE_MAX:
                break
            if changed:
                energy -= _IONISATION_MEV_PER_X0 * x0 / beta2
                if energy - m < _STOPPED_MEV:
                    break
                p = np.sqrt(energy * energy - m * m)
            plane += step
    return n_hits, n_made


@njit(cache=True, nogil=True)
def _propagate(  # type: ignore[no-untyped-def]
    rng, species, charge, mass, momentum, origin,
    plane_z, plane_sensor, plane_module, bounds, rotation, translation, with_secondaries,
    sensor_x0, foil_x0, entry_x0, interactions_per_x0, efficiency,
):  # fmt: skip
    n = len(species)
    # room for all that a chunk of particles can leave, so that the loop over them never reallocates
    hits_spare = _CHUNK * len(plane_z)
    made_spare = _CHUNK * (len(plane_z) + 2 * _PRODUCTS_MAX + 2)
    hit_i, hit_f = np.empty((4 * n, 2), np.int32), np.empty((4 * n, 4), np.float64)
    made_i, made_f = np.empty((n, 3), np.int32), np.empty((n, 6), np.float64)
    n_hits = n_made = 0
    n_modules = np.zeros(n, np.int32)
    for begin in range(0, n, _CHUNK):
        hit_i, hit_f = _grown(hit_i, n_hits, hits_spare), _grown(hit_f, n_hits, hits_spare)
        made_i, made_f = _grown(made_i, n_made, made_spare), _grown(made_f, n_made, made_spare)
        n_hits, n_made = _follow(
            rng, begin, min(begin + _CHUNK, n), species, charge, mass, momentum, origin,
            plane_z, plane_sensor, plane_module, bounds, rotation, translation, with_secondaries,
            sensor_x0, foil_x0, entry_x0, interactions_per_x0, efficiency,
            hit_i, hit_f, n_hits, made_i, made_f, n_made, n_modules,
        )  # fmt: skip
    return hit_i[:n_hits], hit_f[:n_hits], n_modules, made_i[:n_made], made_f[:n_made]


def propagate(
    rng: np.random.Generator, particles: Particles, *, with_secondaries: bool
) -> tuple[Crossings, Particles]:
    """Take particles through the sensors.

    Returns the crossings and, if ``with_secondaries``, the particles that the material made of them
    (electron pairs, knock-on electrons, hadrons), which have not moved yet. Photons leave no crossings.
    """
    planes = Planes.nominal()
    hit_i, hit_f, n_modules, made_i, made_f = _propagate(
        rng,
        particles.species,
        particles.charge,
        masses(particles.species),
        np.column_stack((particles.px, particles.py, particles.pz)),
        np.column_stack((particles.x, particles.y, particles.z)),
        planes.z,
        planes.sensor,
        planes.module,
        planes.bounds,
        planes.rotation,
        planes.translation,
        with_secondaries,
        config.SENSOR_X0,
        config.FOIL_X0_PER_SENSOR,
        config.FOIL_X0_ENTRY,
        config.INTERACTIONS_PER_X0,
        config.HIT_EFFICIENCY,
    )
    hit_columns = np.ascontiguousarray(hit_f.T)
    x, y, tx, ty = hit_columns
    crossings = Crossings(hit_i[:, 0].copy(), hit_i[:, 1].copy(), x, y, tx, ty, n_modules)
    parent = made_i[:, 0]
    px, py, pz, vx, vy, vz = np.ascontiguousarray(made_f.T)
    made = Particles(
        particles.event[parent],
        made_i[:, 1].copy(),
        made_i[:, 2].copy(),
        px,
        py,
        pz,
        vx,
        vy,
        vz,
        np.zeros(len(parent), dtype=np.int32),
    )
    return crossings, made
