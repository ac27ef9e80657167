"""The calls of a function that folds columns, and the refusal of columns that do not fit the state."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from folds_of_columns import FOLDS, Account, Balance, Kept, described, of, silent

from state_engine.api import AggregatingStateDescriptor, ReducingStateDescriptor, StateTtlConfig, Time, Types
from state_engine.api.keys import Keys
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.backends.layout import Layout
from state_engine.backends.rocksdb import LocalDatabase, RocksDBKeyedStateBackend, Tuning
from state_engine.backends.shapes.values import ValueColumnTable
from state_engine.testing.state_harness import StateHarness

PLACES = ["columns", "dicts", "rocksdb"]
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


def lives(milliseconds: int = 100) -> StateTtlConfig.Builder:
    return StateTtlConfig.new_builder(Time.milliseconds(milliseconds)).disable_cleanup_in_background()


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Returns a function that makes the state of a descriptor, with its harness."""
    opened = []

    def make(*args: Any) -> Any:
        if request.param != "rocksdb":
            return HeapKeyedStateBackend(*args)
        opened.append(LocalDatabase(tmp_path / str(len(opened)), Tuning()))
        return RocksDBKeyedStateBackend(*args, opened[-1])

    def placed(descriptor: Any) -> tuple[StateHarness, Any]:
        harness = StateHarness(make, "k bigint", now=(0, 0))
        layout = Layout.ENTRIES if request.param == "dicts" else Layout.COLUMNS
        state = harness.backend.state(descriptor, layout)
        lies = isinstance(harness.backend._tables[descriptor.name], ValueColumnTable)
        assert lies == (request.param == "columns")
        return harness, state

    yield placed
    for one in opened:
        one.close()


class Total(Balance):
    """Is called only by columns."""

    def reduce(self, value1: Any, value2: Any) -> Any:
        raise AssertionError("called value by value")


