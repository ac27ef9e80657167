"""coordinator_checklist.md: each promise about checkpoints names a test that exists; no setter is missing."""

import re
from pathlib import Path

import pytest
from listed import assert_exists, ids, tables

from state_engine.api import CheckpointConfig

TABLES = tables((Path(__file__).parent / "coordinator_checklist.md").read_text())
NAMED = [(heading, row) for heading, (head, *rows) in TABLES if head[-1] == "shown by" for row in rows]


@pytest.mark.parametrize(("heading", "rows"), TABLES, ids=[heading for heading, _ in TABLES])
def test_no_cell_is_empty_and_nothing_is_listed_twice(heading: str, rows: list[list[str]]) -> None:
    assert len(rows) > 4, heading
    assert all(len(row) == len(rows[0]) and all(row) for row in rows), heading
    assert len({row[0] for row in rows}) == len(rows), heading


@pytest.mark.parametrize(("heading", "row"), NAMED, ids=[f"{heading}: {row[0]}" for heading, row in NAMED])
def test_what_a_row_names_exists(heading: str, row: list[str]) -> None:
    named = ids(row[-1])
    assert named, "no test"
    assert len(named) == row[-1].count("`") // 2, "an id of no known form"
    for name in named:
        assert_exists(name)


def test_every_setter_has_a_row() -> None:
    [settings] = [rows for heading, (_, *rows) in TABLES if heading == "Settings"]
    listed = {name for row in settings for name in re.findall(r"`(\w+)`", row[0])}
    setters = {name for name in vars(CheckpointConfig) if re.match("set_|enable_|disable_", name)}
    assert listed == setters
