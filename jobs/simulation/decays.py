"""Decays before the first material: strange, charm and beauty hadrons, at the end of their flight.

Two-body decays are exact. Many-body ones draw each charged daughter's momentum in the parent's frame from a
gamma distribution, isotropically; what is missing goes to neutrals that nobody looks for.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from egretta.jobs.simulation.particles import (
    BEAUTY,
    CHARM,
    ELECTRON,
    K_SHORT,
    KAON,
    LAMBDA,
    MASS_MEV,
    MUON,
    PION,
    PROTON,
    Flag,
    Float64,
    Int32,
    Particles,
    masses,
)

_C_TAU_MM = {K_SHORT: 26.84, LAMBDA: 78.9, CHARM: 0.18, BEAUTY: 0.455}
# Branching fractions into two charged particles.
_K_SHORT_CHARGED = 0.692
_LAMBDA_CHARGED = 0.641
_PHI_MASS_MEV = 1019.5
# Mean number of charged daughters beyond two of a charm hadron, and beyond its charm of a beauty hadron.
_CHARM_EXTRA = 1.1
_BEAUTY_CHARGED = 3.9
_LEPTON_FRACTION = 0.10


def _isotropic(rng: np.random.Generator, q: Float64) -> tuple[Float64, Float64, Float64]:
    cosine = rng.uniform(-1.0, 1.0, len(q))
    phi = rng.uniform(-np.pi, np.pi, len(q))
    transverse = q * np.sqrt(1.0 - cosine**2)
    return transverse * np.cos(phi), transverse * np.sin(phi), q * cosine


def _boost(
    vector: tuple[Float64, Float64, Float64],
    mass: Float64,
    parent: tuple[Float64, Float64, Float64],
    parent_mass: Float64,
) -> tuple[Float64, Float64, Float64]:
    """Momentum in the laboratory of a daughter given in its parent's frame."""
    qx, qy, qz = vector
    px, py, pz = parent
    energy = np.sqrt(qx**2 + qy**2 + qz**2 + mass**2)
    parent_energy = np.sqrt(px**2 + py**2 + pz**2 + parent_mass**2)
    along = (px * qx + py * qy + pz * qz) / (parent_mass * (parent_energy + parent_mass))
    factor = along + energy / parent_mass
    return qx + factor * px, qy + factor * py, qz + factor * pz


def _flown(rng: np.random.Generator, parents: Particles, mass: Float64, c_tau_mm: Float64) -> Particles:
    """The parents at the end of their flight."""
    length = rng.standard_exponential(len(parents)) * c_tau_mm / mass
    return replace(
        parents,
        x=parents.x + parents.px * length,
        y=parents.y + parents.py * length,
        z=parents.z + parents.pz * length,
    )


def _two_body(
    rng: np.random.Generator,
    parents: Particles,
    parent_mass: Float64,
    first: Int32,
    second: Int32,
    first_charge: Int32,
    flag: int,
    second_mass: Float64 | None = None,
    first_mass: Float64 | None = None,
) -> tuple[Particles, Particles]:
    """Both daughters of each parent, at the parents' positions."""
    m1 = masses(first) if first_mass is None else first_mass
    m2 = masses(second) if second_mass is None else second_mass
    q = np.sqrt((parent_mass**2 - (m1 + m2) ** 2) * (parent_mass**2 - (m1 - m2) ** 2)) / (2 * parent_mass)
    qx, qy, qz = _isotropic(rng, q)
    momentum = (parents.px, parents.py, parents.pz)
    one = _boost((qx, qy, qz), m1, momentum, parent_mass)
    two = _boost((-qx, -qy, -qz), m2, momentum, parent_mass)
    flags = parents.flags | np.int32(flag)

    def daughters(p: tuple[Float64, Float64, Float64], species: Int32, charge: Int32) -> Particles:
        return replace(parents, species=species, charge=charge, px=p[0], py=p[1], pz=p[2], flags=flags)

    return daughters(one, first, first_charge), daughters(two, second, -first_charge)


