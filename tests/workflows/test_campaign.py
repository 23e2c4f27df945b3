import json
import os
import signal
import subprocess
import threading
import time

import pytest
import uproot

from egretta.kernels.errors import CodeError, FailureClass, SiteError, SpecError, UsageError
from egretta.workflows import Campaign
from egretta.workflows.lock import exclusive
from egretta.workflows.runner import Notice, Progress, RunEnd, StopRequest
from egretta.workflows.states import UnitState


def test_a_campaign_goes_from_files_to_merged_tracks(workshop, expected_tracks, merged_tracks):
    files = [workshop.hits("a.root", 25, seed=1), workshop.hits("b.root", 7, seed=2)]
    campaign = workshop.campaign(files)
    plan = campaign.plan()
    assert (plan.entries, plan.units, [file.units for file in plan.files]) == (32, 4, [3, 1])
    assert not (workshop.directory / "out").exists(), "a plan changes nothing"
    assert not campaign.status().started
    events = []
    result = campaign.run(events.append)
    assert result.end is RunEnd.FINISHED
    assert result.totals.flawless
    assert result.totals.processed == 32
    last = [event for event in events if isinstance(event, Progress)][-1]
    assert last.events_per_s is not None
    assert campaign.status().flawless
    merged = campaign.merge()
    assert (merged.events, merged.missing) == (32, 0)
    assert merged_tracks(campaign.layout.tracks) == expected_tracks(files)
    assert json.loads(campaign.layout.tracks.with_suffix(".json").read_text())["checksum"] == merged.checksum
    names = workshop.unit_files()
    assert names == sorted(f"u{n:07d}.a1{suffix}" for n in range(4) for suffix in (".json", ".root"))
    assert campaign.run().totals.processed == 32, "running again does nothing"


def test_a_tree_without_entries_is_a_success_with_no_events(workshop, merged_tracks):
    campaign = workshop.campaign([workshop.hits("empty.root", 0)])
    result = campaign.run()
    assert result.totals.flawless
    assert (result.totals.expected, result.totals.processed) == (0, 0)
    assert campaign.merge().events == 0
    assert merged_tracks(campaign.layout.tracks) == []


def test_max_events_takes_the_first_events_only(workshop):
    files = [workshop.hits("a.root", 8, seed=1), workshop.hits("b.root", 8, seed=2)]
    campaign = workshop.campaign(files, input={"max_events": 11})
    assert campaign.run().totals.processed == 11


def test_quarantined_events_are_counted_and_not_missing(workshop, merged_tracks, expected_tracks):
    path = workshop.hits("a.root", 20)
    campaign = workshop.campaign([path], pipeline={"reject": [3, 15]})
    result = campaign.run()
    assert result.totals.flawless
    assert (result.totals.processed, result.totals.quarantined) == (18, 2)
    (trouble,) = campaign.status().troubles
    assert (trouble.what, trouble.count, trouble.message) == ("event", 2, "told to reject")
    merged = campaign.merge()
    assert (merged.events, merged.quarantined, merged.missing) == (18, 2, 0)
    expected = expected_tracks([path])
    assert merged_tracks(campaign.layout.tracks) == [e for i, e in enumerate(expected) if i not in (3, 15)]


def test_a_transient_failure_is_tried_again_and_leaves_one_output(workshop):
    workshop.trigger.touch()
    options = {"fail": "transient", "trigger": workshop.trigger, "once": True}
    campaign = workshop.campaign([workshop.hits("a.root", 20)], pipeline=options)
    notices = []
    result = campaign.run(notices.append)
    assert result.totals.flawless
    bad = [n.text for n in notices if isinstance(n, Notice) and n.bad]
    assert len(bad) == 1
    assert "transient" in bad[0]
    assert "attempt 2 of 5" in bad[0]
    assert len(workshop.unit_files()) == 4
    assert campaign.status().troubles == (), "what has come right is no trouble any more"


