"""Column methods of states against their row methods, on both backends, with and without a time to live."""

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from state_engine.api import (
    AggregateFunction,
    AggregatingStateDescriptor,
    ColumnReduceFunction,
    KeyedBatchProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from state_engine.errors import LakestateError
from state_engine.serialization.types import arrow_to_ddl
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness as Harness
from state_engine.testing.state_folding_suite import Mean

ROWS = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])


class Latest(AggregateFunction):
    def create_accumulator(self):
        return None

    def add(self, value, accumulator):
        assert type(value) in (int, datetime)
        return value

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_b


class Asks(KeyedBatchProcessFunction):
    """Makes the calls that a test chooses on one state; keeps the results."""

    def __init__(self, descriptor, *calls):
        self.descriptor = descriptor
        self.calls = calls
        self.got = []

    def open(self, context):
        verbs = {
            ListStateDescriptor: "get_list_state",
            MapStateDescriptor: "get_map_state",
            ReducingStateDescriptor: "get_reducing_state",
            AggregatingStateDescriptor: "get_aggregating_state",
        }
        self.state = getattr(context, verbs.get(type(self.descriptor), "get_state"))(self.descriptor)

    def process_batch(self, keys, batch, ctx):
        for name, *arguments in self.calls:
            result = getattr(self.state, name)(keys, *arguments)
            if result is not None:
                self.got.append(result.to_pylist())


def asked(descriptor, records, *calls, backend="heap"):
    """Returns the results of calls, and the state after them."""
    with Harness(Asks(descriptor, *calls), "k", "k string", "k string", state_backend=backend) as harness:
        harness.process_elements([(k,) for k in records])
        (function,) = harness.functions
        return function.got, harness.snapshot().states().get(descriptor.name, {})


LONG = ValueStateDescriptor("v", Types.LONG())


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_the_last_value_of_a_key_counts_and_null_removes(backend):
    got, held = asked(
        LONG, "abac", ("get_many",), ("put_many", pa.array([1, 2, 3, 4])), ("get_many",), ("contains_many",),
        ("put_many", pa.array([5, None, None, 6])), ("get_many",), ("remove_many",), ("contains_many",),
        ("put_many", pa.array([7, None, 8, None])), backend=backend,
    )  # fmt: skip
    assert got == [[None] * 4, [3, 2, 3, 4], [True] * 4, [None, None, None, 6], [False] * 4]
    assert held == {"a": 8}


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_rows_and_lists_as_values(backend):
    row = pa.array(
        [{"a": 1, "b": "x"}, None, {"a": None, "b": None}], pa.struct([("a", pa.int32()), ("b", pa.string())])
    )
    got, _ = asked(ValueStateDescriptor("v", ROWS), "abc", ("put_many", row), ("get_many",), backend=backend)
    assert got == [row.to_pylist()]
    lists = pa.array([[1, 2], [], None], pa.list_(pa.field("element", pa.int64())))
    got, _ = asked(
        ValueStateDescriptor("v", Types.LIST(Types.LONG())), "abc", ("put_many", lists), ("get_many",), backend=backend
    )
    assert got == [lists.to_pylist()]


def test_a_default_is_read_where_there_is_no_value():
    descriptor = ValueStateDescriptor("v", Types.LONG(), 5)
    got, held = asked(descriptor, "ab", ("get_many",), ("put_many", pa.array([1, None])), ("get_many",))
    assert got == [[5, 5], [1, 5]]
    assert held == {"a": 1}


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_lists(backend):
    element = pa.list_(pa.field("element", pa.int64()))
    got, held = asked(
        ListStateDescriptor("v", Types.LONG()), "aba", ("contains_many",), ("add_many", pa.array([1, 2, 3])),
        ("get_many",), ("put_many", pa.array([[9], [], [7, 8]], element)), ("get_many",), ("contains_many",),
        ("add_many", pa.array([4, 5, 6])), backend=backend,
    )  # fmt: skip
    assert got == [[False] * 3, [[1, 3], [2], [1, 3]], [[7, 8], [], [7, 8]], [True, False, True]]
    assert held == {"a": [7, 8, 4, 6], "b": [5]}


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize("rows", [False, True], ids=["atoms", "rows"])
def test_maps(backend, rows):
    inner = pa.array([{"a": n, "b": ""} for n in (1, 2, 1, 3)], pa.struct([("a", pa.int32()), ("b", pa.string())]))
    user_keys = inner if rows else inner.field("a")
    descriptor = MapStateDescriptor("v", ROWS if rows else Types.INT(), Types.STRING())
    got, held = asked(
        descriptor, "aaab", ("get_many", user_keys), ("put_many", user_keys, pa.array(["w", "x", "y", "z"])),
        ("get_many", user_keys), ("contains_many", user_keys), ("remove_many", user_keys.slice(1, 1).take([0] * 4)),
        ("contains_many", user_keys), ("items_many",), backend=backend,
    )  # fmt: skip
    *got, items = got
    assert got == [[None] * 4, ["y", "x", "y", "z"], [True] * 4, [True, False, True, True]]
    first, *_, last = user_keys.to_pylist()
    assert items == [[{"key": first, "value": "y"}]] * 3 + [[{"key": last, "value": "z"}]]
    assert {key: list(values.values()) for key, values in held.items()} == {"a": ["y"], "b": ["z"]}


