"""Which tests of the conformance suite run on which layouts of state in `make test`; the long run has all pairs."""

import hashlib
from collections import defaultdict
from collections.abc import Collection
from typing import NamedTuple

import pytest

FAMILIES = ("test_heap_keeps_the_suite", "test_rocksdb_keeps_the_suite")
"""Modules in which each layout is a subclass of the suite."""
PLAIN = "TestHeapBackend"
"""The layout on which every test of the suite runs."""


class Case(NamedTuple):
    """A test of the suite on a layout.

    Attributes:
        family: The module of the layout.
        layout: The subclass of the suite.
        suite: The class of the suite that has the test.
        test: Its name, with its parameters.
    """

    family: str
    layout: str
    suite: str
    test: str


def of_item(item: pytest.Item) -> Case:
    return case(item.cls, item.path.stem, item.name)  # type: ignore[attr-defined]


def case(layout: type, family: str, test: str) -> Case:
    name = test.partition("[")[0]
    suite = next(one.__name__ for one in layout.__mro__ if name in vars(one))
    return Case(family, layout.__name__, suite, test)


def chosen(cases: Collection[Case]) -> set[Case]:
    """Returns for each test the plain layout and, by a hash of its name, one other of the heap and one of RocksDB.

    If a layout then had no test of a class of the suite, one test of that class is added for it.
    """
    alike: dict[tuple[str, bool, str], list[Case]] = defaultdict(list)
    for one in cases:
        alike[one.family, one.layout == PLAIN, one.test].append(one)
    wanted = {min(layouts, key=_by_hash) for layouts in alike.values()}
    met = {(one.layout, one.suite) for one in wanted}
    for one in sorted(cases, key=_by_hash):
        if (one.layout, one.suite) not in met:
            wanted.add(one)
            met.add((one.layout, one.suite))
    return wanted


def _by_hash(one: Case) -> str:
    return hashlib.sha256(" ".join(one).encode()).hexdigest()
