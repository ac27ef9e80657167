"""Reads pages with tables that name tests: their rows, and whether the tests exist."""

import ast
import json
import re
from functools import lru_cache
from pathlib import Path

from state_engine.testing.state_suite import StateSuite

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
RECORDED = TESTS / "golden" / "flink" / "recorded"


def tables(page: str) -> list[tuple[str, list[list[str]]]]:
    """Returns the tables of a page, each with its heading: the cells of every row, the table's own head first."""
    found: list[tuple[str, list[list[str]]]] = []
    heading, inside = "", False
    for line in page.splitlines():
        if line.startswith("#"):
            heading = line.strip("# ")
        if not line.startswith("|"):
            inside = False
            continue
        if not inside:
            found.append((heading, []))
            inside = True
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if set("".join(cells)) != {"-"}:
            found[-1][1].append(cells)
    return found


def ids(cell: str) -> list[str]:
    """Returns the ids of tests in a cell, whatever their form."""
    return re.findall(r"`([^`]+\.py(?:::\w+)*|suite::\w+|golden::\w+\.\w+)`", cell)


@lru_cache
def names_in(file: Path) -> frozenset[str]:
    """Names of the tests of a file, those of a class with it and without; a class has those of a shipped suite.

    The classes of `spark/shared_jobs` that check something are tests: `spark/test_shared_jobs.py` has one for each.
    """
    found = set()
    if file.parent.name == "shared_jobs":
        classes = [node for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)]
        return frozenset(c.name for c in classes if any(getattr(m, "name", "") == "check" for m in c.body))
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Assign):  # TestTimers = TimersMachine.TestCase
            found.update(t.id for t in node.targets if isinstance(t, ast.Name) and t.id.startswith("Test"))
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            methods = {m.name for m in node.body if isinstance(m, ast.FunctionDef) and m.name.startswith("test")}
            found |= {node.name, *methods, *(f"{node.name}::{method}" for method in methods)}
    return frozenset(found)


@lru_cache
def scenarios(group: str) -> frozenset[str]:
    """Returns the names of the scenarios of a group that were recorded from PyFlink."""
    return frozenset(json.loads((RECORDED / f"{group}.json").read_text())["scenarios"])


def assert_exists(test_id: str) -> None:
    """Asserts that a test is where the id says."""
    kind, _, name = test_id.partition("::")
    if kind == "suite":
        assert name.startswith("test_"), test_id
        assert hasattr(StateSuite, name), f"the state suite has no {name}"
        return
    if kind == "golden":
        group, _, scenario = name.partition(".")
        assert (RECORDED / f"{group}.json").is_file(), f"nothing of {group} was recorded"
        assert scenario in scenarios(group), f"{group} has no scenario {scenario}"
        return
    file = TESTS / kind
    assert file.is_file(), f"{kind} does not exist"
    assert names_in(file), f"{kind} has no test"
    assert not name or name in names_in(file), f"{kind} has no {name}"
