"""The same functions in both forms, record by record and by columns, with a state of each kind, and their runner."""

from itertools import cycle

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st
from restoring import released, renewed

from state_engine.api import (
    AggregatingStateDescriptor,
    ColumnAggregateFunction,
    ColumnReduceFunction,
    KeyedBatchProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from state_engine.api.keys import Keys
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness as Harness
from state_engine.testing.state_folding_suite import Mean

INPUT, OUTPUT = "k string, v bigint", "k string, n bigint, v bigint, known boolean"
COLUMNS = ["k", "n", "v", "known"]


class Sum(ColumnReduceFunction):
    def reduce(self, value1, value2):
        return value1 + value2

    def reduce_columns(self, keys, values):
        return keys.sums(values)


class ColumnMean(Mean, ColumnAggregateFunction):
    """`Mean`, also by columns."""

    def add_columns(self, keys, values, accumulators):
        before = [pc.fill_null(field, 0) for field in accumulators.flatten()]
        added = [pc.add(b, pa.array(n)) for b, n in zip(before, (keys.sums(values), keys.counts()), strict=True)]
        return pa.StructArray.from_arrays(added, names=["f0", "f1"])

    def get_result_columns(self, accumulators):
        total, number = (field.cast(pa.float64()) for field in accumulators.flatten())
        return pc.divide(total, number)


class States:
    """Has a state of each kind, and collects each key's result of the aggregate after its last record."""

    def __init__(self, ttl=None):
        self.ttl = ttl
        self.means = {}

    def open(self, context):
        descriptors = [
            ValueStateDescriptor("count", Types.LONG()),
            MapStateDescriptor("seen", Types.LONG(), Types.LONG()),
            ListStateDescriptor("listed", Types.LONG()),
            ReducingStateDescriptor("reduced", Sum(), Types.LONG()),
            AggregatingStateDescriptor("mean", Mean(), Types.TUPLE([Types.LONG(), Types.LONG()])),
            AggregatingStateDescriptor("column_mean", ColumnMean(), Types.TUPLE([Types.LONG(), Types.LONG()])),
        ]
        if self.ttl is not None:
            for one in descriptors:
                one.enable_time_to_live(self.ttl)
        value, mapped, listed, reduced, mean, column_mean = descriptors
        self.count, self.seen = context.get_state(value), context.get_map_state(mapped)
        self.listed, self.reduced = context.get_list_state(listed), context.get_reducing_state(reduced)
        self.mean, self.column_mean = map(context.get_aggregating_state, (mean, column_mean))


class ByRow(States, KeyedProcessFunction):
    def process_element(self, value, ctx):
        n = (self.count.value() or 0) + 1
        self.count.update(n)
        self.reduced.add(value.v)
        self.listed.add(value.v)
        self.mean.add(value.v)
        self.column_mean.add(value.v)
        self.means[value.k] = self.mean.get(), self.column_mean.get()
        seen = self.seen.contains(value.v)
        self.seen.put(value.v, n)
        return [(value.k, n, value.v, seen)]


class ByBatch(States, KeyedBatchProcessFunction):
    """The form by columns, with the same states and the same rows."""

    def process_batch(self, keys, batch, ctx):
        values = batch.column("v")
        counts = pc.add(pc.fill_null(self.count.get_many(keys), 0), pa.array(keys.running_counts()))
        pairs = Keys([pa.array(keys.codes), values], None)
        seen_before = pc.or_(self.seen.contains_many(keys, values), pa.array(pairs.running_counts() > 1))
        self.count.put_many(keys, counts)
        self.seen.put_many(keys, values, counts)
        self.listed.add_many(keys, values)
        self.reduced.add_many(keys, values)
        means = []
        for mean in self.mean, self.column_mean:
            mean.add_many(keys, values)
            assert mean.contains_many(keys).to_pylist() == [True] * len(keys)
            means.append(mean.get_many(keys, Types.DOUBLE()).to_pylist())
        self.means |= dict(zip(batch.column("k").to_pylist(), zip(*means, strict=True), strict=True))
        return pa.RecordBatch.from_arrays([seen_before, values, counts, batch.column("k")], names=COLUMNS[::-1])


RECORDS = st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 9)), max_size=12)
TTL = StateTtlConfig.new_builder(Time.milliseconds(15)).build()
READ = StateTtlConfig.new_builder(Time.milliseconds(15)).update_ttl_on_read_and_write().build()


COMMANDS = [
    "value put", "value remove", "list put", "list add", "list remove", "map put", "map remove", "map remove all",
    "reduced add", "reduced remove", "mean add", "mean remove", "read",
]  # fmt: skip