def test_a_whole_map_is_removed():
    ones = pa.array([1, 2, 1])
    _, held = asked(
        MapStateDescriptor("v", Types.LONG(), Types.LONG()), "aab", ("put_many", ones, ones), ("remove_many",)
    )
    assert held == {}


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_what_is_reduced_by_a_plain_function(backend):
    descriptor = ReducingStateDescriptor("v", lambda one, other: one * 10 + other, Types.LONG())
    got, held = asked(
        descriptor, "abaa", ("get_many",), ("add_many", pa.array([1, 2, 3, 4])), ("get_many",), ("contains_many",),
        backend=backend,
    )  # fmt: skip
    assert got == [[None] * 4, [134, 2, 134, 134], [True] * 4]
    assert held == {"a": 134, "b": 2}


MEAN = AggregatingStateDescriptor("v", Mean(), Types.TUPLE([Types.LONG(), Types.LONG()]))


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize("ttl", [None, StateTtlConfig.new_builder(Time.hours(1)).build()])
@pytest.mark.parametrize("kind", [pa.array, np.array, list, lambda values: pa.chunked_array([values[:1], values[1:]])])
def test_what_is_aggregated(backend, ttl, kind):
    descriptor = AggregatingStateDescriptor("v", Mean(), Types.TUPLE([Types.LONG(), Types.LONG()]))
    if ttl is not None:
        descriptor.enable_time_to_live(ttl)
    got, held = asked(
        descriptor, "abaa", ("get_many", Types.DOUBLE()), ("contains_many",), ("add_many", kind([1, 2, 4, 10])),
        ("get_many", Types.DOUBLE()), ("contains_many",), backend=backend,
    )  # fmt: skip
    assert got == [[None] * 4, [False] * 4, [5.0, 2.0, 5.0, 5.0], [True] * 4]
    assert {key: tuple(accumulator) for key, accumulator in held.items()} == {"a": (15, 3), "b": (2, 1)}


def test_what_is_aggregated_goes():
    _, held = asked(MEAN, "aba", ("add_many", pa.array([1, 2, 3])), ("remove_many",))
    assert held == {}


def test_an_aggregate_gets_values_as_a_row_function_has_them():
    at = datetime(2026, 1, 1, tzinfo=UTC)
    column = pa.array([at, at + timedelta(hours=1)], pa.timestamp("ns", "UTC"))
    descriptor = AggregatingStateDescriptor("v", Latest(), Types.INSTANT())
    got, held = asked(descriptor, "aa", ("add_many", column), ("get_many", Types.INSTANT()))
    assert held == {"a": at + timedelta(hours=1)}
    assert got == [[at + timedelta(hours=1)] * 2]


def test_values_are_aggregated_in_the_order_of_the_records():
    got, _ = asked(
        AggregatingStateDescriptor("v", Latest(), Types.LONG()), "aba",
        ("add_many", pa.array([7, 2, 3])), ("get_many", Types.LONG()),
    )  # fmt: skip
    assert got == [[3, 2, 3]]


@pytest.mark.parametrize(("call", "said"), [
    (("add_many", pa.array([1])), "state 'v' got 1 values for 2 keys"),
    (("add_many", [1, 2, 3]), "state 'v' got 3 values for 2 keys"),
])  # fmt: skip
def test_an_aggregate_gets_a_value_for_each_record(call, said):
    with pytest.raises(LakestateError, match=said):
        asked(MEAN, "ab", call)


