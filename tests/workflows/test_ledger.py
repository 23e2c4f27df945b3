import sqlite3
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egretta.jobs.manifest import Failure, Manifest, Quarantined
from egretta.kernels.errors import FailureClass, ResourceError, SiteError, UsageError
from egretta.workflows.dataset import BadFile, InputFile
from egretta.workflows.layout import unit_id
from egretta.workflows.ledger import Ledger, Verdict
from egretta.workflows.splitting import Range, split
from egretta.workflows.states import AttemptState, UnitState
from egretta.workflows.summary import differences, totals, troubles

FILE = InputFile("/data/a.root", "uuid-a", "Velo", "hits", 100)
FAILURE = Failure("transient", "TransientError", "the server went away")


def make(path: Path, entries: int = 100, size: int = 10) -> Ledger:
    file = InputFile(FILE.path, FILE.uuid, FILE.tree, FILE.kind, entries)
    return Ledger.create(path, {"config_hash": "abc"}, [file], [entries], split([entries], size))


@pytest.fixture
def ledger(tmp_path):
    with make(tmp_path / "ledger.sqlite") as ledger:
        yield ledger


def manifest(unit: int, attempt: int, start: int, stop: int, quarantined: int = 0) -> Manifest:
    bad = tuple(Quarantined(start + i, 1000 + start + i, "data", "a bad bank") for i in range(quarantined))
    return Manifest(
        unit_id=unit_id(unit),
        attempt=attempt,
        campaign="c",
        config_hash="abc",
        file=FILE.path,
        file_uuid=FILE.uuid,
        start=start,
        stop=stop,
        events_processed=stop - start - quarantined,
        quarantined=bad,
        checksum="xxh64:0",
    )


def test_a_campaign_exists_wholly_or_not_at_all(tmp_path):
    path = tmp_path / "ledger.sqlite"
    assert not Ledger.exists(path)

    def dies():
        yield Range(0, 0, 10)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Ledger.create(path, {}, [FILE], [100], dies())
    assert path.exists()
    assert not Ledger.exists(path)
    with pytest.raises(UsageError, match="no campaign"):
        Ledger.open(path)
    make(path).close()
    assert Ledger.exists(path)


def test_claimed_units_are_running_and_not_claimed_again(ledger):
    first = ledger.claim(4, now=1.0)
    second = ledger.claim(100, now=1.0)
    assert [c.unit for c in first] == [0, 1, 2, 3]
    assert [c.unit for c in second] == [4, 5, 6, 7, 8, 9]
    assert ledger.claim(1, now=1.0) == []
    assert [c.unit for c in ledger.running()] == list(range(10))
    assert (first[1].start, first[1].stop, first[1].path, first[1].attempt) == (10, 20, FILE.path, 1)


def test_the_first_manifest_of_a_unit_stands(ledger):
    (claim,) = ledger.claim(1, now=1.0)
    ledger.release([claim], AttemptState.LOST, now=2.0)
    (again,) = ledger.claim(1, now=3.0)
    assert again.attempt == 2
    assert ledger.commit(manifest(0, 2, 0, 10, quarantined=3), now=4.0)
    assert not ledger.commit(manifest(0, 1, 0, 10), now=5.0), "the lost attempt turned up after all"
    assert ledger.commit(manifest(0, 2, 0, 10, quarantined=3), now=6.0), (
        "taking the same in twice is no change"
    )
    sums = totals(ledger)
    assert sums.units[UnitState.DONE] == 1
    assert (sums.processed, sums.quarantined) == (7, 3)
    states = ledger.connection.execute("SELECT attempt, state FROM attempts ORDER BY attempt").fetchall()
    assert states == [(1, "duplicate"), (2, "done")]
    assert [m.attempt for m in ledger.manifests()] == [2]


def test_a_failed_unit_waits_for_its_time_and_keeps_its_raised_limits(ledger):
    (claim,) = ledger.claim(1, now=1.0)
    ledger.fail(claim, FAILURE, Verdict(UnitState.PENDING, not_before=50.0, memory_mb=3000), now=2.0)
    others = ledger.claim(100, now=3.0)
    assert len(others) == 9
    assert ledger.next_start() == 50.0
    (again,) = ledger.claim(100, now=50.0)
    assert (again.unit, again.attempt, again.failures, again.memory_mb) == (0, 2, 1, 3000)
    ledger.fail(again, FAILURE, Verdict(UnitState.PENDING), now=51.0)
    (third,) = ledger.claim(1, now=52.0)
    assert third.memory_mb == 3000


def test_reopening_is_narrowed_by_class_and_unit(ledger):
    for claim, kind in zip(ledger.claim(3, now=1.0), ("code", "data", "data"), strict=True):
        state = UnitState.FAILED if kind == "code" else UnitState.QUARANTINED
        ledger.fail(claim, Failure(kind, "E", "why"), Verdict(state), now=2.0)
    sums = totals(ledger)
    assert (sums.failed, sums.quarantined, sums.remaining) == (10, 20, 70)
    assert [(t.failure_class, t.count) for t in troubles(ledger)] == [("data", 2), ("code", 1)]
    assert ledger.reopen(FailureClass.CODE) == (1, 10)
    assert ledger.reopen(units=[2]) == (1, 10)
    assert ledger.reopen(FailureClass.DATA, memory_mb=999) == (1, 10)
    assert ledger.reopen() == (0, 0)
    assert totals(ledger).remaining == 100