class Columns(Account):
    """Is called only by columns."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def create_accumulator(self) -> Any:
        raise AssertionError("called value by value")

    add = get_result = create_accumulator  # type: ignore[assignment]

    def add_columns(self, keys: Keys, values: Any, accumulators: Any) -> Any:
        self.seen.append((keys.distinct.columns[0].to_pylist(), values, accumulators))
        return super().add_columns(keys, values, accumulators)


@pytest.mark.parametrize("ttl", [False, True])
def test_an_aggregate_is_asked_once_with_what_is_there(place: Any, ttl: bool) -> None:
    function = Columns()
    descriptor = AggregatingStateDescriptor("v", function, PAIR)
    if ttl:
        descriptor.enable_time_to_live(lives().build())
    harness, state = place(descriptor)
    state.add_many(of([5, 7, 5]), pa.array([1, 2, 4]))
    harness.seal()
    state.add_many(of([7, 9, 7]), pa.array([4, 1, None], pa.int8()))
    assert state.get_many(of([9, 5, 8, 7]), Types.LONG()).to_pylist() == [3, 15, None, 18]
    assert [keys for keys, _, _ in function.seen] == [[5, 7], [7, 9]]
    assert [values.type for _, values, _ in function.seen] == [pa.int64(), pa.int8()]
    assert [accumulators.to_pylist() for _, _, accumulators in function.seen] == [
        [None, None], [{"f0": 2, "f1": 4}, None],
    ]  # fmt: skip
    if ttl:
        harness.time.begin(100, 0)
        state.add_many(of([7]), [1])
        assert function.seen[-1][2].to_pylist() == [None]


@pytest.mark.parametrize("ttl", [False, True])
@pytest.mark.parametrize("name", ["reduced", "aggregated"])
def test_no_key_becomes_a_python_object_where_all_is_in_columns(name: str, ttl: bool) -> None:
    aggregated = name == "aggregated"
    if aggregated:
        descriptor: Any = AggregatingStateDescriptor("v", Columns(), PAIR)
    else:
        descriptor = ReducingStateDescriptor("v", Total(), Types.LONG())
    if ttl:
        descriptor.enable_time_to_live(lives().build())
    harness = StateHarness(HeapKeyedStateBackend, "k bigint", now=(0, 0))
    state = harness.backend.state(descriptor, Layout.COLUMNS)
    assert isinstance(harness.backend._tables["v"], ValueColumnTable)
    for _ in range(2):
        state.add_many(silent([1, 2, 1]), pa.array([1, 2, 3]))
        values = state.get_many(silent([2, 1]), *[Types.LONG()] * aggregated).to_pylist()
        assert state.contains_many(silent([2, 3])).to_pylist() == [True, False]
        harness.seal()
    assert values == ([12, 24] if aggregated else [4, 8])
    state.remove_many(silent([2]))
    assert state.contains_many(silent([2, 1])).to_pylist() == [False, True]


@pytest.mark.parametrize("stored", [[], [0], [0, 2], [0, 1, 2]])
def test_what_was_stored_is_reduced_before_what_is_added(place: Any, stored: list[int]) -> None:
    """Whichever keys had a value."""
    harness, state = place(FOLDS["joined"]())
    keys = of([0, 1, 2])
    if stored:
        state.add_many(of(stored), [[one] for one in stored])
        harness.seal()
    state.add_many(keys.take(np.array([2, 0, 1, 2])), [[7], [8], [9], [10]])
    before = [[one] if one in stored else [] for one in range(3)]
    assert state.get_many(keys).to_pylist() == [[*before[0], 8], [*before[1], 9], [*before[2], 7, 10]]


def test_values_of_which_arrow_makes_no_column_are_added_one_by_one(place: Any) -> None:
    class Lengths(Kept):
        def add(self, value: Any, accumulator: Any) -> Any:
            return [*accumulator, len(str(value))]

        def add_columns(self, keys: Keys, values: Any, accumulators: Any) -> Any:
            return super().add_columns(keys, pa.array([len(str(one)) for one in values.to_pylist()]), accumulators)

    _, state = place(AggregatingStateDescriptor("v", Lengths(), "array<bigint>"))
    state.add_many(of([1, 2, 1]), ["abc", 1000, "z"])
    state.add_many(of([1, 2, 1]), ["abcd", "x", "y"])
    state.add_many(of([2]), np.array(["abcd"], object))
    assert state.get_many(of([1, 2]), Types.LONG()).to_pylist() == [3 + 1 + 4 + 1, 4 + 1 + 4]


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("ttl", [False, True])
def test_without_keys_nothing_is_asked(place: Any, name: str, ttl: bool) -> None:
    harness, state = place(described(name, lives() if ttl else None))
    none = of([])
    state.add_many(none, [])
    result = [Types.LONG()] if name in ("account", "kept") else []
    for keys in (none, of([1])):
        assert state.get_many(keys, *result).to_pylist() == [None] * len(keys)
        assert state.contains_many(keys).to_pylist() == [False] * len(keys)
    assert harness.seal() == {}


# Columns that do not fit the state ------------------------------------------------------------------------------------


class Told(Account):
    """Returns the columns that a test sets."""

    def __init__(self) -> None:
        self.accumulators: Any = None
        self.results: Any = None

    def add_columns(self, keys: Keys, values: Any, accumulators: Any) -> Any:
        return super().add_columns(keys, values, accumulators) if self.accumulators is None else self.accumulators

    def get_result_columns(self, accumulators: Any) -> Any:
        return super().get_result_columns(accumulators) if self.results is None else self.results


class Reduced(Balance):
    """Returns the columns that a test sets for its next calls; for None it returns its own result."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    def reduce_columns(self, keys: Keys, values: Any) -> Any:
        given = self.given.pop(0) if self.given else None
        return super().reduce_columns(keys, values) if given is None else given


ONE = {"f0": 1, "f1": 2}
ACCUMULATORS = pa.struct([("f0", pa.int64()), ("f1", pa.int64())])


