"""docs/features.md: every feature has a page, a test without Spark and one in a real stream, and all of them exist."""

import ast
import re
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
PAGE = (ROOT / "docs" / "features.md").read_text()
COLUMNS = ["feature", "page", "without Spark", "in a Spark stream"]


def rows() -> list[list[str]]:
    """The cells of every row of the page's tables."""
    lines = [line for line in PAGE.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row != COLUMNS and set("".join(row)) != {"-"}]


def ids(cell: str) -> list[str]:
    return re.findall(r"`([^`]+\.py(?:::\w+)?)`", cell)


@lru_cache
def names_in(file: Path) -> frozenset[str]:
    """Names of the tests of a file; those that a class inherits from a shipped suite count as the class."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name.lower().startswith("test"):
            found.add(node.name)
        elif isinstance(node, ast.Assign):  # TestTimers = TimersMachine.TestCase
            found.update(t.id for t in node.targets if isinstance(t, ast.Name) and t.id.startswith("Test"))
    return frozenset(found)


def test_the_tables_have_rows_and_all_of_one_form() -> None:
    found = rows()
    assert len(found) > 25
    assert all(len(row) == len(COLUMNS) for row in found), [row for row in found if len(row) != len(COLUMNS)]
    features = [row[0] for row in found]
    assert len(set(features)) == len(features)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_no_cell_is_empty_and_what_it_names_exists(row: list[str]) -> None:
    feature, page, without, within = row
    assert feature
    links = re.findall(r"\]\(([^)#]+)", page)
    assert links, "no page"
    assert all((ROOT / "docs" / link).is_file() for link in links)
    assert ids(without), "no test without Spark"
    assert ids(within), "no test in a Spark stream"
    assert all(name.startswith(("spark/", "demo/", "flink/")) for name in ids(within))
    assert not any(name.startswith("spark/") for name in ids(without))
    for name in (*ids(without), *ids(within)):
        path, _, test = name.partition("::")
        file = TESTS / path
        assert file.is_file(), f"{path} does not exist"
        assert names_in(file), f"{path} has no test"
        assert not test or test in names_in(file), f"{path} has no {test}"
