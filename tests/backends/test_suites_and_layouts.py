"""Which part of the product of the conformance suite and the layouts of state runs in `make test`."""

import inspect
from collections import defaultdict
from importlib import import_module

import pytest
from suites_and_layouts import FAMILIES, PLAIN, Case, case, chosen


@pytest.fixture(scope="module")
def product() -> set[Case]:
    cases: set[Case] = set()
    for family in FAMILIES:
        for name, layout in inspect.getmembers(import_module(family), inspect.isclass):
            if name.startswith("Test"):
                cases |= {case(layout, family, test) for test in dir(layout) if test.startswith("test_")}
    return cases


def test_each_test_runs_on_the_heap_and_on_rocksdb(product: set[Case]) -> None:
    layouts = defaultdict(set)
    for one in chosen(product):
        layouts[one.test] |= {one.layout, one.family}
    assert len(layouts) > 100
    for test in {one.test for one in product}:
        assert {PLAIN, *FAMILIES} <= layouts[test], test


def test_each_layout_meets_each_class_of_the_suite(product: set[Case]) -> None:
    assert {(one.layout, one.suite) for one in chosen(product)} == {(one.layout, one.suite) for one in product}


def test_half_of_the_product_is_left_to_the_long_run(product: set[Case]) -> None:
    assert len(chosen(product)) < len(product) * 0.55
