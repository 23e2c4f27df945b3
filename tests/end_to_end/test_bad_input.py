"""Bad input in a whole campaign of the pipeline velo: each kind is told, classed, and costs nothing else."""

import json
import re
import subprocess
import time
from pathlib import Path

import awkward as ak
import numpy as np
import pytest
import uproot

RETINA = 73
RAW_BRANCHES = {
    "event": "int64",
    "bank": "var * {type: int64, version: int64, source: int64, nwords: int64}",
    "data": "var * {word: uint32}",
}
HIT_BRANCHES = {
    "event": "int64",
    "hit": "var * {x: float64, y: float64, z: float64, module: int64, lhcb_id: uint32}",
}


HIT_FIELDS = {"hit": ("x", "y", "z", "module", "lhcb_id")}


def write_tree(path, tree, branches, columns):
    """Columns, which may be as :func:`events_of` gives them, as a file."""
    columns = {
        name: ak.zip({k: ak.Array(v) for k, v in value.items()}) if isinstance(value, dict) else value
        for name, value in columns.items()
    }
    with uproot.recreate(path) as file:
        file.mktree(tree, branches, counter_name=lambda name: f"n{name}")
        if len(columns["event"]):
            file[tree].extend(columns)
    return path


def events_of(events, tree, collections):
    """Columns of a simulated tree as lists of events, ready to be damaged: {collection: {field: [...]}}"""
    with uproot.open(events) as file:
        columns = {"event": file[tree]["event"].array(library="np")}
        for name, fields in collections.items():
            columns[name] = {
                field: [np.array(row) for row in file[tree][f"{name}_{field}"].array()] for field in fields
            }
    return columns


@pytest.fixture
def bad_banks(desk, events):
    """Banks with a fault in each of events 1 to 6, and what is said of each."""
    columns = events_of(
        events, "RawEvent", {"bank": ("type", "version", "source", "nwords"), "data": ("word",)}
    )
    bank, word = columns["bank"], columns["data"]["word"]

    def retina(event, least=1):
        """The event's first retina bank with that many words, and the place of its first word."""
        wanted = (bank["type"][event] == RETINA) & (bank["nwords"][event] >= least)
        at = int(np.flatnonzero(wanted)[0])
        return at, int(bank["nwords"][event][:at].sum())

    at, _ = retina(1, least=2)
    bank["nwords"][1][at : at + 2] += [-1, 1]
    at, _ = retina(2)
    bank["version"][2][at] = 99
    at, place = retina(3, least=2)
    word[3][place + int(bank["nwords"][3][at]) - 1] = 0xFFFFFFFF
    at, _ = retina(4)
    bank["source"][4][at + 1] = bank["source"][4][at]
    at, _ = retina(5)
    bank["source"][5][at] = 4000
    bank["type"][6][:] = 1
    said = {
        1: "size",
        2: "version",
        3: "column beyond|size",
        4: "same sensor",
        5: "does not exist",
        6: "no VELO bank",
    }
    return write_tree(desk.directory / "banks.root", "RawEvent", RAW_BRANCHES, columns), said


@pytest.fixture
def odd_hits(desk, events):
    """Hits where event 0 has none, event 1 has one, and event 2 has a position that is no number."""
    columns = events_of(events, "Velo", HIT_FIELDS)
    for field, rows in columns["hit"].items():
        rows[0] = rows[0][:0]
        rows[1] = rows[1][:1]
        if field == "x":
            rows[2][3] = np.nan
    return write_tree(desk.directory / "hits.root", "Velo", HIT_BRANCHES, columns)


