"""docs/features.md: every feature has a page, a test without Spark, and one in a real stream; all of them exist."""

import re

import pytest
from listed import ROOT, assert_exists, ids, tables

PAGE = (ROOT / "docs" / "features.md").read_text()
COLUMNS = ["feature", "page", "without Spark", "in a Spark stream"]
ROWS = [row for _, (head, *rows) in tables(PAGE) for row in rows]


def test_the_tables_have_rows_and_all_of_one_form() -> None:
    assert all(head == COLUMNS for _, (head, *_) in tables(PAGE))
    assert len(ROWS) > 25
    assert all(len(row) == len(COLUMNS) for row in ROWS), [row for row in ROWS if len(row) != len(COLUMNS)]
    features = [row[0] for row in ROWS]
    assert len(set(features)) == len(features)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_no_cell_is_empty_and_what_it_names_exists(row: list[str]) -> None:
    feature, page, without, within = row
    assert feature
    links = re.findall(r"\]\(([^)#]+)", page)
    assert links, "no page"
    assert all((ROOT / "docs" / link).is_file() for link in links)
    assert ids(without), "no test without Spark"
    assert ids(within), "no test in a Spark stream"
    assert all(name.startswith(("spark/", "demo/", "flink/", "cluster/")) for name in ids(within))
    assert not any(name.startswith("spark/") for name in ids(without))
    for name in (*ids(without), *ids(within)):
        assert_exists(name)
