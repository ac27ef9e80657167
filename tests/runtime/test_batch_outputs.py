"""Outputs of a function over batches, with and without event times, checked against the declared columns."""

import numpy as np
import pyarrow as pa
import pytest

from state_engine.api import KeyedBatchProcessFunction, OutputTag
from state_engine.api.type_hints import parse_columns_ddl
from state_engine.runtime.emitted import EVENT_TIME
from state_engine.runtime.failures import OperatorFailure
from state_engine.runtime.operators import operator_of
from state_engine.runtime.outputs import MAIN
from state_engine.runtime.spec import OperatorSpec, key_columns

COLUMNS = parse_columns_ddl("k string")
LATER, UNREAD = OutputTag("later", "k string"), OutputTag("unread", "k string")


class Gives(KeyedBatchProcessFunction):
    def __init__(self, give):
        self.give = give

    def process_batch(self, keys, batch, ctx):
        return self.give(batch, ctx)


def outputs(give, *, timed=True, function=None):
    """Returns the outputs of two records, `a` at 5 and `b` at 6, as lists of rows."""
    spec = OperatorSpec(
        uid="o", kind="keyed_process", function=function or Gives(give), input=COLUMNS, order_by=(), output=COLUMNS,
        key=key_columns(COLUMNS, ("k",)), side_outputs={"later": COLUMNS}, emits_event_time=timed,
        timed_side_outputs=("later",) if timed else (),
    )  # fmt: skip
    operator = operator_of(spec, 0, 1)
    operator.open()
    operator.begin(0, None, 0)
    records = pa.RecordBatch.from_arrays([pa.array(["a", "b"]), pa.array([5, 6])], names=["k", EVENT_TIME])
    operator.process(records)
    return {output: [tuple(row.values()) for row in batch.to_pylist()] for output, batch in operator.flush().items()}


def test_one_row_per_record_has_the_times_of_the_records():
    rows = outputs(lambda batch, ctx: [batch, (LATER, batch), (UNREAD, batch), (OutputTag(MAIN, "k string"), batch)])
    assert rows == {MAIN: [("a", 5), ("b", 6)], "later": [("a", 5), ("b", 6)]}
    assert outputs(lambda batch, ctx: [batch, (LATER, batch)], timed=False) == {
        MAIN: [("a",), ("b",)], "later": [("a",), ("b",)],
    }  # fmt: skip


def test_a_batch_is_what_it_was_when_it_was_given():
    counts, numbers = parse_columns_ddl("n bigint"), np.zeros(2, np.int64)

    class Counts(KeyedBatchProcessFunction):
        def process_batch(self, keys, batch, ctx):
            for _ in range(2):
                numbers[:] += 1
                yield pa.record_batch([pa.array(numbers)], names=["n"])
                yield LATER, pa.record_batch([pa.array(numbers)], names=["n"])

    spec = OperatorSpec(
        uid="o", kind="keyed_process", function=Counts(), input=COLUMNS, order_by=(), output=counts,
        key=key_columns(COLUMNS, ("k",)), side_outputs={"later": counts},
    )  # fmt: skip
    operator = operator_of(spec, 0, 1)
    operator.open()
    operator.begin(0, None, 0)
    given = []
    for _ in range(2):
        operator.process(pa.RecordBatch.from_arrays([pa.array(["a", "b"])], names=["k"]))
        given.append(operator.flush())
    for output in MAIN, "later":
        assert [batches[output].column("n").to_pylist() for batches in given] == [[1, 1, 2, 2], [3, 3, 4, 4]]


def test_other_rows_have_times_of_their_own():
    rows = outputs(
        lambda batch, ctx: [
            ctx.timed(batch.slice(0, 1), [7]),
            ctx.timed(pa.Table.from_batches([batch.slice(1)]), pa.chunked_array([[8]])),
            (LATER, ctx.timed(batch.slice(0, 1), [None])),
        ]
    )
    assert rows == {MAIN: [("a", 7), ("b", 8)], "later": [("a", None)]}
    assert outputs(lambda batch, ctx: ctx.timed(batch.slice(0, 1), None)) == {MAIN: [("a", None)]}
    assert outputs(lambda batch, ctx: ctx.timed(batch, [1, 2]), timed=False) == {MAIN: [("a",), ("b",)]}


