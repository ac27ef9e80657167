"""Timers that are passed as columns have the same effect as one by one, on both backends, warm and restored."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state_engine.api import (
    KeyedBatchProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    StateTtlConfig,
    Time,
    TimeDomain,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from state_engine.errors import JobDefinitionError, UserFunctionError
from state_engine.runtime import batch_function
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness as Harness

GAP = 10
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
FIELDS = pa.struct([("f0", pa.int64()), ("f1", pa.int64())])
BACKENDS = pytest.mark.parametrize("backend", ["heap", "rocksdb"])


class SessionsByRow(KeyedProcessFunction):
    """Counts the records of a key until it has none for a while."""

    def open(self, runtime_context):
        self.session = runtime_context.get_state(ValueStateDescriptor("session", PAIR))

    def process_element(self, value, ctx):
        timers, at = ctx.timer_service(), ctx.timestamp()
        count, last = self.session.value() or (0, None)
        if last is not None:
            timers.delete_event_time_timer(last + GAP)
        last = at if last is None else max(at, last)
        self.session.update((count + 1, last))
        timers.register_event_time_timer(last + GAP)

    def on_timer(self, timestamp, ctx):
        count, _ = self.session.value()
        self.session.clear()
        return [(ctx.get_current_key(), count, timestamp)]


class SessionsByBatch(KeyedBatchProcessFunction):
    """The form by columns."""

    def open(self, runtime_context):
        self.session = runtime_context.get_state(ValueStateDescriptor("session", PAIR))

    def process_batch(self, keys, batch, ctx):
        each, timers = keys.distinct, ctx.timer_service()
        counts, was = self.session.get_many(each).flatten()
        timers.delete_event_time_timers(each, pc.add(was, GAP))
        last = pc.max_element_wise(keys.latest_times, was)
        counts = pc.add(pc.fill_null(counts, 0), pa.array(keys.counts()))
        self.session.put_many(each, pa.StructArray.from_arrays([counts, last], fields=list(FIELDS)))
        timers.register_event_time_timers(each, pc.add(last, GAP))

    def on_timers(self, keys, timestamps, ctx):
        counts = self.session.get_many(keys).field(0)
        self.session.remove_many(keys)
        return pa.table([keys.columns[0], counts, timestamps], names=["k", "n", "t"])


EPOCHS = st.lists(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 60)), max_size=8), min_size=1, max_size=6
)  # fmt: skip


def sessions(function, epochs, backend, *, restored, strategy=None):
    """Returns the rows of each epoch, in their order, and how many timers were left after it."""
    harness = opened(function, backend, strategy)
    rows = []
    for number, records in enumerate(epochs):
        moves = strategy is None
        if moves:
            harness.process_watermark(8 * number)
        later = [(k, t + (8 * number + 1 if moves else 0)) for k, t in records]
        harness.process_elements([(k,) for k, _ in later], [t for _, t in later])
        rows.append((harness.extract_output_values(), harness.num_event_time_timers()))
        harness.clear_output()
        if restored:
            snapshot = harness.snapshot()
            harness.close()
            harness = opened(function, backend, strategy, snapshot)
    harness.process_watermark(1_000)
    rows.append((harness.extract_output_values(), harness.num_event_time_timers()))
    harness.close()
    return rows


def opened(function, backend="heap", strategy=None, snapshot=None, output="k string, n bigint, t bigint", **options):
    harness = Harness(function, "k", "k string", output, state_backend=backend, watermark_strategy=strategy, **options)
    if snapshot is not None:
        harness.initialize_state(snapshot)
    harness.open()
    return harness


@pytest.mark.hypothesis
@BACKENDS
@pytest.mark.parametrize("restored", [False, True], ids=["warm", "restored"])
def test_the_same_as_one_by_one(backend, restored):
    @settings(max_examples=max(5, settings.default.max_examples // 5))
    @given(EPOCHS)
    def check(epochs):
        by_row = sessions(SessionsByRow(), epochs, backend, restored=restored)
        assert sessions(SessionsByBatch(), epochs, backend, restored=restored) == by_row

    check()


@BACKENDS
def test_one_form_takes_over_the_timers_of_the_other(backend):
    for first, second in (SessionsByRow(), SessionsByBatch()), (SessionsByBatch(), SessionsByRow()):
        harness = opened(first, backend)
        harness.process_elements([("a",), ("b",), ("a",)], [1, 2, 5])
        snapshot = harness.snapshot()
        harness.close()
        harness = opened(second, backend, snapshot=snapshot)
        harness.process_elements([("b",)], [9])
        harness.process_watermark(30)
        assert harness.extract_output_values() == [("a", 2, 15), ("b", 2, 19)]
        assert harness.num_event_time_timers() == 0
        harness.close()


@BACKENDS
def test_after_an_ordered_stream_they_follow_the_last_record(backend):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Time.milliseconds(0))
    harness = opened(SessionsByBatch(), backend, strategy)
    harness.process_elements([("a",), ("a",), ("b",)], [1, 3, 40])
    assert harness.extract_output_values() == [("a", 2, 13)]
    assert harness.num_event_time_timers() == 1
    harness.close()


class Timed(KeyedBatchProcessFunction):
    """Registers the timers that a function chooses; emits the arguments of its calls."""

    def __init__(self, register, on_timers=lambda keys, timestamps, ctx: None):
        self.register, self.then = register, on_timers

    def process_batch(self, keys, batch, ctx):
        self.register(keys, ctx)

    def on_timers(self, keys, timestamps, ctx):
        further = self.then(keys, timestamps, ctx)
        clock = [ctx.time_domain().name] * len(keys)
        table = pa.table([keys.columns[0], clock, timestamps], names=["k", "clock", "t"])
        return table if further is None else [table, further]


ROWS = "k string, clock string, t bigint"


def fired(function, *, watermark=None, processing_time=None, records="ab", backend="heap", **options):
    harness = opened(function, backend, output=ROWS, **options)
    harness.process_elements([(k,) for k in records])
    if processing_time is not None:
        harness.set_processing_time(processing_time)
    if watermark is not None:
        harness.process_watermark(watermark)
    rows = harness.extract_output_values()
    harness.close()
    return rows


@BACKENDS
def test_timers_come_in_the_order_of_time_a_key_with_as_many_as_it_has(backend):
    def register(keys, ctx):
        for time in (9, 3, 7):
            ctx.timer_service().register_event_time_timers(keys, pa.array([time] * len(keys)))

    rows = fired(Timed(register), watermark=7, records="ba", backend=backend)
    assert rows == [(k, "EVENT_TIME", t) for t in (3, 7) for k in "ab"]


@BACKENDS
def test_both_clocks_have_theirs(backend):
    def register(keys, ctx):
        ctx.timer_service().register_processing_time_timers(keys, pa.array([50, None]))
        ctx.timer_service().register_event_time_timers(keys, pa.array([None, 5]))

    def times(keys, timestamps, ctx):
        assert (keys.times is None) == (ctx.time_domain() is TimeDomain.PROCESSING_TIME)

    rows = fired(Timed(register, times), watermark=10, processing_time=60, backend=backend)
    assert sorted(rows) == [("a", "PROCESSING_TIME", 50), ("b", "EVENT_TIME", 5)]


@BACKENDS
def test_what_a_call_registers_comes_in_the_same_turn_if_it_is_due(backend):
    def register(keys, ctx):
        ctx.timer_service().register_event_time_timers(keys, pa.array([1] * len(keys)))

    def again(keys, timestamps, ctx):
        ctx.timer_service().register_event_time_timers(keys, pc.add(timestamps, 4))

    function = Timed(register, again)
    assert fired(function, watermark=10, records="a", backend=backend) == [("a", "EVENT_TIME", t) for t in (1, 5, 9)]


@BACKENDS
def test_what_is_deleted_in_time_does_not_come(backend):
    def register(keys, ctx):
        timers = ctx.timer_service()
        for register, delete in (
            (timers.register_event_time_timers, timers.delete_event_time_timers),
            (timers.register_processing_time_timers, timers.delete_processing_time_timers),
        ):
            register(keys, pa.array([4] * len(keys)))
            delete(keys, pa.array([None, 4]))
            delete(keys, pa.array([99, 99]))  # such timers do not exist

    rows = fired(Timed(register), watermark=10, processing_time=10, backend=backend)
    assert sorted(rows) == [("a", "EVENT_TIME", 4), ("a", "PROCESSING_TIME", 4)]


@BACKENDS
def test_timers_of_one_time_come_in_the_order_of_their_keys(backend):
    """Not in the order of their spelling, nor in the order in which a worker first saw them."""

    def register(keys, ctx):
        ctx.timer_service().register_event_time_timers(keys, pa.array([5] * len(keys)))

    harness = Harness(Timed(register), "k", "k bigint", "k bigint, clock string, t bigint", state_backend=backend)
    with harness:
        harness.process_elements([(k,) for k in (10, 9, None, 2, -1)])
        harness.process_watermark(5)
        assert [k for k, _, _ in harness.extract_output_values()] == [-1, 2, 9, 10, None]


def test_a_time_to_live_in_event_time_is_refused():
    """Each timer would need the values at its own time, whatever the watermark is."""

    class Expiring(SessionsByBatch):
        def open(self, runtime_context):
            descriptor = ValueStateDescriptor("session", PAIR)
            by_event_time = StateTtlConfig.new_builder(Time.milliseconds(5)).use_event_time()
            descriptor.enable_time_to_live(by_event_time.build())
            self.session = runtime_context.get_state(descriptor)

    with pytest.raises((JobDefinitionError, UserFunctionError), match="time to live in event time"):
        opened(Expiring())


def test_very_many_come_in_several_calls(monkeypatch):
    monkeypatch.setattr(batch_function, "TIMERS_AT_ONCE", 3)
    sizes = []

    def register(keys, ctx):
        ctx.timer_service().register_event_time_timers(keys, pa.array(np.arange(len(keys))))

    rows = fired(Timed(register, lambda keys, *_: sizes.append(len(keys))), watermark=99, records="abcdefgh")
    assert sizes == [3, 3, 2]
    assert rows == [(k, "EVENT_TIME", t) for t, k in enumerate("abcdefgh")]


def test_side_outputs_and_several_tables_may_be_given():
    late = OutputTag("late", "k string")

    def register(keys, ctx):
        ctx.timer_service().register_event_time_timers(keys, pa.array([1] * len(keys)))

    def further(keys, timestamps, ctx):
        return late, pa.table([keys.columns[0]], names=["k"])

    harness = opened(Timed(register, further), output=ROWS, side_outputs=[late])
    harness.process_elements([("a",), ("b",)])
    harness.process_watermark(5)
    assert [tuple(row) for row in harness.get_side_output(late)] == [("a",), ("b",)]
    assert len(harness.extract_output_values()) == 2
    harness.close()


def test_a_failure_says_which_timers_and_leaves_them():
    def register(keys, ctx):
        ctx.timer_service().register_event_time_timers(keys, pa.array([4] * len(keys)))

    def fails(*_):
        raise ValueError("no")

    harness = opened(Timed(register, fails), output=ROWS)
    harness.process_elements([("a",), ("b",)])
    with pytest.raises(UserFunctionError, match=re.escape("on_timers() with 2 timers up to 4 raised")):
        harness.process_watermark(5)
    assert harness.num_event_time_timers() == 2
    harness.close()


def test_a_function_has_one_of_the_two_methods():
    class Both(Timed):
        def on_timer(self, timestamp, ctx):
            return None

    with pytest.raises(JobDefinitionError, match="on_timer and on_timers"):
        opened(Both(lambda *_: None), output=ROWS)
