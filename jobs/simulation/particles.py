"""Particles on their way through the generator, as one flat array for each property."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Bool = NDArray[np.bool_]

ELECTRON, MUON, PION, KAON, PROTON, PHOTON = 11, 13, 211, 321, 2212, 22
K_SHORT, LAMBDA, CHARM, BEAUTY = 310, 3122, 411, 511

MASS_MEV = {
    ELECTRON: 0.511,
    MUON: 105.66,
    PION: 139.57,
    KAON: 493.68,
    PROTON: 938.27,
    PHOTON: 0.0,
    K_SHORT: 497.61,
    LAMBDA: 1115.68,
    CHARM: 1867.0,
    BEAUTY: 5300.0,
}
# PDG numbers of positive leptons are negative, of positive hadrons positive.
_LEPTONS = (ELECTRON, MUON)


def species_table(values: Mapping[int, float]) -> Float64:
    """An array that gives a species' value when indexed by its number."""
    table = np.full(max(MASS_MEV) + 1, np.nan)
    table[list(values)] = list(values.values())
    return table


class Flag(IntEnum):
    """Bits of ``mc_flags`` of the ``Velo`` tree."""

    IS_LONG = 1
    IS_DOWN = 2
    HAS_VELO = 4
    HAS_UT = 8
    HAS_SCIFI = 16
    FROM_BEAUTY = 32
    FROM_CHARM = 64
    FROM_STRANGE = 128


_MASS_TABLE = species_table(MASS_MEV)


def signed_pid(species: Int32, charge: Int32) -> Int32:
    """PDG number of each particle from its species (positive number) and charge."""
    lepton = np.isin(species, _LEPTONS)
    sign = np.where(lepton, -charge, charge)
    return np.where(charge == 0, species, species * sign).astype(np.int32)


def masses(species: Int32) -> Float64:
    """Mass of each particle in MeV, from its species (positive PDG number)."""
    mass: Float64 = _MASS_TABLE[species]
    return mass


@dataclass(frozen=True, slots=True)
class Particles:
    """``n`` particles where they were produced.

    ``event`` int32, index of the event within the block; ``species`` int32, positive PDG number; ``charge``
    int32; ``px``, ``py``, ``pz`` float64 in MeV; ``x``, ``y``, ``z`` float64 in mm, the origin; ``flags``
    int32, the ``FROM_...`` bits of :class:`Flag`.
    """

    event: Int32
    species: Int32
    charge: Int32
    px: Float64
    py: Float64
    pz: Float64
    x: Float64
    y: Float64
    z: Float64
    flags: Int32

    def __len__(self) -> int:
        return len(self.event)

    @property
    def p(self) -> Float64:
        """Momentum in MeV."""
        return np.sqrt(self.px**2 + self.py**2 + self.pz**2)

    @property
    def pt(self) -> Float64:
        """Transverse momentum in MeV."""
        return np.hypot(self.px, self.py)

    def take(self, chosen: Bool | NDArray[np.int64]) -> Particles:
        """The chosen particles (a mask, or indices)."""
        return Particles(*(getattr(self, f.name)[chosen] for f in fields(self)))

    @staticmethod
    def concatenate(parts: Sequence[Particles]) -> Particles:
        """All particles of ``parts``, one after another."""
        return Particles(
            *(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Particles))
        )