@pytest.mark.parametrize("give", [
    lambda batch, ctx: batch.slice(0, 1),
    lambda batch, ctx: [batch.slice(0, 1), batch.slice(1)],
    lambda batch, ctx: [batch, batch],
    lambda batch, ctx: [batch, (LATER, batch.slice(0, 1))],
])  # fmt: skip
def test_rows_without_times_are_refused(give):
    with pytest.raises(OperatorFailure, match=r"ctx\.timed\(rows, times\)"):
        outputs(give)


@pytest.mark.parametrize(
    ("times", "message"), [([1.5, 2.5], "column of double"), ([1], "1 timestamps for 2 rows"), (["x", "y"], "string")]
)
def test_times_are_integers_one_per_row(times, message):
    with pytest.raises(OperatorFailure, match=message):
        outputs(lambda batch, ctx: ctx.timed(batch, times))


class WithoutNulls(KeyedBatchProcessFunction):
    """Its batches forbid nulls; the rows of its timers do not."""

    def process_batch(self, keys, batch, ctx):
        ctx.timer_service().register_event_time_timers(keys, [10] * len(keys))
        return pa.table([batch.column("k")], schema=pa.schema([pa.field("k", pa.string(), nullable=False)]))

    def on_timer(self, timestamp, ctx):
        return [(ctx.get_current_key(),)]


@pytest.mark.parametrize("timed", [True, False])
def test_all_batches_of_an_output_have_one_schema(timed):
    spec = OperatorSpec(
        uid="o", kind="keyed_process", function=WithoutNulls(), input=COLUMNS, order_by=(), output=COLUMNS,
        key=key_columns(COLUMNS, ("k",)), emits_event_time=timed,
    )  # fmt: skip
    operator = operator_of(spec, 0, 1)
    operator.open()
    operator.begin(0, None, 0)
    records = pa.RecordBatch.from_arrays([pa.array(["a", "b"]), pa.array([5, 6])], names=["k", EVENT_TIME])
    operator.process(records)
    by_batch = operator.flush()[MAIN]
    operator.snapshot(1, 1)
    operator.changes()
    operator.settle()
    operator.begin(0, 20, 0)
    by_timers = operator.advance()[MAIN]
    assert by_batch.schema == by_timers.schema
    assert by_timers.num_rows == 2


def test_columns_come_as_declared():
    """Spark returns timestamps in the time zone of its session."""
    columns = parse_columns_ddl("k string, t timestamp")
    seen = []

    class Sees(KeyedBatchProcessFunction):
        def process_batch(self, keys, batch, ctx):
            seen.append(batch.schema.types)
            return batch

    spec = OperatorSpec(
        uid="o", kind="keyed_process", function=Sees(), input=columns, order_by=(), output=columns,
        key=key_columns(columns, ("k",)),
    )  # fmt: skip
    operator = operator_of(spec, 0, 1)
    operator.open()
    operator.begin(0, None, 0)
    given = [pa.array(["a"], pa.large_string()), pa.array([0], pa.timestamp("us", "Europe/Berlin"))]
    operator.process(pa.RecordBatch.from_arrays(given, names=["k", "t"]))
    assert operator.flush()[MAIN].num_rows == 1
    assert seen == [[pa.string(), pa.timestamp("us", "UTC")]]


def test_without_records_the_function_is_not_called():
    def fails(batch, ctx):
        raise AssertionError

    spec = OperatorSpec(
        uid="o", kind="keyed_process", function=Gives(fails), input=COLUMNS, order_by=(), output=COLUMNS,
        key=key_columns(COLUMNS, ("k",)),
    )  # fmt: skip
    operator = operator_of(spec, 0, 1)
    operator.open()
    operator.begin(0, None, 0)
    assert operator.process(pa.RecordBatch.from_arrays([pa.array([], pa.string())], names=["k"])) == {}
    assert operator.flush() == {}