def decay_strange(rng: np.random.Generator, parents: Particles) -> Particles:
    """Charged daughters of K-short (pions) and Lambda (proton and pion) hadrons."""
    is_lambda = parents.species == LAMBDA
    branching = np.where(is_lambda, _LAMBDA_CHARGED, _K_SHORT_CHARGED)
    parents = parents.take(rng.random(len(parents)) < branching)
    is_lambda = parents.species == LAMBDA
    mass = np.where(is_lambda, MASS_MEV[LAMBDA], MASS_MEV[K_SHORT])
    flown = _flown(rng, parents, mass, np.where(is_lambda, _C_TAU_MM[LAMBDA], _C_TAU_MM[K_SHORT]))
    first = np.where(is_lambda, PROTON, PION).astype(np.int32)
    second = np.full(len(parents), PION, dtype=np.int32)
    charge = np.where(rng.random(len(parents)) < 0.5, 1, -1).astype(np.int32)
    return Particles.concatenate(_two_body(rng, flown, mass, first, second, charge, Flag.FROM_STRANGE))


def _many_body(
    rng: np.random.Generator, parents: Particles, counts: Int32, momentum_mev: float, kaons: float, flag: int
) -> Particles:
    """``counts`` charged daughters of each parent, pions, kaons and the odd lepton."""
    who = np.repeat(np.arange(len(parents)), counts)
    mother = parents.take(who)
    draw = rng.random(len(who))
    species = np.where(draw < kaons, KAON, PION)
    lepton = draw > 1.0 - _LEPTON_FRACTION
    species = np.where(lepton, np.where(draw > 1.0 - _LEPTON_FRACTION / 2, ELECTRON, MUON), species)
    species = species.astype(np.int32)
    q = momentum_mev / 3.0 * rng.standard_gamma(3.0, len(who))
    px, py, pz = _boost(
        _isotropic(rng, q), masses(species), (mother.px, mother.py, mother.pz), masses(mother.species)
    )
    charge = np.where(rng.random(len(who)) < 0.5, 1, -1).astype(np.int32)
    return replace(
        mother, species=species, charge=charge, px=px, py=py, pz=pz, flags=mother.flags | np.int32(flag)
    )


def decay_charm(rng: np.random.Generator, parents: Particles) -> Particles:
    """Charged daughters of charm hadrons."""
    mass = masses(parents.species)
    flown = _flown(rng, parents, mass, np.full(len(parents), _C_TAU_MM[CHARM]))
    counts = 2 + rng.poisson(_CHARM_EXTRA, len(parents)).astype(np.int32)
    return _many_body(rng, flown, counts, 500.0, 0.4, Flag.FROM_CHARM)


def decay_beauty(rng: np.random.Generator, parents: Particles, *, n_signal: int) -> list[Particles]:
    """Daughters of beauty hadrons; the first ``n_signal`` go to two phi mesons and so to four kaons."""
    mass = masses(parents.species)
    flown = _flown(rng, parents, mass, np.full(len(parents), _C_TAU_MM[BEAUTY]))
    order = np.arange(len(parents))
    signal, other = flown.take(order < n_signal), flown.take(order >= n_signal)
    made: list[Particles] = []
    if n_signal:
        kaon = np.full(n_signal, KAON, dtype=np.int32)
        one = np.ones(n_signal, dtype=np.int32)
        phi = np.full(n_signal, _PHI_MASS_MEV)
        for meson in _two_body(
            rng, signal, masses(signal.species), kaon, kaon, one, Flag.FROM_BEAUTY, phi, phi
        ):
            made += _two_body(rng, meson, phi, kaon, kaon, one, Flag.FROM_BEAUTY)
    counts = rng.poisson(_BEAUTY_CHARGED, len(other)).astype(np.int32)
    made.append(_many_body(rng, other, counts, 900.0, 0.15, Flag.FROM_BEAUTY))
    n = len(other)
    q = 500.0 * rng.standard_gamma(3.0, n)
    charm = np.full(n, CHARM, dtype=np.int32)
    px, py, pz = _boost(
        _isotropic(rng, q), masses(charm), (other.px, other.py, other.pz), masses(other.species)
    )
    charmed = replace(
        other, species=charm, px=px, py=py, pz=pz, flags=other.flags | np.int32(Flag.FROM_BEAUTY)
    )
    made.append(decay_charm(rng, charmed))
    return made
