"""The truth that training rests on, against the same said in plain Python."""

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egretta.engines.training.truth import (
    MAX_PARTICLES_PER_HIT,
    SAMPLE_ARRAYS,
    load_truth,
    share_particle,
    successors,
    truth_of,
)
from egretta.kernels.errors import CorruptInputError, MissingInputError, UsageError

# An event: the modules of its hits, and the particles, each a set of hits.
Event = tuple[list[int], list[set[int]]]


@st.composite
def events(draw: st.DrawFn) -> list[Event]:
    found = []
    for _ in range(draw(st.integers(0, 3))):
        modules = sorted(draw(st.lists(st.integers(0, 51) | st.integers(4, 9), max_size=12)))
        hit = st.integers(0, max(len(modules) - 1, 0))
        particles = draw(st.lists(st.sets(hit, max_size=7 if modules else 0), max_size=6))
        found.append((modules, particles))
    return found


def arrays_of(sample: list[Event]) -> dict[str, np.ndarray]:
    modules = [m for hits, _ in sample for m in hits]
    particles = [sorted(p) for _, particles in sample for p in particles]
    position = np.arange(len(modules), dtype=np.float32)
    return {
        "hoff": np.cumsum([0, *(len(hits) for hits, _ in sample)]).astype(np.int64),
        "x": position,
        "y": -position,
        "z": 10 * position,
        "module": np.array(modules, np.int8),
        "poff": np.cumsum([0, *(len(particles) for _, particles in sample)]).astype(np.int64),
        "nhits": np.array([len(p) for p in particles], np.int32),
        "mchit": np.array([hit for p in particles for hit in p], np.int32),
    }


def numbered(sample: list[Event]) -> tuple[list[int], list[set[int]]]:
    """Modules of all hits, and the particles with hits counted in the whole sample."""
    modules: list[int] = []
    particles = []
    for hits, made in sample:
        particles += [{len(modules) + hit for hit in particle} for particle in made]
        modules += hits
    return modules, particles


