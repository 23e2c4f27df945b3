"""VELO events from a seed: vertices, tracks, pixels, hits and truth put together.

Events are made in blocks of fixed size, each from its own random stream derived from (seed, block). So
event ``i`` of a seed and preset is the same whatever the number of events asked for, the size of the batches
they are written in, or the number of processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from egretta.jobs.simulation import config
from egretta.jobs.simulation.digitise import Clusters, Pixels, digitise, noise
from egretta.jobs.simulation.particles import Int32, Particles
from egretta.jobs.simulation.propagation import Crossings, propagate
from egretta.jobs.simulation.truth import SimulatedTruth, list_particles
from egretta.jobs.simulation.vertices import primary_particles
from egretta.kernels.batches import HitBatch
from egretta.kernels.errors import UsageError
from egretta.kernels.geometry import SENSORS_PER_MODULE, VeloGeometry
from egretta.kernels.lhcb_id import velo_lhcb_id
from egretta.kernels.pixels import local_to_point, pixel_to_local

Int64 = NDArray[np.int64]

BLOCK_EVENTS = 50


@dataclass(frozen=True, slots=True)
class SimulatedBatch:
    """Consecutive events: hits, the particles that left them, and what the readout saw.

    ``column_quarters`` and ``row_quarters`` (int32, one a hit) are the clusters' positions in quarters of a
    pixel along their sensor, ``pixels`` what fired, cut into events by ``pixel_offsets`` (int64, n + 1).
    """

    hits: HitBatch
    truth: SimulatedTruth
    column_quarters: Int32
    row_quarters: Int32
    pixel_offsets: Int64
    pixels: Pixels

    @property
    def n_events(self) -> int:
        """Number of events."""
        return self.hits.n_events


def find_preset(name: str, pile_up: float | None) -> tuple[config.Preset, float]:
    """The preset of that name and the pile-up to use. Raises UsageError if either makes no sense."""
    preset = config.PRESETS.get(name)
    if preset is None:
        raise UsageError(
            f"cannot simulate: there is no preset {name!r}", hint=f"choose one of {', '.join(config.PRESETS)}"
        )
    mean = preset.pile_up if pile_up is None else pile_up
    if not 0.0 < mean <= 200.0:
        raise UsageError(
            f"cannot simulate: a pile-up of {mean} is not between 0 and 200 interactions",
            hint="leave out the pile-up for the preset's own",
        )
    return preset, mean


def _join(one: Crossings, two: Crossings, first_of_two: int) -> Crossings:
    """Crossings of two sets of particles, the second numbered on from the first."""
    two = replace(two, particle=(two.particle + np.int32(first_of_two)))
    return Crossings(*(np.concatenate([getattr(one, f.name), getattr(two, f.name)]) for f in fields(one)))


def generate_block(
    block: int, *, seed: int, preset: str = "bsphiphi", pile_up: float | None = None
) -> SimulatedBatch:
    """The events ``block * BLOCK_EVENTS`` up to the next block's first."""
    chosen, mean = find_preset(preset, pile_up)
    rng = np.random.default_rng([seed, block])
    primaries = primary_particles(rng, BLOCK_EVENTS, chosen, mean)
    crossings, secondaries = propagate(rng, primaries, with_secondaries=True)
    more, _ = propagate(rng, secondaries, with_secondaries=False)
    particles = Particles.concatenate([primaries, secondaries])
    crossings = _join(crossings, more, len(primaries))
    pixels, clusters = digitise(crossings, particles.event, noise(rng, BLOCK_EVENTS))
    starts = np.arange(BLOCK_EVENTS + 1)
    offsets = np.searchsorted(clusters.event, starts).astype(np.int64)
    truth = list_particles(rng, particles, crossings.n_modules, clusters, BLOCK_EVENTS, offsets)
    return SimulatedBatch(
        _hits(clusters, offsets, block * BLOCK_EVENTS),
        truth,
        clusters.column_quarters,
        clusters.row_quarters,
        np.searchsorted(pixels.event, starts).astype(np.int64),
        pixels,
    )


