"""Sums, means and deviations at the limits of doubles and of 64 bits."""

import math
import random
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_engine.api import Aggregate
from state_engine.api.type_hints import parse_columns_ddl
from state_engine.errors import UserFunctionError
from state_engine.runtime.declared.aggregation import Aggregation
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness as Harness


def results(aggregate, type_, *epochs):
    """Returns the result of one key after each epoch."""
    columns = f"k string, v {type_}"
    function = Aggregation(["k"], {"r": aggregate}, parse_columns_ddl(columns))
    with Harness(function, "k", columns, function.output) as one:
        for values in epochs:
            one.process_elements([("a", value) for value in values])
        return [result for _, result in one.extract_output_values()]


def test_integers_that_no_double_is_equal_to():
    odd = 2**53 + 1
    assert results(Aggregate.avg("v"), "bigint", [odd], [odd]) == [2.0**53] * 2
    assert results(Aggregate.avg("v"), "bigint", [2**52, 2**52 + 1]) == [2.0**52]
    assert results(Aggregate.stddev("v"), "bigint", [odd, odd]) == [0]


@pytest.mark.parametrize("scale", [2, 18])
def test_means_of_decimals_are_the_doubles_next_to_them(scale):
    for digits in range(0, 2000, 7):
        value = Decimal(digits).scaleb(-scale)
        assert results(Aggregate.avg("v"), f"decimal(38,{scale})", [value]) == [float(value)]


def test_deviations_of_decimals_are_those_of_the_doubles_next_to_them():
    values = [Decimal(n).scaleb(-18) for n in range(1000)]
    by_decimals = results(Aggregate.stddev("v"), "decimal(38,18)", values)
    assert by_decimals == results(Aggregate.stddev("v"), "double", [float(value) for value in values])


@pytest.mark.parametrize("epochs", [[[1e200, 1e200]], [[1e200], [1e200]], [[1e200], [], [1e200, 1e200]]])
def test_large_doubles_that_are_the_same_do_not_deviate(epochs):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert results(Aggregate.stddev("v"), "double", *epochs)[-1] == 0
        assert results(Aggregate.stddev("v"), "double", [1e200, -1e200]) == [math.inf]


@settings(max_examples=max(5, settings.default.max_examples // 2))
@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.lists(st.integers(0, 9), min_size=1, max_size=4).filter(lambda sizes: sum(sizes) > 1),
)
def test_values_that_are_the_same_do_not_deviate(value, sizes):
    """However they are cut into epochs: their mean is the value itself, without rounding."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert results(Aggregate.stddev("v"), "double", *([value] * size for size in sizes))[-1] == 0


@pytest.mark.parametrize("value", [0.1, 1e15 + 0.3, 1e308])
def test_values_that_are_the_same_do_not_deviate_beside_other_keys(value):
    function = Aggregation(["k"], {"r": Aggregate.stddev("v")}, parse_columns_ddl("k string, v double"))
    with Harness(function, "k", "k string, v double", function.output) as one:
        one.process_elements([("a", value), ("b", 1.0), ("a", value), ("b", 3.0), ("a", value)])
        assert dict(map(tuple, one.extract_output_values())) == {"a": 0, "b": math.sqrt(2)}


def test_doubles_that_lie_further_apart_than_the_largest_one():
    for epochs in ([[1e308, -1e308]], [[1e308], [-1e308]], [[1e308], [-1e308], [0.0], [0.0]]):
        assert results(Aggregate.stddev("v"), "double", *epochs)[-1] == math.inf


@pytest.mark.parametrize(("about", "cut"), [(0, 1e-13), (1e3, 1e-11), (1e6, 1e-8)])
def test_deviations_are_as_exact_as_numpy_s(about, cut):
    """NumPy reads all values twice. Between epochs, a mean is stored with no more than 53 bits."""
    for seed in range(10):
        rng = random.Random(seed)
        values = [about + rng.uniform(-1, 1) for _ in range(200)]
        mean = Fraction(sum(map(Fraction, values)), len(values))
        exact = math.sqrt(sum((Fraction(value) - mean) ** 2 for value in values) / (len(values) - 1))
        deviation = results(Aggregate.stddev("v"), "double", values)[-1]
        assert abs(deviation - exact) <= abs(np.std(values, ddof=1) - exact) + 1e-14 * exact
        assert results(Aggregate.stddev("v"), "double", values[:3], values[3:90], values[90:])[-1] == pytest.approx(
            exact, rel=cut
        )


@pytest.mark.parametrize("kind", ["sum", "avg"])
def test_a_sum_that_is_too_large_is_named(kind):
    with pytest.raises(UserFunctionError, match=f"'r', the {kind} of 'v': a sum outgrew bigint"):
        results(Aggregate(kind, "v"), "bigint", [2**62], [2**62])


def test_only_what_an_epoch_adds_up_to_can_be_too_large():
    assert results(Aggregate.sum("v"), "bigint", [2**62], [2**62, -1, 2**62, -(2**62)]) == [2**62, 2**63 - 1]


@pytest.mark.parametrize("largest", [1, 2**31, 2**53 // 6, 2**53 // 6 + 1, 2**60])
def test_sums_of_integers_are_exact_whichever_way_they_are_added(largest):
    values = [largest, None, -largest + 1, largest, -1, largest - 2]
    sums = [sum(value or 0 for value in values) * n for n in (1, 2)]
    assert results(Aggregate.sum("v"), "bigint", values, values[::-1]) == sums
    assert results(Aggregate.sum("v"), "bigint", [None], [None, 3], [None]) == [None, 3, 3]