def test_undone_units_run_again_and_nothing_is_counted_twice(ledger):
    (claim,) = ledger.claim(1, now=1.0)
    ledger.commit(manifest(0, 1, 0, 10, quarantined=2), now=2.0)
    ledger.undo([0])
    assert totals(ledger).processed == 0
    (again,) = ledger.claim(1, now=3.0)
    assert (again.unit, again.attempt) == (claim.unit, 2)
    assert ledger.commit(manifest(0, 2, 0, 10, quarantined=2), now=4.0)
    assert (totals(ledger).processed, totals(ledger).quarantined) == (8, 2)


def test_one_file_is_never_in_a_campaign_twice(tmp_path):
    with pytest.raises(SiteError, match="UNIQUE"):
        Ledger.create(tmp_path / "l.sqlite", {}, [FILE, FILE], [1, 1], [])


def test_skipped_files_are_troubles(tmp_path):
    bad = BadFile("/data/b.root", FailureClass.DATA, "MissingInputError", "no such file", "")
    with Ledger.create(tmp_path / "l.sqlite", {}, [FILE], [100], split([100], 10), [bad]) as ledger:
        (trouble,) = troubles(ledger)
    assert (trouble.what, trouble.example, trouble.failure_class) == ("file", "/data/b.root", "data")


def test_a_damaged_ledger_is_told_as_such(tmp_path):
    path = tmp_path / "ledger.sqlite"
    path.write_bytes(b"this is no database, whatever its name says" * 100)
    with pytest.raises(UsageError, match="not a database"):
        Ledger.open(path)


def test_a_ledger_of_another_version_is_refused(tmp_path):
    path = tmp_path / "ledger.sqlite"
    with make(path) as ledger:
        ledger.set_meta(schema=99)
    with pytest.raises(UsageError, match="schema 99"):
        Ledger.open(path)


def test_readers_see_a_whole_state_while_a_writer_is_in_a_transaction(ledger):
    ledger.connection.execute("BEGIN IMMEDIATE")
    ledger.connection.execute("UPDATE units SET state = 'done', processed = 10 WHERE unit = 0")
    with Ledger.open(ledger.path) as reader:
        assert totals(reader).processed == 0
    ledger.connection.execute("COMMIT")


def test_what_changed_is_told_key_by_key():
    old = {"input": {"files": ["a"], "tree": None}, "pipeline": {"k": 3}}
    new = {"input": {"files": ["a"], "tree": "Velo"}, "pipeline": {}}
    assert differences(old, new) == ["input.tree: (not set) -> 'Velo'", "pipeline.k: 3 -> (not set)"]


OUTCOMES = st.lists(st.sampled_from(["succeed", "retry", "fail", "quarantine", "lose", "late"]), max_size=60)


@settings(max_examples=25, deadline=None)
@given(OUTCOMES)
def test_events_always_add_up(tmp_path_factory, outcomes):
    """Whatever happens in whatever order, each event is in one state and no unit is done twice."""
    with make(tmp_path_factory.mktemp("ledger") / "l.sqlite", entries=45) as ledger:
        old = []
        for now, outcome in enumerate(outcomes):
            claims = ledger.claim(1, float(now))
            for claim in claims:
                own = manifest(claim.unit, claim.attempt, claim.start, claim.stop, quarantined=1)
                if outcome == "succeed":
                    assert ledger.commit(own, now)
                elif outcome == "lose":
                    ledger.release(claims, AttemptState.LOST, now)
                    old.append(own)
                elif outcome == "late" and old:
                    before = totals(ledger).units[UnitState.DONE]
                    accepted = ledger.commit(old.pop(), now)
                    assert totals(ledger).units[UnitState.DONE] == before + accepted
                    ledger.release(claims, AttemptState.LOST, now)
                else:
                    state = {"fail": UnitState.FAILED, "quarantine": UnitState.QUARANTINED}
                    ledger.fail(claim, FAILURE, Verdict(state.get(outcome, UnitState.PENDING)), now)
            sums = totals(ledger)
            assert sums.expected == 45
            assert sum(sums.units.values()) == 5
            assert sums.remaining >= 0
            done = sum(m.stop - m.start for m in ledger.manifests())
            assert done + sums.failed + sums.remaining + (sums.quarantined - sums.units[UnitState.DONE]) == 45


def test_a_million_units_are_counted_within_two_seconds(tmp_path):
    entries = 1_000_000
    with make(tmp_path / "ledger.sqlite", entries, 1) as ledger:
        ledger.connection.execute("UPDATE units SET state = 'done', processed = 1 WHERE unit % 3 = 0")
        ledger.connection.execute(
            "UPDATE units SET state = 'failed', failure_class = 'code', error = 'CodeError', message = 'm' "
            "WHERE unit % 3 = 1"
        )
        # A bound far above what it takes (0.4 s): to notice a quadratic query, not to time this machine.
        began = time.process_time()
        sums = totals(ledger)
        (trouble,) = troubles(ledger)
        claims = ledger.claim(8, 1.0)
        assert time.process_time() - began < 2.0
    assert sums.expected == entries
    assert trouble.count == sums.units[UnitState.FAILED] == 333_333
    assert len(claims) == 8


def test_a_full_disk_is_a_resource_failure_with_the_way_on(ledger):
    pages = ledger.connection.execute("PRAGMA page_count").fetchone()[0]
    ledger.connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(ResourceError, match="full") as caught:
        ledger.set_meta(long="x" * 1_000_000)
    assert "continues" in caught.value.hint
    assert isinstance(caught.value.__cause__, sqlite3.Error)