def test_bad_events_are_quarantined_each_with_its_reason_and_all_others_come_out(desk, bad_banks, odd_hits):
    banks, said = bad_banks
    desk.write([banks, odd_hits], splitting={"entries_per_unit": 5})
    desk.egretta("run", "campaign.toml")
    status = desk.json("status", "campaign.toml")
    assert status["units"]["done"] == 10
    counts = {"expected": 48, "processed": 41, "quarantined": 7, "failed": 0, "remaining": 0}
    assert status["events"] == counts
    reasons = {}
    for path in (desk.directory / "out").glob("units/*/*.a1.json"):
        manifest = json.loads(path.read_text())
        for event in manifest["quarantined"]:
            assert event["failure_class"] == "data"
            reasons[Path(manifest["file"]).name, event["entry"]] = event["reason"]
    assert len(reasons) == 7
    for entry, words in said.items():
        assert re.search(words, reasons["banks.root", entry])
    assert "NaN" in reasons["hits.root", 2] or "finite" in reasons["hits.root", 2]
    merged = desk.json("merge", "campaign.toml")
    assert (merged["events"], merged["quarantined"]) == (41, 7)
    with uproot.open(desk.directory / "out" / "tracks.root") as file:
        tracks = file["Tracks"].arrays()
    # every other event once, the empty ones without tracks
    numbers = events_of(odd_hits, "Velo", {})["event"].tolist()
    left = [n for e, n in enumerate(numbers) if e not in said] + [n for e, n in enumerate(numbers) if e != 2]
    assert tracks["event"].tolist() == left
    n_tracks = ak.num(tracks["tx"]).tolist()
    assert n_tracks[18:20] == [0, 0]
    assert min(n_tracks[:18] + n_tracks[20:]) > 0


def test_bad_files_are_each_named_with_the_reason_and_left_out_on_request(desk, events):
    here = desk.directory
    (here / "empty.root").touch()
    (here / "truncated.root").write_bytes(events.read_bytes()[: events.stat().st_size // 3])
    (here / "text.root").write_text("not a ROOT file, whatever its name says\n" * 50)
    write_tree(here / "misnamed.root", "Velos", HIT_BRANCHES, events_of(events, "Velo", HIT_FIELDS))
    columns = events_of(events, "Velo", HIT_FIELDS)
    columns["hits"] = columns.pop("hit")
    branches = {"event": "int64", "hits": HIT_BRANCHES["hit"]}
    write_tree(here / "branch.root", "Velo", branches, columns)
    none = {"event": np.zeros(0, np.int64)}
    write_tree(here / "nothing.root", "Velo", HIT_BRANCHES, none)
    bad = {
        "empty.root": "empty",
        "truncated.root": "truncated",
        "text.root": "neither a ROOT file nor",
        "misnamed.root": "Velos",
        "branch.root": "hits",
        "missing.root": "no such file",
    }
    desk.write([here / name for name in (*bad, "nothing.root")] + [events])
    plan = desk.json("plan", "campaign.toml", code=4)
    found = {Path(file["path"]).name: file for file in plan["bad_files"]}
    assert set(found) == set(bad)
    for name, words in bad.items():
        assert found[name]["failure_class"] == "data"
        assert words in found[name]["message"], found[name]
    refused = desk.egretta("run", "campaign.toml", code=2)
    assert all(name in refused.stderr for name in bad)
    desk.egretta("run", "campaign.toml", "--skip-bad-files")
    status = desk.json("status", "campaign.toml")
    assert status["events"]["expected"] == status["events"]["processed"] == 24
    assert {Path(file["path"]).name for file in status["skipped_files"]} == set(bad)


def test_an_output_directory_that_cannot_be_made_is_refused(desk, events):
    (desk.directory / "out").write_text("a file in the way")
    desk.write([events])
    refused = desk.egretta("run", "campaign.toml", code=1)
    assert "out" in refused.stderr
    assert "what to do" in refused.stderr


def test_a_changed_campaign_is_refused_with_the_difference_until_it_is_changed_back(desk, events):
    desk.write([events])
    desk.egretta("run", "campaign.toml")
    desk.write([events], pipeline={"threshold": 3.5})
    refused = desk.egretta("run", "campaign.toml", code=2)
    assert "threshold" in refused.stderr
    assert "3.5" in refused.stderr
    desk.write([events])
    desk.egretta("run", "campaign.toml")


def test_a_second_run_of_the_same_campaign_is_refused_while_one_runs(desk, events):
    desk.write([events], splitting={"entries_per_unit": 6}, backend={"workers": 1})
    lines = {"cwd": desk.directory, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(desk.command("run", "campaign.toml"), **lines) as first:
        deadline = time.monotonic() + 60
        while not list((desk.directory / "out").glob("units/*/*.unit.json")):
            assert time.monotonic() < deadline
            assert first.poll() is None
            time.sleep(0.05)
        refused = desk.egretta("run", "campaign.toml", code=2)
        assert "in use by `egretta run`" in refused.stderr
        first.terminate()
    desk.egretta("run", "campaign.toml")
    assert desk.json("status", "campaign.toml")["events"]["processed"] == 24
