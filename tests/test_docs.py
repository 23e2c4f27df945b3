"""What the documentation says about settings, fields and codes is what the code holds."""

import dataclasses
import re
import sys
import types
import typing
from pathlib import Path

import awkward as ak
import numpy as np
import pytest
import uproot

from egretta.jobs.failures import EXIT_CODES, EXIT_USAGE
from egretta.jobs.manifest import Manifest
from egretta.jobs.pipelines.velo_options import VeloOptions
from egretta.jobs.unit import Unit
from egretta.workflows.spec import CampaignSpec, Section

DOCS = Path(__file__).resolve().parents[1] / "docs"


def rows(text: str) -> list[list[str]]:
    """Cells of every table row in a page."""
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in text.splitlines()
        if line.startswith("|")
    ]


def section(page: str, heading: str) -> str:
    text = (DOCS / page).read_text()
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    assert found, f"{page} has no section {heading}"
    return found[1]


def sections_of_a_campaign() -> dict[str, type[Section]]:
    return {
        name: field.annotation
        for name, field in CampaignSpec.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section)
    }


@pytest.mark.parametrize("name", sections_of_a_campaign())
def test_every_key_of_the_campaign_file_is_documented_with_its_default(name):
    documented = {row[0].strip("`"): row[1] for row in rows(section("campaign.md", f"`[{name}]`"))[2:]}
    fields = sections_of_a_campaign()[name].model_fields
    assert set(documented) == set(fields)
    for key, field in fields.items():
        if field.is_required():
            assert documented[key] == "", key
        elif isinstance(field.default, (bool, int, float, str)):
            shown = f'"{field.default}"' if isinstance(field.default, str) else str(field.default).lower()
            assert documented[key] == f"`{shown}`", key
        else:
            assert documented[key], key


@pytest.mark.parametrize(("kind", "heading"), [(Unit, "The unit file"), (Manifest, "The manifest")])
def test_every_field_of_unit_and_manifest_is_documented(kind, heading):
    documented = {
        name for row in rows(section("job.md", heading))[2:] for name in re.findall(r"`(\w+)`", row[0])
    }
    assert documented == {field.name for field in dataclasses.fields(kind)} | {"schema"}


def test_every_option_of_the_velo_pipeline_is_documented_with_its_default():
    documented = {
        key.strip("`"): (default, meaning)
        for key, default, _, meaning in rows(section("velo.md", "Options"))
        if key.startswith("`")
    }
    assert set(documented) == set(VeloOptions.model_fields)
    for key, field in VeloOptions.model_fields.items():
        if field.default and isinstance(field.default, str):
            assert documented[key][0] == f'`"{field.default}"`', key
        for choice in typing.get_args(field.annotation) if isinstance(field.default, str) else ():
            assert f'`"{choice}"`' in documented[key][1], key


def test_the_exit_codes_of_a_job_are_documented():
    documented = {int(row[0]): row[1] for row in rows(section("job.md", "Exit codes"))[2:]}
    assert set(documented) == {0, EXIT_USAGE, *EXIT_CODES.values()}
    for kind, code in EXIT_CODES.items():
        assert f"`{kind}`" in documented[code]


def test_the_pipeline_of_the_documentation_runs(tmp_path, monkeypatch):
    from egretta.jobs.job import run_unit

    code = re.search(r"```python\n# mine\.py\n(.*?)```", (DOCS / "developing.md").read_text(), re.DOTALL)
    assert code
    module = types.ModuleType("documented_pipeline")
    exec(compile(code[1], "developing.md", "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, "documented_pipeline", module)
    hits = ak.Array([[1.0, 2.0], [], [3.0], [4.0], [5.0]])
    with uproot.recreate(tmp_path / "events.root") as file:
        file["Velo"] = {
            "event": np.arange(5),
            **{f"hit_{axis}": ak.values_astype(hits, np.float32) for axis in "xyz"},
            "hit_module": ak.values_astype(hits, np.int32),
        }
    unit = Unit(
        unit_id="u1",
        attempt=1,
        campaign="docs",
        config_hash="",
        pipeline="documented_pipeline:make_pipeline",
        file=str(tmp_path / "events.root"),
        file_uuid="",
        start=0,
        stop=5,
        output_directory=str(tmp_path),
        tree="Velo",
        pipeline_options={"pipeline": {"most_hits": 100_000}, "inference": {}},
    )
    assert run_unit(unit).events_processed == 5
    none = dataclasses.replace(unit, attempt=2, pipeline_options={"pipeline": {"most_hits": 0}})
    assert len(run_unit(none).quarantined) == 4