@settings(deadline=None)  # the first example waits for the compiler
@given(events())
def test_each_hit_names_the_first_particles_that_made_it(sample):
    truth = truth_of(arrays_of(sample), "test", 100)
    modules, particles = numbered(sample)
    for hit in range(len(modules)):
        owners = [100 + p for p, hits in enumerate(particles) if hit in hits][:MAX_PARTICLES_PER_HIT]
        assert truth.particles[hit].tolist() == owners + [-1] * (MAX_PARTICLES_PER_HIT - len(owners))
    assert truth.n_stations.tolist() == [len({modules[h] // 2 for h in hits}) for hits in particles]


@settings(deadline=None)  # the first example waits for the compiler
@given(events())
def test_successors_are_a_particles_hits_beside_and_on_its_next_station(sample):
    modules, particles = numbered(sample)
    station = [m // 2 for m in modules]
    # a hit of more particles than it can name has none of the further ones
    for hit in range(len(modules)):
        for particle in [p for p in particles if hit in p][MAX_PARTICLES_PER_HIT:]:
            particle.discard(hit)
    expected = set()
    for particle in particles:
        for i in particle:
            expected |= {(i, j) for j in particle if station[j] == station[i] and modules[j] > modules[i]}
            later = [station[j] for j in particle if station[j] > station[i]]
            if later and min(later) <= station[i] + 2:
                expected |= {(i, j) for j in particle if station[j] == min(later)}
    source, target = successors(truth_of(arrays_of(sample), "test"))
    found = list(zip(source.tolist(), target.tolist(), strict=True))
    assert found == sorted(expected)
    assert all(a < b for a, b in pairwise(found))


@settings(deadline=None)  # the first example waits for the compiler
@given(st.data())
def test_hits_share_a_particle_if_one_is_named_by_all_of_them(data):
    n_hits = data.draw(st.integers(1, 6))
    named = st.lists(st.integers(0, 5), unique=True, max_size=MAX_PARTICLES_PER_HIT)
    owners = [data.draw(named) for _ in range(n_hits)]
    particles = np.array([o + [-1] * (MAX_PARTICLES_PER_HIT - len(o)) for o in owners], np.int32)
    columns = data.draw(st.integers(1, 3))
    row = st.lists(st.integers(0, n_hits - 1), min_size=columns, max_size=columns)
    rows = data.draw(st.lists(row, max_size=8))
    index = np.array(rows, np.int64).reshape(-1, columns)
    shared, which = share_particle(particles, *index.T)
    assert len(shared) == len(which) == len(rows)
    for row_number, hits in enumerate(rows):
        common = [p for p in owners[hits[0]] if all(p in owners[h] for h in hits)]
        assert shared[row_number] == bool(common)
        assert which[row_number] == (common[0] if common else -1)


SAMPLE: list[Event] = [([0, 2, 4, 4], [{0, 1, 2}, {1, 3}]), ([], []), ([1, 3, 5], [{0, 1, 2}])]


def save(path, **samples):
    np.savez(path, **{f"{name}/{key}": a for name, arrays in samples.items() for key, a in arrays.items()})


def test_joined_samples_keep_their_events_and_number_their_particles_on(tmp_path):
    save(tmp_path / "t.npz", a=arrays_of(SAMPLE), b=arrays_of(SAMPLE))
    joined = load_truth(tmp_path / "t.npz", ["a", "b"])
    one = truth_of(arrays_of(SAMPLE), "test")
    assert joined.n_events == 6
    assert joined.offsets.tolist() == [0, 4, 4, 7, 11, 11, 14]
    again = joined.events(3, 6)
    assert again.offsets.tolist() == one.offsets.tolist()
    assert np.array_equal(again.position, one.position)
    assert np.array_equal(again.particles, np.where(one.particles < 0, -1, one.particles + 3))
    assert joined.n_stations.tolist() == one.n_stations.tolist() * 2


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("hoff", [0, 4, 3, 7], "offsets"),
        ("poff", [0, 2, 2, 9], "offsets"),
        ("poff", [0, 3], "particles of 1"),
        ("x", [0.0], "differ in length"),
        ("y", [np.nan] * 7, "NaN"),
        ("module", [0, 2, 4, 4, 1, 3, 52], "module"),
        ("module", [0, 2, 4, 3, 1, 3, 5], "ascending"),
        ("nhits", [3, 2, 4], "listed"),
        ("nhits", [3, 6, -1], "listed"),
        ("mchit", [0, 1, 2, 1, 4, 0, 1, 2], "does not have"),
        ("mchit", [0, 1, 2, 1, -1, 0, 1, 2], "does not have"),
    ],
)
def test_arrays_that_do_not_fit_are_refused_with_the_reason(name, value, words):
    arrays = arrays_of(SAMPLE) | {name: np.array(value)}
    with pytest.raises(CorruptInputError, match=f"the sample.*{words}"):
        truth_of(arrays, "the sample")


def test_what_cannot_be_loaded_is_named(tmp_path):
    with pytest.raises(MissingInputError, match=r"none\.npz"):
        load_truth(tmp_path / "none.npz", ["a"])
    (tmp_path / "text.npz").write_text("not an archive")
    with pytest.raises(CorruptInputError, match=r"text\.npz"):
        load_truth(tmp_path / "text.npz", ["a"])
    save(tmp_path / "t.npz", a=arrays_of(SAMPLE), empty=arrays_of([]))
    with pytest.raises(UsageError, match="'b'") as raised:
        load_truth(tmp_path / "t.npz", ["a", "b"])
    assert raised.value.hint == "it holds a, empty"
    with pytest.raises(UsageError, match="no particle"):
        load_truth(tmp_path / "t.npz", ["empty"])


def test_truth_is_read_without_torch_and_uproot():
    code = (
        "import sys, egretta.engines.training.truth, egretta.engines.training.__main__;"
        "print({'torch', 'uproot', 'onnxruntime'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_arrays_of_a_sample_are_all_there_are():
    assert set(arrays_of(SAMPLE)) == set(SAMPLE_ARRAYS)
