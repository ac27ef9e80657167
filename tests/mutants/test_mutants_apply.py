"""The list stays valid when code and tests move: every mutant can be planted, and its killers exist. Runs none."""

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from mutant import ROOMS, DoesNotApplyError, Mutant
from planted import FIXED, MUTANTS
from private_copy import ROOT

SUITES = ROOT / "state_engine" / "testing"
"""The folder of the test suites that several classes inherit."""


@cache
def names_in(file: Path) -> frozenset[str]:
    """Returns the names of the functions and classes that a file defines."""
    definitions = ast.FunctionDef | ast.ClassDef
    return frozenset(node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, definitions))


@cache
def names_in_suites() -> frozenset[str]:
    """Returns the names of the tests in the suites."""
    return frozenset(name for file in SUITES.glob("*suite*.py") for name in names_in(file))


def absent(killer: str) -> str:
    """Returns the part of a killer's node id that does not exist; empty if all of it exists."""
    file, *names = killer.partition("[")[0].split("::")
    if not (ROOT / file).is_file():
        return file
    defined = names_in(ROOT / file) | (names_in_suites() if len(names) > 1 else frozenset())
    return next((name for name in names if name not in defined), "")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.id)
def test_each_can_be_planted_and_has_killers_or_a_proof(mutant: Mutant) -> None:
    mutant.plant((ROOT / mutant.path).read_text(encoding="utf-8"))
    assert bool(mutant.killers) != bool(mutant.equivalent)
    assert [absent(killer) for killer in mutant.killers if absent(killer)] == []


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.id)
def test_the_files_on_which_its_death_depends_are_files(mutant: Mutant) -> None:
    """`--since` compares them with the files of a commit; a folder would never be among these."""
    assert [file for file in mutant.files if not (ROOT / file).is_file()] == []


def test_names_are_used_once() -> None:
    assert [name for name, number in Counter(mutant.id for mutant in MUTANTS).items() if number > 1] == []


OF_ALL_ROOMS = {"causes", "text", "floats", "api", "iterating"}
"""Modules that all rooms use: the messages of failures (so that no cause is lost), which keys are equal, what a type
is, which windows a record is in, and what reads the iterables of an author."""


def test_every_room_that_can_lose_a_row_has_some_and_no_other_room_has_any() -> None:
    numbers = Counter(mutant.room for mutant in MUTANTS if not mutant.equivalent and mutant.room not in OF_ALL_ROOMS)
    assert set(numbers) == set(ROOMS)
    assert min(numbers.values()) >= 3
    assert sum(numbers.values()) >= 60


def test_ten_are_fixed_and_of_as_many_rooms_as_can_be() -> None:
    assert len(FIXED) == len(set(FIXED)) == 10
    assert {mutant.room for mutant in FIXED} == set(ROOMS)


SOURCE = """
class Counter:
    def add(self, n):
        return self.total + n

def add(a, b):
    return a + b
"""


def planted(**changes: str) -> str:
    fields = {"function": "Counter.add", "old": "+ n", "new": "- n"} | changes
    mutant = Mutant("name", "state_engine.log.fold", breaks="It counts down.", **fields)
    return mutant.plant(SOURCE)


def test_only_the_named_function_changes() -> None:
    assert planted() == SOURCE.replace("total + n", "total - n")
    assert planted(function="add", old="a + b", new="a") == SOURCE.replace("return a + b", "return a")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"function": "Counter.remove"}, "0 times"),
        ({"old": "+ m"}, "0 times"),
        ({"old": "n", "new": "m"}, "3 times"),
        ({"new": "+"}, "does not compile"),
        ({"new": "+  n"}, "does not change the code"),
    ],
)
def test_what_does_not_apply_is_an_error(changes: dict[str, str], says: str) -> None:
    with pytest.raises(DoesNotApplyError, match=says):
        planted(**changes)
