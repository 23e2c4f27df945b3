"""Calibration of the VELO generator.

The constants are tuned so that simulated events look like LHCb Run 3 simulation of minimum bias and of
Bs -> phi phi (750 events each): hits, particles and their spectra. ``benchmarks/simulation_vs_data.py``
prints the comparison. Interaction cross-sections and scattering follow the Review of Particle Physics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
        PION: PtShape(3.84, 3.90, 308.0),
        MUON: PtShape(3.84, 3.90, 308.0),
        KAON: PtShape(3.58, 4.26, 560.0),
        PROTON: PtShape(3.35, 5.31, 990.0),
        PHOTON: PtShape(1.5, 3.3, 330.0),
        K_SHORT: PtShape(3.58, 4.26, 624.0),
        LAMBDA: PtShape(3.35, 5.31, 1064.0),
        CHARM: PtShape(3.0, 5.0, 3000.0),
        BEAUTY: PtShape(3.0, 5.0, 7000.0),
    }
)

# Number of each species for one charged primary particle (the first four add up to 1).
YIELDS: Mapping[int, float] = MappingProxyType(
    {
        PION: 0.8005,
        KAON: 0.113,
        PROTON: 0.085,
        MUON: 0.0015,
        PHOTON: 1.24,
        K_SHORT: 0.075,
        LAMBDA: 0.030,
    }
)

# Density of charged primaries in |eta|: nearly flat, then falling as a Fermi function.
ETA_SLOPE = 0.03
ETA_EDGE = 5.65
ETA_EDGE_WIDTH = 0.55
ETA_MAX = 8.0


@dataclass(frozen=True, slots=True)
class Preset:
    """What an event is made of.

    ``pile_up`` is the mean number of inelastic interactions of an event (Poisson, at least one).
    ``charged_mean`` is the mean number of charged primaries of one of them, varied by a gamma variable of
    shape ``charged_shape``; ``signal_charged_mean`` is that of the interaction that makes the beauty pair.
    ``charm_pairs`` and ``beauty_pairs`` are means for an interaction of mean activity; ``baryons`` scales the
    yields of protons and Lambdas, in which LHCb's two samples differ.
    """

    name: str
    pile_up: float
    charged_mean: float
    charged_shape: float
    signal: bool
    signal_charged_mean: float
    charm_pairs: float
    beauty_pairs: float
    baryons: float


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "minbias": Preset("minbias", 4.5, 90.5, 2.2, False, 0.0, 0.25, 0.02, 1.0),
        "bsphiphi": Preset("bsphiphi", 3.6, 89.5, 2.2, True, 154.0, 0.25, 0.02, 0.8),
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
FOIL_X0_PER_SENSOR = 0.004
FOIL_X0_ENTRY = 0.012
# Nuclear interaction probability for one radiation length (silicon: 9.4 cm of 46.5 cm).
INTERACTIONS_PER_X0 = 0.20

# A sensor's single-hit efficiency: of consecutive stations of a track, 0.9 % are two apart.
HIT_EFFICIENCY = 0.990
# Soft secondaries an event from the downstream end of the RF foil and its box, hardly ever listed.
DOWNSTREAM_RATE = 20.0
DOWNSTREAM_Z_MM = (480.0, 770.0)
DOWNSTREAM_R_MM = (5.0, 25.0)
DOWNSTREAM_P_MEV = 40.0

# Noise clusters an event, anywhere on the sensors.
NOISE_HITS = 6.0

SENSOR_THICKNESS_MM = 0.200
# Charge spreads while it drifts: the reach of a track beyond its path, in pixels.
DIFFUSION_PIXELS = 0.08
# The part of the path at either end that leaves too little charge for a pixel to fire, in pixels.
THRESHOLD_PIXELS = 0.06
