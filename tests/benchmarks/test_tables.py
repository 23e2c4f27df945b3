"""Figures as the tables of benchmarks/RESULTS.md show them."""

import importlib.util
import json
import sys
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "tables.py"
    spec = importlib.util.spec_from_file_location("benchmark_tables", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # dataclasses look their module up by its name
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        (float("nan"), ""),
        (0, "0"),
        (0.012345, "0.0123"),
        (1.2345, "1.23"),
        (-1.2345, "-1.23"),
        (99.96, "100"),
        (123.4, "123"),
        (12345.6, "12,346"),
    ],
)
def test_numbers_show_three_digits_that_count(tables: ModuleType, value: float | None, shown: str) -> None:
    assert tables.number(value) == shown


def test_a_ratio_to_nothing_is_left_out(tables: ModuleType) -> None:
    assert tables.times(10.0, 4.0) == "2.50x"
    assert tables.times(10.0, 0.0) == ""


def test_a_row_that_does_not_fit_its_columns_is_refused(tables: ModuleType) -> None:
    with pytest.raises(ValueError, match="2 columns, but a row of 1"):
        tables.Table.of("Speed", ("engine", "events/s"), [["fused"]])


def test_a_table_survives_its_way_through_json(tables: ModuleType) -> None:
    table = tables.Table.of("Speed", ("engine", "events/s"), [["fused", "200"]], "one core")
    assert tables.from_json(json.dumps([asdict(table)])) == [table]


def test_markdown_holds_title_cells_and_notes(tables: ModuleType) -> None:
    table = tables.Table.of("Speed", ("engine", "a|b"), [["fused", "200"]], "one core")
    assert table.markdown().splitlines() == [
        "### Speed",
        "",
        "| engine | a\\|b |",
        "| :-- | --: |",
        "| fused | 200 |",
        "",
        "- one core",
    ]