class CommandsByRow(States, KeyedProcessFunction):
    """Runs the command of an epoch, whose number is `v`; all records of an epoch have the same one."""

    def process_element(self, value, ctx):
        match COMMANDS[value.v]:
            case "value put":
                self.count.update(value.v)
            case "value remove":
                self.count.clear()
            case "list put":
                self.listed.update([value.v, value.v])
            case "list add":
                self.listed.add(value.v)
            case "list remove":
                self.listed.clear()
            case "map put":
                self.seen.put(1, value.v)
                self.seen.put(2, value.v)
            case "map remove":
                self.seen.remove(1)
            case "map remove all":
                self.seen.clear()
            case "reduced add":
                self.reduced.add(value.v)
            case "reduced remove":
                self.reduced.clear()
            case "mean add":
                self.mean.add(value.v)
                self.column_mean.add(value.v)
            case "mean remove":
                self.mean.clear()
                self.column_mean.clear()
            case "read":
                held, reduced = sum(self.listed.get()), self.reduced.get()
                numbers = (self.count.value() or 0) + 100 * (self.seen.get(1) or 0)
                means = self.mean.get(), self.column_mean.get()
                assert means[0] == means[1]
                return [(value.k, numbers, held + 1000 * (reduced or 0), means[0] is not None)]
        return []


class CommandsByBatch(States, KeyedBatchProcessFunction):
    """The form by columns."""

    def process_batch(self, keys, batch, ctx):
        values = batch.column("v")
        command = values[0].as_py()
        one, two = pa.array([1] * len(keys)), pa.array([2] * len(keys))
        match COMMANDS[command]:
            case "value put":
                self.count.put_many(keys, values)
            case "value remove":
                self.count.remove_many(keys)
            case "list put":
                self.listed.put_many(keys, pa.array([[command, command]] * len(keys)))
            case "list add":
                self.listed.add_many(keys, values)
            case "list remove":
                self.listed.remove_many(keys)
            case "map put":
                self.seen.put_many(keys, one, values)
                self.seen.put_many(keys, two, values)
            case "map remove":
                self.seen.remove_many(keys, one)
            case "map remove all":
                self.seen.remove_many(keys)
            case "reduced add":
                self.reduced.add_many(keys, values)
            case "reduced remove":
                self.reduced.remove_many(keys)
            case "mean add":
                self.mean.add_many(keys, values)
                self.column_mean.add_many(keys, values)
            case "mean remove":
                self.mean.remove_many(keys)
                self.column_mean.remove_many(keys)
            case "read":
                held = pa.array([sum(numbers or ()) for numbers in self.listed.get_many(keys).to_pylist()], pa.int64())
                reduced = pc.fill_null(self.reduced.get_many(keys), 0)
                counts, seen = (pc.fill_null(c, 0) for c in (self.count.get_many(keys), self.seen.get_many(keys, one)))
                means = [mean.get_many(keys, Types.DOUBLE()) for mean in (self.mean, self.column_mean)]
                assert means[0].equals(means[1])
                has_mean = pc.is_valid(means[1])
                numbers, sums = pc.add(counts, pc.multiply(seen, 100)), pc.add(held, pc.multiply(reduced, 1000))
                return pa.RecordBatch.from_arrays([batch.column("k"), numbers, sums, has_mean], names=COLUMNS)
        return None


COMMANDED = st.lists(
    st.tuples(
        st.integers(0, len(COMMANDS) - 1) | st.just(COMMANDS.index("read")),
        st.lists(st.sampled_from("abc"), min_size=1, max_size=5),
    ),
    min_size=1,
    max_size=10,
)
"""The command of each epoch, and the keys of its records; every other epoch reads the states of the ones before."""


def run(forms, epochs, backend, between="warm"):
    """Returns the rows of each epoch, the results of the aggregates, and the content of all states at the end.

    Args:
        forms: The functions of the epochs, in turn; only one if all epochs are warm.
        epochs: The records.
        backend: The state backend.
        between: `warm`: an epoch continues with the instance of the last one; `restored`: with another one, restored
            from a snapshot; `on disk`: with another one, which continues with the files of the last one.
    """
    turns = cycle(forms)

    def made():
        return Harness(next(turns), "k", INPUT, OUTPUT, state_backend=backend)

    harness = made()
    harness.open()
    rows = []
    for number, records in enumerate(epochs):
        harness.set_processing_time(10 * number)
        harness.process_elements(records)
        (function,) = harness.functions
        rows.append((sorted(map(tuple, harness.extract_output_values())), dict(function.means)))
        harness.clear_output()
        if between != "warm":
            harness = renewed(harness, made) if between == "restored" else released(harness, next(turns))
            harness.set_processing_time(10 * number)
    snapshot = harness.snapshot()
    harness.close()
    return rows, snapshot


def content(snapshot):
    """Returns the rows of all states, with their last accesses."""
    states = {}
    for name, table in snapshot._tables.items():
        rows = [{k: v for k, v in row.items() if k != "seq"} for row in table.to_pylist()]
        states[name] = sorted(map(repr, rows))
    return states, snapshot.states()
