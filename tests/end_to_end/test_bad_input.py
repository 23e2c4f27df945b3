"""Bad input in a whole campaign of the pipeline velo: each kind is told, classed, and costs nothing else."""

import html
import json
import re
import signal
import struct
import subprocess
import time
from pathlib import Path

import awkward as ak
import numpy as np
import pytest
import uproot

from egretta.jobs.readers import open_source
from egretta.kernels.mdf import encode_events

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


def write_tree(path, tree, branches, columns, basket_events=1000):
    """Columns, which may be as :func:`events_of` gives them, as a file."""
    columns = {
        name: ak.zip({k: ak.Array(v) for k, v in value.items()}) if isinstance(value, dict) else value
        for name, value in columns.items()
    }
    with uproot.recreate(path) as file:
        file.mktree(tree, branches, counter_name=lambda name: f"n{name}")
        for start in range(0, len(columns["event"]), basket_events):
            file[tree].extend({name: c[start : start + basket_events] for name, c in columns.items()})
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


@pytest.fixture
def bad_mdf(desk, events):
    """LHCb's own format, where a bank of event 4 has a bad magic and one of event 15 a bad size."""
    with open_source(str(events)) as source:
        (batch,) = source.batches(0, 24, 24)
    data = bytearray(encode_events(batch))
    starts = [0]
    while starts[-1] < len(data):
        starts.append(starts[-1] + struct.unpack_from("<I", data, starts[-1])[0])
    first_bank = 20  # there is no subheader behind the header
    struct.pack_into("<H", data, starts[4] + first_bank, 0xCBCC)
    struct.pack_into("<H", data, starts[15] + first_bank + 2, 60000)
    path = desk.directory / "banks.mdf"
    path.write_bytes(data)
    return path, {4: "bad magic number", 15: "bad magic number or size"}


