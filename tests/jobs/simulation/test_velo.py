"""Simulated events: the same from the same seed, like LHCb's in number, true to their truth."""

from dataclasses import fields
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from egretta.jobs.simulation.particles import Flag
from egretta.jobs.simulation.velo import (
    BLOCK_EVENTS,
    SimulatedBatch,
    concatenate,
    first_events,
    generate_block,
    generate_blocks,
    generate_events,
)
from egretta.kernels.errors import UsageError
from egretta.kernels.geometry import N_MODULES, VeloGeometry


@pytest.fixture(scope="module")
def batch() -> SimulatedBatch:
    return generate_events(2 * BLOCK_EVENTS, seed=5)


def assert_same(one: Any, two: Any) -> None:
    for field in fields(one):
        np.testing.assert_array_equal(getattr(one, field.name), getattr(two, field.name), field.name)


def assert_same_events(one: SimulatedBatch, two: SimulatedBatch) -> None:
    assert_same(one.hits, two.hits)
    assert_same(one.truth, two.truth)
    assert_same(one.pixels, two.pixels)


def test_the_same_seed_gives_the_same_events_and_another_seed_others(batch: SimulatedBatch) -> None:
    assert_same_events(generate_events(2 * BLOCK_EVENTS, seed=5), batch)
    other = generate_events(BLOCK_EVENTS, seed=6)
    assert other.hits.n_hits != first_events(batch, BLOCK_EVENTS).hits.n_hits


@pytest.mark.parametrize("n", [0, 1, BLOCK_EVENTS - 1, BLOCK_EVENTS + 3])
def test_an_event_does_not_depend_on_how_many_are_asked_for(batch: SimulatedBatch, n: int) -> None:
    fewer = generate_events(n, seed=5)
    assert fewer.n_events == n
    assert_same_events(fewer, first_events(batch, n))


def test_blocks_can_be_made_in_any_order(batch: SimulatedBatch) -> None:
    second, first = generate_block(1, seed=5), generate_block(0, seed=5)
    assert_same_events(concatenate([first, second]), batch)
    (alone,) = generate_blocks(BLOCK_EVENTS, seed=5, first_block=1)
    assert_same_events(alone, second)


@pytest.mark.parametrize(
    ("preset", "hits", "particles", "long"),
    [("minbias", 1983, 279, 72.3), ("bsphiphi", 2365, 330, 88.5)],
)
def test_events_resemble_lhcb_simulation(preset: str, hits: float, particles: float, long: float) -> None:
    n = 6 * BLOCK_EVENTS
    events = generate_events(n, seed=2, preset=preset)
    truth = events.truth
    # the spread between events leaves 3 % of uncertainty on the mean of 300
    assert events.hits.n_hits / n == pytest.approx(hits, rel=0.12)
    assert truth.n_particles / n == pytest.approx(particles, rel=0.12)
    assert np.mean((truth.flags & Flag.IS_LONG) != 0) * truth.n_particles / n == pytest.approx(long, rel=0.15)
    owners = np.bincount(_hits_of_all(events), minlength=events.hits.n_hits)
    assert 0.09 < np.mean(owners == 0) < 0.14
    assert 0.006 < np.mean(owners > 1) < 0.017
    assert np.diff(truth.hit_offsets).mean() == pytest.approx(6.4, rel=0.05)
    electrons = np.abs(truth.pid) == 11
    assert 0.10 < electrons.mean() < 0.17
    assert 0.30 < np.mean(truth.eta < 0) < 0.45


def test_more_pile_up_means_more_hits() -> None:
    few = generate_events(BLOCK_EVENTS, seed=1, pile_up=1.0)
    many = generate_events(BLOCK_EVENTS, seed=1, pile_up=12.0)
    assert many.hits.n_hits > 2 * few.hits.n_hits


def test_the_signal_preset_holds_beauty_in_nearly_every_event(batch: SimulatedBatch) -> None:
    beauty = np.add.reduceat((batch.truth.flags & Flag.FROM_BEAUTY) != 0, batch.truth.offsets[:-1])
    assert np.mean(beauty > 0) > 0.9
    assert 6 < beauty.mean() < 13


def _hits_of_all(batch: SimulatedBatch) -> np.ndarray[Any, np.dtype[np.int64]]:
    truth, hits = batch.truth, batch.hits
    of_event = np.diff(truth.hit_offsets[truth.offsets])
    return truth.hit_index + np.repeat(hits.offsets[:-1], of_event)