def test_results_are_of_the_type_that_was_said():
    calls = ("add_many", pa.array([1, 2])), ("get_many", Types.LONG())
    with pytest.raises(LakestateError, match=r"state 'v': 1.5 \(float\) is not bigint"):
        asked(MEAN, "aa", *calls)


def test_a_value_is_touched_at_the_time_of_its_keys_records():
    ttl = StateTtlConfig.new_builder(Time.milliseconds(100)).set_ttl_time_characteristic(
        StateTtlConfig.TtlTimeCharacteristic.EventTime
    ).build()  # fmt: skip
    descriptor = ValueStateDescriptor("v", Types.LONG())
    descriptor.enable_time_to_live(ttl)
    calls = ("put_many", pa.array([1, 2, 3]))
    with Harness(Asks(descriptor, calls), "k", "k string", "k string") as harness:
        harness.process_elements([("a",), ("b",), ("a",)], [10, 20, 30])
        (rows,) = harness.snapshot()._tables.values()
    assert dict(zip(rows["k"].to_pylist(), rows["last_access"].to_pylist(), strict=True)) == {"a": 30, "b": 20}


@pytest.mark.parametrize(("type_info", "values"), [
    (Types.LONG(), pa.array([1], pa.int8())), (Types.DOUBLE(), pa.array([1])),
    (Types.STRING(), pa.array(["1"], pa.large_string())), (Types.LONG(), pa.chunked_array([[1]])), (Types.LONG(), [1]),
    (Types.LONG(), pa.nulls(1)), (Types.STRING(), pa.array(["1"]).dictionary_encode()),
])  # fmt: skip
def test_a_column_whose_values_fit(type_info, values):
    got, _ = asked(ValueStateDescriptor("v", type_info), "a", ("put_many", values), ("get_many",))
    assert got in ([[1]], [["1"]], [[None]])


@pytest.mark.parametrize(("type_info", "values", "said"), [
    (Types.LONG(), pa.array(["1"]), "state 'v' is bigint, and got a column of string"),
    (Types.LONG(), pa.array([1.5]), "state 'v' is bigint, and got a column of double"),
    (Types.INT(), pa.array([2**40]), "state 'v' is int: .*not in range"),
    (Types.STRING(), pa.array([1]), "state 'v' is string, and got a column of int64"),
    (Types.LONG(), pa.array([1, 2]), "state 'v' got 2 values for 1 keys"),
])  # fmt: skip
def test_a_column_that_does_not_fit_stops_the_epoch(type_info, values, said):
    with pytest.raises(LakestateError, match=said):
        asked(ValueStateDescriptor("v", type_info), "a", ("put_many", values))


class All(AggregateFunction):
    def create_accumulator(self):
        return ""

    def add(self, value, accumulator):
        return f"{accumulator}{value!r};"

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


@pytest.mark.parametrize(("column", "wanted"), [
    (pa.array(["x", None, "x"]).dictionary_encode(), "'x';None;'x';"), (pa.nulls(3), "None;None;None;"),
    (pa.array(["x", None, "x"]), "'x';None;'x';"),
])  # fmt: skip
def test_columns_that_are_added_need_no_type_of_the_state(column, wanted):
    descriptor = AggregatingStateDescriptor("v", All(), Types.STRING())
    got, _ = asked(descriptor, "aaa", ("add_many", column), ("get_many", Types.STRING()))
    assert got == [[wanted] * 3]


@pytest.mark.parametrize("type_", [pa.uint64(), pa.duration("ms"), pa.list_(pa.uint64())], ids=str)
def test_columns_that_no_state_can_have_are_named(type_):
    with pytest.raises(LakestateError, match=r"TypeError: state 'v' got a column of .*: cast it"):
        asked(AggregatingStateDescriptor("v", All(), Types.STRING()), "a", ("add_many", pa.nulls(1, type_)))


BAD = [
    (Types.LONG(), [1.5]), (Types.INT(), [2.9]), (Types.DOUBLE(), [True]), (Types.FLOAT(), [1e300]),
    (Types.FLOAT(), pa.array([1e300])), (Types.INSTANT(), [datetime(2020, 1, 1)]), (Types.STRING(), [1]),
    (Types.SQL_TIMESTAMP(), [datetime(2020, 1, 1, tzinfo=UTC)]), (Types.LIST(Types.LONG()), [[1.5]]),
    (Types.SQL_TIMESTAMP(), pa.array([0], pa.timestamp("us", "UTC"))),
]  # fmt: skip


