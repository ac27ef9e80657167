"""flink_checklist.md and its second half: every behaviour names a test that exists, or has a reason."""

import re
from pathlib import Path

import pytest
from listed import assert_exists, ids, tables

PAGES = [(Path(__file__).parent / f"flink_checklist{half}.md").read_text() for half in ("_of_time", "")]
SHOWN, OTHERWISE, NOT_HERE = (
    ["behaviour", "shown by"],
    ["behaviour in Flink", "here", "shown by"],
    ["what Flink tests", "why there is none here"],
)
TABLES = [table for page in PAGES for table in tables(page)]
NAMED = [(heading, row) for heading, (head, *rows) in TABLES if head[-1] == "shown by" for row in rows]


def test_the_tables_are_of_three_forms_and_long() -> None:
    assert [head for _, (head, *_) in TABLES[-2:]] == [OTHERWISE, NOT_HERE]
    assert all(head == SHOWN for _, (head, *_) in TABLES[:-2])
    assert all(len(rows) > 5 for _, (_, *rows) in TABLES)
    assert sum(len(rows) - 1 for _, rows in TABLES) > 250


@pytest.mark.parametrize(("heading", "rows"), TABLES, ids=[heading for heading, _ in TABLES])
def test_no_cell_is_empty_and_no_behaviour_is_listed_twice(heading: str, rows: list[list[str]]) -> None:
    assert all(len(row) == len(rows[0]) and all(row) for row in rows), heading
    behaviours = [row[0] for row in rows]
    assert len(set(behaviours)) == len(behaviours), heading


@pytest.mark.parametrize(("heading", "row"), NAMED, ids=[f"{heading}: {row[0]}" for heading, row in NAMED])
def test_what_a_row_names_exists(heading: str, row: list[str]) -> None:
    named = ids(row[-1])
    assert named, "no test"
    assert re.sub(r"`[^`]+`(, )?", "", row[-1]) == "", "something else than ids"
    assert len(named) == row[-1].count("`") // 2, "an id of no known form"
    for name in named:
        assert_exists(name)