def test_truth_is_consistent(batch: SimulatedBatch) -> None:
    hits, truth = batch.hits, batch.truth
    assert truth.hit_offsets[-1] == len(truth.hit_index)
    assert truth.offsets[-1] == truth.n_particles
    n_hits = np.diff(truth.hit_offsets)
    assert n_hits.min() >= 1
    hits_in_event = np.repeat(np.diff(hits.offsets), np.diff(truth.hit_offsets[truth.offsets]))
    assert np.all((truth.hit_index >= 0) & (truth.hit_index < hits_in_event))
    # no particle holds a hit twice
    owner = np.repeat(np.arange(truth.n_particles), n_hits)
    assert len(np.unique(np.stack((owner, _hits_of_all(batch))), axis=1).T) == len(owner)
    for first, last in pairwise(truth.offsets):
        assert np.all(np.diff(truth.key[first:last]) > 0)
    np.testing.assert_allclose(truth.pt, truth.p / np.cosh(truth.eta), rtol=1e-6)
    np.testing.assert_array_equal(np.abs(truth.charge), 1)


def test_flags_follow_from_each_other(batch: SimulatedBatch) -> None:
    flags = batch.truth.flags

    def has(flag: Flag) -> Any:
        return (flags & flag) != 0

    assert np.all(has(Flag.HAS_VELO))
    np.testing.assert_array_equal(has(Flag.IS_LONG), has(Flag.HAS_SCIFI))
    np.testing.assert_array_equal(has(Flag.IS_DOWN), has(Flag.HAS_UT) & has(Flag.HAS_SCIFI))
    assert not np.any(has(Flag.HAS_UT) & (batch.truth.eta < 0))


def test_hits_lie_in_their_modules_in_order(batch: SimulatedBatch) -> None:
    hits = batch.hits
    assert np.all((hits.module >= 0) & (hits.module < N_MODULES))
    for first, last in pairwise(hits.offsets):
        assert np.all(np.diff(hits.module[first:last]) >= 0)
    distance = np.abs(hits.z - VeloGeometry.nominal().module_z[hits.module])
    np.testing.assert_allclose(distance, 0.581, atol=1e-3)
    radius = np.hypot(hits.x, hits.y)
    assert radius.min() > 4.5
    assert radius.max() < 56


def test_hits_of_a_fast_particle_lie_near_a_straight_line(batch: SimulatedBatch) -> None:
    hits, truth = batch.hits, batch.truth
    index = _hits_of_all(batch)
    fast = np.flatnonzero((truth.p > 10_000) & (np.abs(truth.pid) != 11) & (np.diff(truth.hit_offsets) >= 4))
    assert len(fast) > 500
    far = []
    for i in fast:
        mine = index[truth.hit_offsets[i] : truth.hit_offsets[i + 1]]
        z = hits.z[mine].astype(np.float64)
        for values in (hits.x, hits.y):
            u = values[mine].astype(np.float64)
            far.append(np.abs(u - np.polyval(np.polyfit(z, u, 1), z)).max())
    # half a pixel is 27 um; shared clusters and scattering make the tail
    assert np.median(far) < 0.03
    assert np.mean(np.array(far) > 0.3) < 0.02


def test_direction_of_the_hits_is_the_particles_own(batch: SimulatedBatch) -> None:
    hits, truth = batch.hits, batch.truth
    index = _hits_of_all(batch)
    fast = np.flatnonzero((truth.p > 5_000) & (np.diff(truth.hit_offsets) >= 4))
    first, last = index[truth.hit_offsets[fast]], index[truth.hit_offsets[fast + 1] - 1]
    dz = hits.z[last] - hits.z[first]
    sign = np.where(truth.eta[fast] > 0, 1, -1)
    phi = np.arctan2(sign * (hits.y[last] - hits.y[first]), sign * (hits.x[last] - hits.x[first]))
    assert np.all(dz > 0)
    off = np.abs((phi - truth.phi[fast] + np.pi) % (2 * np.pi) - np.pi)
    assert np.median(off) < 0.01


@pytest.mark.parametrize(
    ("n", "options"),
    [(-1, {}), (1, {"seed": -1}), (1, {"preset": "top"}), (1, {"pile_up": 0.0}), (1, {"pile_up": -2.0})],
)
def test_a_request_that_makes_no_sense_is_refused(n: int, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="cannot simulate"):
        generate_events(n, **options)
