"""`@pytest.mark.all_pairs`: of a product of parameters, `make test` runs enough to see each pair of values.

Most bugs that depend on parameters depend on one of them or on two together. A greedy choice covers every pair of
values that the full product has, and marks the remaining tests `long`. The product may come from stacked `parametrize`,
from fixtures with parameters, or from both.

A seed need not run with every combination: `all_pairs(seed=2)` keeps two values of the parameter `seed` for each
chosen combination of the others. The choice follows from the names of the tests, so it is the same in every run, on
every worker and in any order.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations

import pytest

Value = tuple[str, int]
Pairs = frozenset[tuple[Value, ...]]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "all_pairs: `make test` covers each pair of parameter values, not the product")


@pytest.hookimpl(tryfirst=True)  # before tests are deselected by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    groups: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("all_pairs") is not None:
            groups[item.nodeid.partition("[")[0]].append(item)
    for group in groups.values():
        kept = kept_of(group)
        for item in group:
            if item.nodeid not in kept:
                item.add_marker(pytest.mark.long)


def kept_of(tests: list[pytest.Item]) -> set[str]:
    """Returns the names of the tests of one function that `make test` runs.

    Raises:
        pytest.UsageError: The mark samples the values of more than one parameter.
    """
    mark = tests[0].get_closest_marker("all_pairs")
    sampled: dict[str, int] = dict(mark.kwargs) if mark else {}
    if len(sampled) > 1:
        raise pytest.UsageError(f"{tests[0].nodeid}: all_pairs takes a sample of one parameter, not of {list(sampled)}")
    alike: dict[frozenset[Value], list[str]] = defaultdict(list)
    for item in tests:
        alike[values_of(item, without=sampled)].append(item.nodeid)
    chosen = choose({min(names): pairs_of(values) for values, names in alike.items()})
    number = next(iter(sampled.values()), 1)
    kept: set[str] = set()
    for names in alike.values():
        if min(names) in chosen:
            kept |= set(sorted(names, key=_by_hash)[:number])
    return kept


def values_of(item: pytest.Item, without: Iterable[str]) -> frozenset[Value]:
    """Returns the parameters of a test, without some of them.

    A value is identified by its identity: all tests of one function have the same objects.
    """
    parameters: dict[str, object] = item.callspec.params  # type: ignore[attr-defined]
    return frozenset((name, id(value)) for name, value in parameters.items() if name not in without)


def pairs_of(values: frozenset[Value]) -> Pairs:
    """Returns all pairs of a test's values; for a single value, only this value."""
    return frozenset(combinations(sorted(values), min(2, len(values))))


def choose(tests: dict[str, Pairs]) -> set[str]:
    """Returns tests that together cover what all of them cover; among equals the hash of the name decides."""
    names = sorted(tests, key=_by_hash)
    remaining = set().union(*tests.values())
    chosen = set() if remaining else {names[0]}
    while remaining:
        best = max(names, key=lambda name: len(tests[name] & remaining))
        chosen.add(best)
        remaining -= tests[best]
    return chosen


def _by_hash(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()
