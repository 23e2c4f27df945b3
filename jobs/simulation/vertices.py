"""Vertices and what comes from them: interactions along the beam, and the decays that leave it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from egretta.jobs.simulation import config
from egretta.jobs.simulation.config import Preset
from egretta.jobs.simulation.decays import decay_beauty, decay_charm, decay_strange
from egretta.jobs.simulation.particles import (
    BEAUTY,
    CHARM,
    ELECTRON,
    K_SHORT,
    LAMBDA,
    PHOTON,
    PROTON,
    Float64,
    Int32,
    Particles,
    species_table,
)

_NEUTRAL = (PHOTON, K_SHORT, LAMBDA)


def _eta_table() -> tuple[Float64, Float64]:
    eta = np.linspace(-config.ETA_MAX, config.ETA_MAX, 801)
    density = (1.0 - config.ETA_SLOPE * np.abs(eta)) / (
        1.0 + np.exp((np.abs(eta) - config.ETA_EDGE) / config.ETA_EDGE_WIDTH)
    )
    cumulative = np.concatenate(([0.0], np.cumsum((density[1:] + density[:-1]) / 2)))
    return cumulative / cumulative[-1], eta


_ETA_CUMULATIVE, _ETA = _eta_table()


_PT_RISE = species_table({number: shape.rise for number, shape in config.PT_SHAPES.items()})
_PT_TAIL = species_table({number: shape.tail for number, shape in config.PT_SHAPES.items()})
_PT_SCALE_MEV = species_table({number: shape.scale_mev for number, shape in config.PT_SHAPES.items()})


def _pt_mev(rng: np.random.Generator, species: Int32) -> Float64:
    rising = rng.standard_gamma(_PT_RISE[species])
    falling = np.maximum(rng.standard_gamma(_PT_TAIL[species]), 1e-3)
    return _PT_SCALE_MEV[species] * rising / falling


def _emit(
    rng: np.random.Generator,
    vertex: Particles,
    parent: Int32,
    species: Int32,
    eta: Float64,
) -> Particles:
    """Particles of given species and pseudorapidity from vertices (rows of ``vertex``)."""
    n = len(parent)
    pt = _pt_mev(rng, species)
    phi = rng.uniform(-np.pi, np.pi, n)
    charge = np.where(rng.random(n) < 0.5, 1, -1).astype(np.int32)
    charge[np.isin(species, _NEUTRAL)] = 0
    return Particles(
        event=vertex.event[parent],
        species=species,
        charge=charge,
        px=pt * np.cos(phi),
        py=pt * np.sin(phi),
        pz=pt * np.sinh(eta),
        x=vertex.x[parent],
        y=vertex.y[parent],
        z=vertex.z[parent],
        flags=np.zeros(n, dtype=np.int32),
    )


def _vertices(rng: np.random.Generator, event: Int32) -> Particles:
    n = len(event)
    zero = np.zeros(n)
    none = np.zeros(n, dtype=np.int32)
    return Particles(
        event=event,
        species=none,
        charge=none,
        px=zero,
        py=zero,
        pz=zero,
        x=rng.normal(0.0, config.BEAM_SPOT_XY_MM, n),
        y=rng.normal(0.0, config.BEAM_SPOT_XY_MM, n),
        z=rng.normal(config.BEAM_SPOT_Z_MEAN_MM, config.BEAM_SPOT_Z_MM, n),
        flags=none,
    )


def _soft_particles(
    rng: np.random.Generator, vertex: Particles, charged_mean: Float64, baryons: float = 1.0
) -> Particles:
    """Charged particles, photons and neutral strange hadrons of each vertex, before any decay."""
    species = np.array(list(config.YIELDS), dtype=np.int32)
    yields = np.array(list(config.YIELDS.values()))
    yields[np.isin(species, (PROTON, LAMBDA))] *= baryons
    counts = rng.poisson(charged_mean[:, None] * yields)
    parent = np.repeat(np.arange(len(vertex), dtype=np.int32), counts.sum(axis=1))
    kind = np.repeat(np.tile(species, len(vertex)), counts.ravel())
    eta = np.interp(rng.random(len(parent)), _ETA_CUMULATIVE, _ETA)
    return _emit(rng, vertex, parent, kind, eta)


def _heavy_pairs(
    rng: np.random.Generator, vertex: Particles, count: Int32, species: int, *, forward: bool = False
) -> Particles:
    """Pairs of heavy hadrons, near each other in pseudorapidity; ``forward`` puts them in 2 < eta < 5."""
    parent = np.repeat(np.arange(len(vertex), dtype=np.int32), count)
    first = rng.uniform(2.0, 4.8, len(parent)) if forward else rng.normal(0.0, 2.6, len(parent))
    second = first + rng.normal(0.0, 0.8, len(parent))
    both = np.concatenate((parent, parent))
    kinds = np.full(len(both), species, dtype=np.int32)
    return _emit(rng, vertex, both, kinds, np.concatenate((first, second)))


def primary_particles(rng: np.random.Generator, n_events: int, preset: Preset, pile_up: float) -> Particles:
    """Everything that leaves the vertices of ``n_events`` events and reaches material undecayed.

    Charged particles and photons, sorted by event (stable). Strange, charm and beauty hadrons have decayed,
    their daughters start at the decay's place and carry its flag.
    """
    if preset.signal:
        interactions = rng.poisson(pile_up, n_events).astype(np.int32)
    else:
        # an event without an interaction is not recorded
        at_least_one = rng.uniform(np.exp(-pile_up), 1.0, n_events)
        interactions = _poisson_quantile(at_least_one, pile_up)
    event = np.repeat(np.arange(n_events, dtype=np.int32), interactions)
    vertex = _vertices(rng, event)
    activity = rng.gamma(preset.charged_shape, 1.0 / preset.charged_shape, len(event))
    mean = preset.charged_mean * activity
    parts = []
    if preset.signal:
        signal = _vertices(rng, np.arange(n_events, dtype=np.int32))
        shape = 2.0 * preset.charged_shape
        soft = _soft_particles(
            rng,
            signal,
            preset.signal_charged_mean * rng.gamma(shape, 1.0 / shape, n_events),
            preset.baryons,
        )
        parts.append(soft)
        pairs = _heavy_pairs(rng, signal, np.ones(n_events, dtype=np.int32), BEAUTY, forward=True)
        parts += decay_beauty(rng, pairs, n_signal=n_events)
    parts.append(_soft_particles(rng, vertex, mean, preset.baryons))
    charm = rng.poisson(preset.charm_pairs * activity).astype(np.int32)
    parts.append(decay_charm(rng, _heavy_pairs(rng, vertex, charm, CHARM)))
    beauty = rng.poisson(preset.beauty_pairs * activity).astype(np.int32)
    parts += decay_beauty(rng, _heavy_pairs(rng, vertex, beauty, BEAUTY), n_signal=0)
    parts += [_beam_gas(rng, n_events), _downstream_secondaries(rng, n_events)]
    made = Particles.concatenate(parts)
    strange = np.isin(made.species, (K_SHORT, LAMBDA))
    made = Particles.concatenate([made.take(~strange), decay_strange(rng, made.take(strange))])
    return made.take(np.argsort(made.event, kind="stable"))


def _poisson_quantile(uniform: Float64, mean: float) -> Int32:
    highest = int(mean + 12 * np.sqrt(mean) + 12)
    k = np.arange(1, highest + 1)
    log_p = -mean + k * np.log(mean) - np.cumsum(np.log(k))
    cumulative = np.concatenate(([np.exp(-mean)], np.exp(-mean) + np.cumsum(np.exp(log_p))))
    return np.searchsorted(cumulative, uniform, side="right").clip(1, highest).astype(np.int32)


def _beam_gas(rng: np.random.Generator, n_events: int) -> Particles:
    """Rare interactions with the residual gas: boosted forward, anywhere along the beam."""
    event = np.repeat(
        np.arange(n_events, dtype=np.int32), (rng.random(n_events) < config.BEAM_GAS_RATE).astype(np.int64)
    )
    vertex = _vertices(rng, event)
    z = rng.uniform(-config.BEAM_GAS_Z_MM, config.BEAM_GAS_Z_MM, len(event))
    made = _soft_particles(rng, replace(vertex, z=z), np.full(len(event), config.BEAM_GAS_CHARGED_MEAN))
    return replace(made, pz=np.abs(made.pz))


def _downstream_secondaries(rng: np.random.Generator, n_events: int) -> Particles:
    """Soft electrons in all directions from the foil's end: most cross one or two modules."""
    event = np.repeat(np.arange(n_events, dtype=np.int32), rng.poisson(config.DOWNSTREAM_RATE, n_events))
    n = len(event)
    p = config.DOWNSTREAM_P_MEV * rng.standard_exponential(n)
    cosine, phi = rng.uniform(-1.0, 1.0, n), rng.uniform(-np.pi, np.pi, n)
    radius, where = rng.uniform(*config.DOWNSTREAM_R_MM, n), rng.uniform(-np.pi, np.pi, n)
    transverse = p * np.sqrt(1.0 - cosine**2)
    return Particles(
        event=event,
        species=np.full(n, ELECTRON, dtype=np.int32),
        charge=np.where(rng.random(n) < 0.5, 1, -1).astype(np.int32),
        px=transverse * np.cos(phi),
        py=transverse * np.sin(phi),
        pz=p * cosine,
        x=radius * np.cos(where),
        y=radius * np.sin(where),
        z=rng.uniform(*config.DOWNSTREAM_Z_MM, n),
        flags=np.zeros(n, dtype=np.int32),
    )
