"""The combined results of several groups of records equal the result of all their records."""

import math
import random
import warnings
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from state_engine.api import Aggregate
from state_engine.api.keys import Keys, indices
from state_engine.api.type_hints import parse_columns_ddl
from state_engine.runtime.declared.accumulators import Collected, Folded
from state_engine.runtime.declared.named import _accumulator
from state_engine.serialization.types import to_arrow

VALUES = {
    "bigint": lambda rng: rng.randrange(-1000, 1000),
    "double": lambda rng: rng.choice([rng.uniform(-9, 9), 0.0, math.nan]),
    "decimal(10,2)": lambda rng: Decimal(rng.randrange(10**6)).scaleb(-2),
    "string": lambda rng: rng.choice(["", "a", "bc"]),
}
KINDS = ["count", "sum", "avg", "stddev", "min", "max", "first", "last", "collect"]


def keys_of(codes):
    return Keys([indices(np.asarray(codes, np.int64))], lambda _: [])


def parts_of(made, keys, values):
    """Returns the parts of each distinct key for some values."""
    if isinstance(made, Collected):
        lists = [[v for code, v in zip(keys.codes, values.to_pylist(), strict=True) if code == k and v is not None]
                 for k in range(len(keys.distinct))]  # fmt: skip
        return [pa.array(lists, pa.list_(values.type))]
    assert isinstance(made, Folded)
    return made.folded(keys, [pa.nulls(len(keys.distinct), to_arrow(one)) for one in made.parts.values()], values)


@pytest.mark.parametrize(("kind", "type_"), [
    (kind, type_) for kind in KINDS for type_ in VALUES if type_ != "string" or kind not in ("sum", "avg", "stddev")
])  # fmt: skip
def test_groups_come_to_what_their_records_come_to(kind, type_):
    made = _accumulator("r", Aggregate(kind, "v"), parse_columns_ddl(f"v {type_}"))
    rng = random.Random(f"{kind} {type_}")
    for _ in range(30):
        groups = [rng.randrange(4) for _ in range(rng.randrange(1, 9))]  # the key of each
        of_groups = [[rng.choice([None, VALUES[type_](rng)]) for _ in range(rng.randrange(1, 5))] for _ in groups]
        values = pa.array([v for group in of_groups for v in group], to_arrow(parse_columns_ddl(f"v {type_}").types[0]))
        numbers = np.repeat(np.arange(len(groups)), [len(group) for group in of_groups])
        keys = keys_of(groups)
        combined = made.combined(keys, parts_of(made, keys_of(numbers), values))
        wanted = parts_of(made, keys_of(keys.codes[numbers]), values)
        for one, other in zip(made.given(combined).to_pylist(), made.given(wanted).to_pylist(), strict=True):
            assert repr(one) == repr(other) or one == pytest.approx(other, rel=1e-9, abs=1e-7), groups


@pytest.mark.parametrize("kind", KINDS)
def test_groups_without_parts_come_to_none(kind):
    """An aggregate that a release adds has no parts in sessions that are open."""
    made = _accumulator("r", Aggregate(kind, "v"), parse_columns_ddl("v bigint"))
    types = [pa.list_(pa.int64())] if kind == "collect" else [to_arrow(one) for one in made.parts.values()]
    keys = keys_of([0, 1, 0])
    absent = [pa.array([[]] * 3, types[0])] if kind == "collect" else [pa.nulls(3, one) for one in types]
    none = {"count": [0, 0], "collect": [[], []]}.get(kind, [None, None])
    assert made.given(made.combined(keys, absent)).to_pylist() == none


def test_means_that_are_the_same_do_not_deviate():
    made = _accumulator("r", Aggregate.stddev("v"), parse_columns_ddl("v double"))
    counts, means, squares = pa.array([1, 2, 4, 1]), pa.array([1e200, 1e200, 1e200, 1.0]), pa.array([0.0] * 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert made.given(made.combined(keys_of([0, 0, 0, 1]), [counts, means, squares])).to_pylist() == [0, None]


def test_means_that_lie_further_apart_than_the_largest_double():
    made = _accumulator("r", Aggregate.stddev("v"), parse_columns_ddl("v double"))
    parts = [pa.array([1, 1]), pa.array([1e308, -1e308]), pa.array([0.0, 0.0])]
    assert made.combined(keys_of([0, 0]), parts)[1].to_pylist() == [0]
    assert made.given(made.combined(keys_of([0, 0]), parts)).to_pylist() == [math.inf]


def test_a_sum_that_groups_outgrow_together_is_refused():
    made = _accumulator("r", Aggregate.sum("v"), parse_columns_ddl("v bigint"))
    with pytest.raises(OverflowError, match="a sum outgrew bigint"):
        made.combined(keys_of([0, 0]), [pa.array([2**62, 2**62])])
    assert made.combined(keys_of([0, 0, 0]), [pa.array([2**62, 2**62, -(2**62)])])[0].to_pylist() == [2**62]
