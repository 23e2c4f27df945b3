"""Campaigns whose ledgers are filled by hand: any number of units, with what a test wants to go wrong."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from egretta.jobs import histograms
from egretta.jobs.manifest import Failure, Manifest, Quarantined
from egretta.kernels.errors import FailureClass
from egretta.workflows.campaign import Campaign
from egretta.workflows.dataset import BadFile, InputFile
from egretta.workflows.layout import unit_id
from egretta.workflows.ledger import Claim, Ledger, Verdict
from egretta.workflows.splitting import Range
from egretta.workflows.states import UnitState

START = 1_764_500_000.0
UNITS_A_FILE = 20
EVENTS_A_UNIT = 50

MakeCampaign = Callable[..., Campaign]


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def manifest_of(claim: Claim, campaign: Campaign, quarantined: int) -> Manifest:
    """Units run two at once, one second each."""
    processed = claim.stop - claim.start - quarantined
    filled = histograms.Histograms()
    filled.fill(histograms.HITS, np.linspace(300, 6000, processed))
    filled.fill(histograms.TRACKS, np.linspace(30, 600, processed))
    filled.fill("time.knn", np.full(processed, 12.0))
    start = START + claim.unit // 2
    return Manifest(
        unit_id=unit_id(claim.unit),
        attempt=claim.attempt,
        campaign=campaign.spec.campaign.name,
        config_hash=campaign.spec.config_hash,
        file=claim.path,
        file_uuid=claim.uuid,
        start=claim.start,
        stop=claim.stop,
        events_processed=processed,
        quarantined=tuple(
            Quarantined(claim.start + i, 7000 + i, "data", "sensor 17 has two banks")
            for i in range(quarantined)
        ),
        output="x.root",
        output_bytes=1000,
        checksum="xxh64:0",
        bytes_read=5000,
        wall_seconds=1.0,
        cpu_seconds=0.9,
        peak_memory_mb=400.0 + claim.unit % 7,
        host=f"host{claim.unit % 2}",
        started_at=iso(start),
        finished_at=iso(start + 1),
        version="9.8.7",
        stage_seconds={"knn": 0.6, "read": 0.2},
        counts={"tracks": 10},
        histograms=filled.as_lists(),
    )


@pytest.fixture
def make_campaign(tmp_path: Path) -> MakeCampaign:
    def make(
        *,
        files: int = 1,
        entries: int = UNITS_A_FILE * EVENTS_A_UNIT,
        name: str = "/data/hits{}.root",
        quarantined_units: frozenset[int] = frozenset(),
        failed_units: frozenset[int] = frozenset(),
        pending_units: frozenset[int] = frozenset(),
        quarantined_events: int = 0,
        reason: str = "basket 3 is truncated",
        bad_file: bool = False,
    ) -> Campaign:
        toml = tmp_path / "campaign.toml"
        toml.write_text(
            '[campaign]\nname = "velo-test"\npipeline = "velo"\n[input]\nfiles = ["*.root"]\n'
            '[output]\ndirectory = "out"\n'
        )
        campaign = Campaign.load(toml)
        inputs = [InputFile(name.format(i), f"uuid-{i}", "Velo", "hits", entries) for i in range(files)]
        ranges = [
            Range(i, start, start + EVENTS_A_UNIT)
            for i in range(files)
            for start in range(0, entries, EVENTS_A_UNIT)
        ]
        bad = [BadFile("/data/bad.root", FailureClass.DATA, "CorruptInputError", "it is empty", "copy it")]
        meta = {
            "config_hash": campaign.spec.config_hash,
            "identity": campaign.spec.identity(),
            "spec_text": toml.read_text(),
        }
        path = campaign.layout.ledger
        with Ledger.create(path, meta, inputs, [entries] * files, ranges, bad if bad_file else []) as ledger:
            for claim in ledger.claim(len(ranges), START):
                if claim.unit in pending_units:
                    continue
                if claim.unit in quarantined_units or claim.unit in failed_units:
                    data = claim.unit in quarantined_units
                    failure = Failure("data" if data else "code", "SomeError", reason)
                    state = UnitState.QUARANTINED if data else UnitState.FAILED
                    ledger.fail(claim, failure, Verdict(state), START)
                else:
                    few = quarantined_events if claim.unit == 0 else 0
                    ledger.commit(manifest_of(claim, campaign, few), START)
        return campaign

    return make