@pytest.mark.parametrize(("type_info", "values"), BAD, ids=str)
def test_values_that_a_row_method_would_refuse(type_info, values):
    with pytest.raises(LakestateError, match="TypeError: state 'v'"):
        asked(ValueStateDescriptor("v", type_info), "a", ("put_many", values))


def test_not_a_number_is_a_number():
    got, _ = asked(
        ValueStateDescriptor("v", Types.DOUBLE()), "a", ("put_many", pd.Series([float("nan")])), ("contains_many",)
    )
    assert got == [[True]]


def test_timestamps_of_another_zone():
    noon = datetime(2020, 1, 1, 12, tzinfo=timezone(timedelta(hours=5)))
    column = pa.array([noon], pa.timestamp("us", "Europe/Berlin"))
    got, _ = asked(ValueStateDescriptor("v", Types.INSTANT()), "a", ("put_many", column), ("get_many",))
    assert got == [[noon]]


def test_a_default_value_is_not_there():
    descriptor = ValueStateDescriptor("v", Types.LONG(), default_value=7)
    got, _ = asked(descriptor, "a", ("contains_many",), ("get_many",), ("put_many", [7]), ("contains_many",))
    assert got == [[False], [7], [True]]


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
def test_zeros_are_one_user_key(backend):
    descriptor = MapStateDescriptor("m", Types.DOUBLE(), Types.LONG())
    function = Asks(descriptor, ("put_many", [0.0, -0.0, 0.0], [1, 2, 3]), ("get_many", [0.0, -0.0, 0.0]))
    with Harness(function, "k", "k string", "k string", state_backend=backend) as harness:
        harness.process_elements([("a",)] * 3)
        assert harness.snapshot().states()["m"] == {"a": {0.0: 3}}


@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize("wraps", [lambda n: n, lambda n: {"x": n, "y": "z"}], ids=["double", "row"])
def test_nan_is_one_user_key(backend, wraps):
    nans = pa.array([wraps(float("nan")) for _ in range(3)])
    descriptor = MapStateDescriptor("m", arrow_to_ddl(nans.type), Types.LONG())
    calls = [("put_many", nans, [1, 2, 3]), ("get_many", nans), ("contains_many", nans), ("items_many",)]
    function = Asks(descriptor, *calls)
    with Harness(function, "k", "k string", "k string", state_backend=backend) as harness:
        for _ in range(2):
            harness.process_elements([("a",)] * 3)
        values, present, entries = harness.functions[0].got[-3:]
        assert (values, present, [len(of_key) for of_key in entries]) == ([3] * 3, [True] * 3, [1] * 3)
        assert [*harness.snapshot().states()["m"]["a"].values()] == [3]


def test_without_keys_columns_have_their_types():
    function = Empty(MapStateDescriptor("m", Types.LONG(), Types.LONG()))
    with Harness(function, "k", "k string", "k string") as harness:
        harness.process_elements([("a",)])
    entries = pa.list_(pa.struct([("key", pa.int64()), ("value", pa.int64())]))
    assert function.types == [pa.int64(), pa.bool_(), entries]


class Empty(Asks):
    def process_batch(self, keys, batch, ctx):
        none = keys.take(np.array([], int))
        results = [self.state.get_many(none, []), self.state.contains_many(none, []), self.state.items_many(none)]
        Empty.types = [one.type for one in results]


@pytest.mark.parametrize("by_columns", [True, False])
def test_late_values_that_have_expired_are_not_added(by_columns):
    """Each value is added at the time of its own record."""
    ttl = StateTtlConfig.new_builder(Time.milliseconds(100)).use_event_time().build()
    for descriptor, wanted in (
        (ReducingStateDescriptor("s", Least() if by_columns else min, Types.LONG()), 2),
        (ListStateDescriptor("s", Types.LONG()), [1, 2]),
    ):
        descriptor.enable_time_to_live(ttl)
        with Harness(Asks(descriptor, ("add_many", [1, 2])), "k", "k string", "k string") as harness:
            harness.process_watermark(1000)
            harness.process_elements([("a",), ("a",)], [800, 1100])
            snapshot = harness.snapshot()
        assert snapshot.states()["s"] == {"a": wanted}
        if wanted == [1, 2]:
            assert [row["last_access"] for row in snapshot._tables["s"].to_pylist()] == [800, 1100]


class Least(ColumnReduceFunction):
    def reduce(self, value1, value2):
        return min(value1, value2)

    def reduce_columns(self, keys, values):
        return pa.array([min(values.to_pylist())])