@pytest.fixture
def damaged_hits(desk, events):
    """A file that opens, but whose events from 12 on cannot be read: zeros lie where a basket was."""
    path = desk.directory / "damaged.root"
    write_tree(path, "Velo", HIT_BRANCHES, events_of(events, "Velo", HIT_FIELDS), basket_events=12)
    with uproot.open(path) as file:
        branch = file["Velo"]["hit_z"]
        seek, size = (int(branch.member(name)[1]) for name in ("fBasketSeek", "fBasketBytes"))
    data = bytearray(path.read_bytes())
    data[seek + size // 2 : seek + size] = bytes(size - size // 2)
    path.write_bytes(data)
    return path


def test_what_is_bad_is_quarantined_with_its_reason_and_all_else_comes_out(
    desk, bad_banks, bad_mdf, odd_hits, damaged_hits
):
    banks, said_of_banks = bad_banks
    mdf, said_of_mdf = bad_mdf
    said = {(banks.name, entry): words for entry, words in said_of_banks.items()}
    said |= {(mdf.name, entry): words for entry, words in said_of_mdf.items()}
    said[odd_hits.name, 2] = "NaN|finite"
    desk.write([banks, odd_hits, mdf, damaged_hits])
    desk.egretta("run", "campaign.toml", code=4)

    # the events of the damaged basket go with their unit; all others that are bad go alone
    status = desk.json("status", "campaign.toml", code=4)
    assert {state: n for state, n in status["units"].items() if n} == {"done": 7, "quarantined": 1}
    left = 96 - 12 - len(said)
    counts = {"expected": 96, "processed": left, "quarantined": 12 + len(said), "failed": 0, "remaining": 0}
    assert status["events"] == counts
    assert {failure["class"] for failure in status["failures"]} == {"data"}
    (unit,) = [failure for failure in status["failures"] if failure["what"] == "unit"]
    assert (unit["error"], unit["count"]) == ("CorruptInputError", 1)
    assert damaged_hits.name in unit["message"]
    assert re.fullmatch(r"egretta retry \S*campaign\.toml --class data", unit["command"])
    alone = [failure for failure in status["failures"] if failure["what"] == "event"]
    assert sum(failure["count"] for failure in alone) == len(said)

    reasons = {}
    for path in (desk.directory / "out").glob("units/*/*.a1.json"):
        manifest = json.loads(path.read_text())
        for event in manifest["quarantined"]:
            assert event["failure_class"] == "data"
            reasons[Path(manifest["file"]).name, event["entry"]] = event["reason"]
    assert set(reasons) == set(said)
    for event, words in said.items():
        assert re.search(words, reasons[event]), reasons[event]
    desk.egretta("report", "campaign.toml")
    report = html.unescape((desk.directory / "out" / "report.html").read_text())
    for words in said.values():
        assert re.search(words, report)

    refused = desk.egretta("merge", "campaign.toml", code=2)
    assert "12 of 96 events are missing" in refused.stderr
    assert not (desk.directory / "out" / "tracks.root").exists()
    merged = desk.json("merge", "campaign.toml", "--allow-missing")
    assert (merged["events"], merged["quarantined"], merged["missing"]) == (left, len(said), 12)
    with uproot.open(desk.directory / "out" / "tracks.root") as file:
        tracks = file["Tracks"].arrays()
    # every other event once, in order; the next to empty ones without tracks
    numbers = events_of(odd_hits, "Velo", {})["event"].tolist()
    whole = [
        (file, entry)
        for file in (banks.name, odd_hits.name, mdf.name, damaged_hits.name)
        for entry in range(12 if file == damaged_hits.name else 24)
        if (file, entry) not in said
    ]
    # MDF has no event numbers: they are the entries
    due = [entry if file == mdf.name else numbers[entry] for file, entry in whole]
    assert tracks["event"].tolist() == due
    trackless = [event for event, n in zip(whole, ak.num(tracks["tx"]).tolist(), strict=True) if not n]
    assert trackless == [(odd_hits.name, 0), (odd_hits.name, 1)]


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
    (here / "more.txt").write_text(f"# a file list\n{events}\n{here / 'missing.root'}\n")
    there = [here / name for name in (*bad, "nothing.root") if name != "missing.root"]
    desk.write(there, input={"list_file": "more.txt"})
    plan = desk.json("plan", "campaign.toml", code=4)
    found = {Path(file["path"]).name: file for file in plan["bad_files"]}
    assert set(found) == set(bad)
    for name, words in bad.items():
        assert found[name]["failure_class"] == "data"
        assert words in found[name]["message"], found[name]
    refused = desk.egretta("run", "campaign.toml", code=2)
    assert all(name in refused.stderr for name in bad)
    assert not (here / "out" / "units").exists(), "nothing runs until the operator has decided"
    desk.egretta("run", "campaign.toml", "--skip-bad-files")
    status = desk.json("status", "campaign.toml")
    assert status["events"]["expected"] == status["events"]["processed"] == 24
    assert {Path(file["path"]).name for file in status["skipped_files"]} == set(bad)
    # of a tree without entries there is nothing to do and nothing missing
    merged = desk.json("merge", "campaign.toml")
    assert (merged["events"], merged["missing"]) == (24, 0)


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
    desk.write([events])
    lines = {"cwd": desk.directory, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(desk.command("run", "campaign.toml"), **lines) as first:
        try:
            deadline = time.monotonic() + 60
            while not list((desk.directory / "out").glob("units/*/*.unit.json")):
                assert time.monotonic() < deadline
                assert first.poll() is None
                time.sleep(0.05)
            # held, so that it still runs however slow the second is
            first.send_signal(signal.SIGSTOP)
            refused = desk.egretta("run", "campaign.toml", code=2)
            assert "in use by `egretta run`" in refused.stderr
            first.send_signal(signal.SIGCONT)
            assert first.wait(timeout=60) == 0
        finally:
            first.kill()
    assert desk.json("status", "campaign.toml")["events"]["processed"] == 24