def test_bad_data_quarantines_its_unit_at_once_and_the_rest_runs(workshop):
    options = {"fail": "data", "trigger": workshop.trigger, "from_entry": 20}
    campaign = workshop.campaign([workshop.hits("a.root", 30)], pipeline=options)
    workshop.trigger.touch()
    result = campaign.run()
    assert result.totals.units[UnitState.QUARANTINED] == 1
    assert (result.totals.processed, result.totals.quarantined) == (20, 10)
    (trouble,) = campaign.status().troubles
    assert trouble.failure_class == "data"
    assert "--class data" in trouble.command
    with pytest.raises(UsageError, match=r"10 of 30 events are missing(.|\n)*1 quarantined"):
        campaign.merge()
    assert campaign.merge(allow_missing=True).missing == 10
    workshop.trigger.unlink()
    assert campaign.retry(FailureClass.CODE).units == 0
    assert campaign.retry(FailureClass.DATA).events == 10
    assert campaign.run().totals.flawless
    assert campaign.merge().missing == 0


def test_a_bug_fails_its_units_and_the_campaign_pauses_before_it_wastes_more(workshop):
    workshop.trigger.touch()
    campaign = workshop.campaign(
        [workshop.hits("a.root", 16)],
        pipeline={"fail": "code", "trigger": workshop.trigger},
        splitting={"entries_per_unit": 2},
        retry={"pause_after_failures": 3},
    )
    result = campaign.run()
    assert result.end is RunEnd.PAUSED
    assert "3 attempts all failed" in result.reason
    assert 3 <= result.totals.units[UnitState.FAILED] <= 5
    assert result.totals.units[UnitState.RUNNING] == 0
    workshop.trigger.unlink()
    campaign.retry()
    assert campaign.run().totals.flawless


def test_a_unit_that_runs_too_long_is_killed_and_gets_more_time(workshop):
    campaign = workshop.campaign(
        [workshop.hits("a.root", 2)],
        pipeline={"delay_s": 30},
        backend={"unit_timeout_s": 1.0},
        retry={"max_attempts": 2},
    )
    result = campaign.run()
    assert result.totals.units[UnitState.FAILED] == 1
    (trouble,) = campaign.status().troubles
    assert (trouble.failure_class, trouble.error) == ("resource", "OutOfTime")
    assert "2 s, its time limit" in trouble.message
    with campaign.ledger() as ledger:
        assert ledger.connection.execute("SELECT timeout_s FROM units").fetchone() == (1.5,)


def test_a_unit_over_its_memory_is_stopped_and_gets_more(workshop):
    workshop.trigger.touch()
    campaign = workshop.campaign(
        [workshop.hits("a.root", 2)],
        pipeline={"eat_mb": 600, "trigger": workshop.trigger, "once": True},
        backend={"memory_mb": 400},
    )
    result = campaign.run()
    assert result.totals.flawless
    with campaign.ledger() as ledger:
        failed = ledger.connection.execute("SELECT failure_class FROM attempts WHERE attempt = 1").fetchone()
        assert failed == ("resource",)
        assert ledger.connection.execute("SELECT memory_mb FROM units").fetchone() == (600,)


def test_bad_files_stop_the_campaign_unless_the_operator_leaves_them_out(workshop):
    good = workshop.hits("good.root", 5)
    campaign = workshop.campaign([good, "missing.root", "none*.root"])
    with pytest.raises(
        SpecError, match=r"2 input files cannot be used(.|\n)*missing\.root(.|\n)*none"
    ) as caught:
        campaign.run()
    assert "--skip-bad-files" in caught.value.hint
    assert not campaign.started
    result = campaign.run(skip_bad_files=True)
    assert result.totals.flawless
    assert result.totals.expected == 5
    assert len(campaign.status().skipped_files) == 2
    assert campaign.admit_skipped().units == 0
    workshop.hits("missing.root", 7, seed=3)
    workshop.hits("none1.root", 12, seed=4)
    workshop.hits("none2.root", 3, seed=5)
    added = campaign.admit_skipped()
    assert (added.units, added.events) == (4, 22)
    assert campaign.run().totals.processed == 27
    assert campaign.merge().events == 27
    assert campaign.status().skipped_files == ()
    with pytest.raises(SpecError, match="none of the input files"):
        workshop.campaign(["absent.root"], output={"directory": "out2"}).run(skip_bad_files=True)