def _hits(clusters: Clusters, offsets: Int64, first_event: int) -> HitBatch:
    geometry = VeloGeometry.nominal()
    column, fx = clusters.column_quarters >> 2, clusters.column_quarters & 3
    row, fy = clusters.row_quarters >> 2, clusters.row_quarters & 3
    x, y = pixel_to_local(column, row, fx / 4, fy / 4, geometry)
    points = local_to_point(clusters.sensor, x, y, geometry).astype(np.float32)
    event = np.arange(first_event, first_event + BLOCK_EVENTS, dtype=np.int64)
    return HitBatch(
        entry=event,
        event=event,
        offsets=offsets,
        x=np.ascontiguousarray(points[:, 0]),
        y=np.ascontiguousarray(points[:, 1]),
        z=np.ascontiguousarray(points[:, 2]),
        module=(clusters.sensor // SENSORS_PER_MODULE).astype(np.int32),
        lhcb_id=velo_lhcb_id(clusters.sensor, column, row, fx > 0, fy > 0),
    )


def generate_blocks(
    n_events: int,
    *,
    seed: int = 1,
    preset: str = "bsphiphi",
    pile_up: float | None = None,
    first_block: int = 0,
) -> Iterator[SimulatedBatch]:
    """Events from ``first_block`` on, block by block; the last block is cut to reach ``n_events``."""
    check_request(n_events, seed)
    for block in range(first_block, first_block + -(-n_events // BLOCK_EVENTS)):
        wanted = n_events - (block - first_block) * BLOCK_EVENTS
        batch = generate_block(block, seed=seed, preset=preset, pile_up=pile_up)
        yield batch if wanted >= BLOCK_EVENTS else first_events(batch, wanted)


def check_request(n_events: int, seed: int) -> None:
    """Raise UsageError for a negative number of events or seed."""
    if n_events < 0 or seed < 0:
        raise UsageError(
            f"cannot simulate {n_events} events with seed {seed}: neither may be negative",
            hint="give a number of events and a seed of 0 or more",
        )


def first_events(batch: SimulatedBatch, n: int) -> SimulatedBatch:
    """The first ``n`` events of a batch."""
    hits, truth, pixels = batch.hits, batch.truth, batch.pixels
    h, t, k = hits.offsets[n], truth.offsets[n], batch.pixel_offsets[n]
    return SimulatedBatch(
        HitBatch(
            hits.entry[:n],
            hits.event[:n],
            hits.offsets[: n + 1],
            hits.x[:h],
            hits.y[:h],
            hits.z[:h],
            hits.module[:h],
            hits.lhcb_id[:h],
        ),
        SimulatedTruth(
            truth.offsets[: n + 1],
            truth.key[:t],
            truth.pid[:t],
            truth.p[:t],
            truth.pt[:t],
            truth.eta[:t],
            truth.phi[:t],
            truth.charge[:t],
            truth.flags[:t],
            truth.hit_offsets[: t + 1],
            truth.hit_index[: truth.hit_offsets[t]],
        ),
        batch.column_quarters[:h],
        batch.row_quarters[:h],
        batch.pixel_offsets[: n + 1],
        Pixels(pixels.event[:k], pixels.sensor[:k], pixels.column[:k], pixels.row[:k]),
    )


def concatenate(batches: Sequence[SimulatedBatch]) -> SimulatedBatch:
    """Several batches as one. At least one."""
    hits = _concatenated(HitBatch, [b.hits for b in batches])
    truth = _concatenated(SimulatedTruth, [b.truth for b in batches])
    pixels = _concatenated(Pixels, [b.pixels for b in batches])
    return SimulatedBatch(
        hits,
        truth,
        np.concatenate([b.column_quarters for b in batches]),
        np.concatenate([b.row_quarters for b in batches]),
        _joined_offsets([b.pixel_offsets for b in batches]),
        pixels,
    )


T = TypeVar("T", HitBatch, SimulatedTruth, Pixels)


def _concatenated(kind: type[T], parts: list[T]) -> T:
    joined: dict[str, Any] = {}
    for field in fields(kind):
        arrays = [getattr(part, field.name) for part in parts]
        join = _joined_offsets if field.name.endswith("offsets") else np.concatenate
        joined[field.name] = join(arrays)
    return kind(**joined)


def _joined_offsets(arrays: list[Int64]) -> Int64:
    starts = np.cumsum([0] + [int(a[-1]) for a in arrays[:-1]])
    moved = [a[1:] + start for a, start in zip(arrays, starts, strict=True)]
    return np.concatenate([np.zeros(1, dtype=np.int64), *moved])


def generate_events(
    n: int, seed: int = 1, preset: str = "bsphiphi", *, pile_up: float | None = None
) -> SimulatedBatch:
    """``n`` events in memory. Raises UsageError for an unknown preset or a negative number."""
    check_request(n, seed)
    if n == 0:
        return first_events(generate_block(0, seed=seed, preset=preset, pile_up=pile_up), 0)
    return concatenate(list(generate_blocks(n, seed=seed, preset=preset, pile_up=pile_up)))