@pytest.mark.parametrize(("column", "error", "said"), [
    (pa.array([ONE], ACCUMULATORS), ValueError, "state 'v' got 1 values for 2 keys"),
    ([(1, 2)] * 3, ValueError, "state 'v' got 3 values for 2 keys"),
    (pa.array([1, 2]), TypeError, "state 'v' is struct<.*>, and got a column of int64"),
    (pa.array([{"n": 1}] * 2), TypeError, "and got a column of struct<n: int64>"),
    ([(1, 2), (1, "x")], TypeError, "state 'v': 'x' .str. is not bigint"),
])  # fmt: skip
@pytest.mark.parametrize("ttl", [False, True])
def test_accumulators_that_are_none_are_named_and_nothing_is_written(
    place: Any, column: Any, error: type[Exception], said: str, ttl: bool
) -> None:
    function = Told()
    descriptor = AggregatingStateDescriptor("v", function, PAIR)
    if ttl:
        descriptor.enable_time_to_live(lives().build())
    harness, state = place(descriptor)
    keys = of([1, 2, 1])
    state.add_many(keys, [1, 5, 1])
    harness.seal()
    function.accumulators = column
    with pytest.raises(error, match=said):
        state.add_many(keys, [1, 1, 1])
    assert state.get_many(keys, Types.LONG()).to_pylist() == [6, 15, 6]
    assert harness.seal() == {}


@pytest.mark.parametrize(("column", "error", "said"), [
    (pa.array([1]), ValueError, "state 'v' got 1 values for 2 keys"),
    (pa.array([1, 2, 3]), ValueError, "state 'v' got 3 values for 2 keys"),
    (pa.array(["x", "y"]), TypeError, "state 'v' is bigint, and got a column of string"),
    ([1, 1.5], TypeError, re.escape("state 'v': 1.5 (float) is not bigint")),
])  # fmt: skip
def test_results_that_are_none_are_named(place: Any, column: Any, error: type[Exception], said: str) -> None:
    function = Told()
    _, state = place(AggregatingStateDescriptor("v", function, PAIR))
    state.add_many(of([1, 2]), [1, 5])
    function.results = column
    with pytest.raises(error, match=said):
        state.get_many(of([1, 3, 2]), Types.LONG())
    if error is ValueError:
        with pytest.raises(error, match=f"state 'v' got {len(column)} values for 2 keys"):
            state.contains_many(of([1, 3, 2]))


@pytest.mark.parametrize(("column", "error"), [(pa.array([1, 2, 3]), ValueError), (pa.array(["x", "y"]), TypeError)])
@pytest.mark.parametrize(
    ("place", "call"), [("dicts", 0), ("rocksdb", 0), ("columns", 0), ("columns", 1)], indirect=["place"]
)
def test_reduced_values_that_are_none_are_named_and_nothing_is_written(
    place: Any, column: Any, error: type[Exception], call: int
) -> None:
    """One call reduces the added values, another one reduces the result with the existing value."""
    function = Reduced()
    harness, state = place(ReducingStateDescriptor("v", function, Types.LONG()))
    keys = of([1, 2, 1])
    state.add_many(keys, [1, 5, 1])
    harness.seal()
    function.given = [*[None] * call, column]
    with pytest.raises(error, match="state 'v'"):
        state.add_many(keys, [1, 1, 1])
    assert state.get_many(keys).to_pylist() == [2, 5, 2]
    assert harness.seal() == {}


@pytest.mark.parametrize("values", [pa.array([1]), [1, 2, 3], pa.array([1], pa.duration("ms")), ["x", 1, 2]])
def test_a_value_is_wanted_for_each_record(place: Any, values: Any) -> None:
    _, state = place(FOLDS["account"]())
    with pytest.raises(ValueError, match=f"state 'account' got {len(values)} values for 2 keys"):
        state.add_many(of([1, 2]), values)