def test_wrong_pipeline_options_are_refused_before_anything_runs(workshop):
    campaign = workshop.campaign([workshop.hits("a.root", 5)], pipeline={"dealy_s": 1})
    for attempt in (campaign.plan, campaign.run):
        with pytest.raises(SpecError, match="dealy_s"):
            attempt()
    with pytest.raises(SpecError, match="no pipeline"):
        workshop.campaign(["a.root"], campaign={"pipeline": "vello"}).plan()


def test_a_changed_campaign_file_is_refused_with_the_difference(workshop):
    path = workshop.hits("a.root", 5)
    workshop.campaign([path]).run()
    changed = workshop.campaign([path], pipeline={"reject": [1]}, input={"max_events": 3})
    assert changed.plan().changes == ("input.max_events: (not set) -> 3", "pipeline.reject: (not set) -> [1]")
    for action in (changed.run, changed.merge, changed.retry):
        with pytest.raises(SpecError) as caught:
            action()
        assert "input.max_events: (not set) -> 3" in str(caught.value)
        assert "pipeline.reject: (not set) -> [1]" in str(caught.value)
        assert "another name" in caught.value.hint
    workshop.campaign([path], backend={"workers": 1, "memory_mb": 3000}).run()


def test_a_second_runner_is_refused(workshop):
    campaign = workshop.campaign([workshop.hits("a.root", 5)])
    with exclusive(campaign.layout.lock, "run"):
        for action in (campaign.run, campaign.retry, campaign.merge):
            with pytest.raises(UsageError, match="in use by"):
                action()


def test_an_output_directory_that_cannot_be_written_is_a_site_error(workshop):
    (workshop.directory / "file").write_text("")
    campaign = workshop.campaign([workshop.hits("a.root", 5)], output={"directory": "file/out"})
    with pytest.raises(SiteError, match="cannot write"):
        campaign.run()


def test_a_file_that_changed_after_the_start_is_quarantined_not_mixed_in(workshop):
    options = {"fail": "code", "trigger": workshop.trigger}
    path = workshop.hits("a.root", 5)
    campaign = workshop.campaign([path], pipeline=options)
    workshop.trigger.touch()
    campaign.run()
    workshop.trigger.unlink()
    workshop.hits("a.root", 6, seed=9)
    campaign.retry()
    assert campaign.run().totals.quarantined == 5
    assert "has changed since" in campaign.status().troubles[0].message


def test_a_stop_request_leaves_a_campaign_that_goes_on(workshop):
    campaign = workshop.campaign(
        [workshop.hits("a.root", 40)], pipeline={"delay_s": 0.1}, splitting={"entries_per_unit": 8}
    )
    stop = StopRequest()
    threading.Timer(1.0, lambda: setattr(stop, "wanted", True)).start()
    began = time.monotonic()
    result = campaign.run(stop=stop)
    assert result.end is RunEnd.STOPPED
    assert time.monotonic() - began < 10
    assert result.totals.units[UnitState.RUNNING] == 0
    assert result.totals.units[UnitState.PENDING] > 0
    assert not [name for name in workshop.unit_files() if name.endswith(".tmp")]
    assert campaign.run().totals.flawless
    assert campaign.merge().events == 40


