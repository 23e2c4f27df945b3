"""Calibration of the VELO generator.

The constants are tuned so that simulated events look like LHCb Run 3 simulation of minimum bias and of
Bs -> phi phi (750 events each): hits, particles and their spectra. ``benchmarks/simulation_vs_data.py``
prints the comparison. Interaction cross-sections and scattering follow the Review of Particle Physics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from egretta.jobs.simulation.particles import (
    BEAUTY,
    CHARM,
    K_SHORT,
    KAON,
    LAMBDA,
    MUON,
    PHOTON,
    PION,
    PROTON,
)


@dataclass(frozen=True, slots=True)
class PtShape:
    """Transverse momentum: ``scale_mev`` times a beta-prime variable of shapes ``rise`` and ``tail``.

    The ratio of two gamma variables: a power at low and a power at high pt.
    """

    rise: float
    tail: float
    scale_mev: float


# Fitted to particles that point to the beam line (nine quantiles from 1 to 99 %).
PT_SHAPES: Mapping[int, PtShape] = MappingProxyType(
    {
        PION: PtShape(3.84, 3.90, 362.0),
        MUON: PtShape(3.84, 3.90, 362.0),
        KAON: PtShape(3.58, 4.26, 624.0),
        PROTON: PtShape(3.35, 5.31, 1064.0),
        PHOTON: PtShape(2.2, 3.9, 280.0),
        K_SHORT: PtShape(3.58, 4.26, 624.0),
        LAMBDA: PtShape(3.35, 5.31, 1064.0),
        CHARM: PtShape(3.0, 5.0, 3000.0),
        BEAUTY: PtShape(3.0, 5.0, 7000.0),
    }
)

# Number of each species for one charged primary particle (the first four add up to 1).
YIELDS: Mapping[int, float] = MappingProxyType(
    {
        PION: 0.822,
        KAON: 0.108,
        PROTON: 0.068,
        MUON: 0.002,
        PHOTON: 0.90,
        K_SHORT: 0.10,
        LAMBDA: 0.040,
    }
)

# Density of charged primaries in |eta|: flat, then falling as a Fermi function.
ETA_EDGE = 5.6
ETA_EDGE_WIDTH = 0.55
ETA_MAX = 8.0


@dataclass(frozen=True, slots=True)
class Preset:
    """What an event is made of.

    ``pile_up`` is the mean number of inelastic interactions of an event (Poisson, at least one).
    ``charged_mean`` is the mean number of charged primaries of one of them, varied by a gamma variable of
    shape ``charged_shape``; ``signal_charged_mean`` is that of the interaction that makes the beauty pair.
    """

    name: str
    pile_up: float
    charged_mean: float
    charged_shape: float
    signal: bool
    signal_charged_mean: float
    charm_pairs: float
    beauty_pairs: float
    sensor_layers: Mapping[int, float] = field(default_factory=dict)


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "minbias": Preset("minbias", 5.3, 85.0, 1.4, False, 0.0, 0.06, 0.004),
        "bsphiphi": Preset("bsphiphi", 5.3, 85.0, 1.4, True, 115.0, 0.06, 0.004),
    }
)

# Luminous region, Gaussian: measured from the point where tracks pass the beam line.
BEAM_SPOT_Z_MEAN_MM = 1.5
BEAM_SPOT_Z_MM = 63.0
BEAM_SPOT_XY_MM = 0.030

# Beam-gas interactions: forward only, anywhere along the beam.
BEAM_GAS_RATE = 0.02
BEAM_GAS_Z_MM = 1500.0
BEAM_GAS_CHARGED_MEAN = 12.0

# Material of one sensor crossing in radiation lengths: silicon, chip, substrate.
SENSOR_X0 = 0.0115
# The RF foil follows the modules, so a track crosses it beside each sensor, and once more to reach the first.
FOIL_X0_PER_SENSOR = 0.006
FOIL_X0_ENTRY = 0.010
# Nuclear interaction probability for one radiation length (silicon: 9.4 cm of 46.5 cm).
INTERACTIONS_PER_X0 = 0.20

# A sensor's single-hit efficiency: of consecutive stations of a track, 0.9 % are two apart.
HIT_EFFICIENCY = 0.990
# Noise clusters an event, anywhere on the sensors.
NOISE_HITS = 4.0

SENSOR_THICKNESS_MM = 0.200
# Charge spreads while it drifts: the reach of a track beyond its path, in pixels.
DIFFUSION_PIXELS = 0.09
# The part of the path at either end that leaves too little charge for a pixel to fire, in pixels.
THRESHOLD_PIXELS = 0.06