def test_ctrl_c_stops_in_order_with_exit_code_130(workshop):
    path = workshop.write([workshop.hits("a.root", 20)], pipeline={"delay_s": 0.2})
    with subprocess.Popen(
        workshop.command("run", str(path)), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        while not list(workshop.directory.glob("out/units/*/*.unit.json")):
            time.sleep(0.05)
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "continues" in out
    assert "Traceback" not in err
    assert Campaign.load(path).run().totals.flawless


def test_a_lost_or_damaged_output_is_refused_by_merge_and_made_again(workshop):
    campaign = workshop.campaign([workshop.hits("a.root", 30)])
    campaign.run()
    first, second, _ = sorted(campaign.layout.directory.glob("units/*/*.root"))
    first.unlink()
    data = bytearray(second.read_bytes())
    data[len(data) // 2] ^= 0xFF
    second.write_bytes(data)
    with pytest.raises(Exception, match="u0000000") as caught:
        campaign.merge()
    assert caught.value.failure_class is FailureClass.DATA
    assert not campaign.layout.tracks.exists()
    assert campaign.redo_damaged().events == 20
    assert campaign.run().totals.flawless
    assert campaign.merge().events == 30


def test_parquet_on_request_holds_the_same_events(workshop):
    parquet = pytest.importorskip("pyarrow.parquet")
    campaign = workshop.campaign([workshop.hits("a.root", 12)])
    campaign.run()
    campaign.merge(parquet=True)
    table = parquet.read_table(campaign.layout.tracks.with_suffix(".parquet"))
    with uproot.open(campaign.layout.tracks) as file:
        assert table["event"].to_pylist() == file["Tracks"]["event"].array().tolist()


def test_an_orphan_of_a_dead_runner_is_killed_before_its_unit_runs_again(workshop):
    from egretta.workflows.backends.local import LocalBackend

    with subprocess.Popen(["sleep", "60"], start_new_session=True) as orphan:
        import psutil

        created = psutil.Process(orphan.pid).create_time()
        stranger = f"{os.getpid()}:{created:.2f}"
        handles = [((0, 1), f"{orphan.pid}:{created:.2f}"), ((1, 1), stranger), ((2, 1), "nonsense")]
        killer = threading.Thread(target=lambda: LocalBackend(1).adopt(handles))
        killer.start()
        # Not its exit code: here the orphan is this process's child, and whoever waits first takes it.
        orphan.wait(timeout=10)
        killer.join()


def test_a_skipped_file_that_turns_out_to_be_a_copy_is_refused(workshop, copy_file):
    good = workshop.hits("good.root", 5)
    campaign = workshop.campaign([good, "missing.root"])
    campaign.run(skip_bad_files=True)
    copy_file(good, workshop.directory / "missing.root")
    with pytest.raises(UsageError, match="has already"):
        campaign.admit_skipped()
    assert campaign.status().totals.expected == 5


def test_the_rate_is_measured_by_a_real_job_and_nothing_is_left(workshop):
    campaign = workshop.campaign([workshop.hits("a.root", 40)], pipeline={"delay_s": 0.1})
    # 20 events in 5 batches of 4 that take 0.1 s each
    assert 5 < campaign.measure(20) < 40
    assert not campaign.layout.directory.exists()
    with pytest.raises(UsageError, match="no event"):
        workshop.campaign([workshop.hits("b.root", 0)]).measure()
    workshop.trigger.touch()
    options = {"fail": "code", "trigger": workshop.trigger}
    with pytest.raises(CodeError, match="told to fail"):
        workshop.campaign(["a.root"], pipeline=options).measure()


def test_a_full_disk_where_the_job_writes_is_waited_for(workshop):
    workshop.trigger.touch()
    options = {"fill_disk": True, "trigger": workshop.trigger, "once": True}
    campaign = workshop.campaign([workshop.hits("a.root", 5)], pipeline=options)
    notices = []
    assert campaign.run(notices.append).totals.flawless
    (failed,) = [notice.text for notice in notices if isinstance(notice, Notice) and notice.bad]
    assert "(resource)" in failed
    assert "MB" not in failed
