"""Timers of functions over batches, for many keys at once and on both clocks: each timer fires once."""

import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from restoring import renewed

from state_engine.api import KeyedBatchProcessFunction, KeyedProcessFunction, TimeDomain, Types, ValueStateDescriptor
from state_engine.errors import UserFunctionError
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness as Harness

INPUT, OUTPUT = "k string, what string, at bigint", "k string, said string"
DOMAINS = {"e": TimeDomain.EVENT_TIME, "p": TimeDomain.PROCESSING_TIME}
ADVANCE = {"e": Harness.process_watermark, "p": Harness.set_processing_time}
METHODS = {
    "e": "register_event_time_timer", "p": "register_processing_time_timer",
    "-e": "delete_event_time_timer", "-p": "delete_processing_time_timer",
}  # fmt: skip
"""The commands that a record may have, for timers at its time."""


class SaysWhatFired:
    def on_timer(self, timestamp, ctx):
        clock = next(clock for clock, domain in DOMAINS.items() if domain is ctx.time_domain())
        return [(ctx.get_current_key(), f"{clock} {timestamp}")]


class ByRow(SaysWhatFired, KeyedProcessFunction):
    def process_element(self, value, ctx):
        if value.at is not None:
            getattr(ctx.timer_service(), METHODS[value.what])(value.at)


class ByBatch(SaysWhatFired, KeyedBatchProcessFunction):
    """The form by columns: first registers timers, then deletes timers.

    Args:
        by_columns: Whether the heap stores timers as columns, as it does for windows.
    """

    def __init__(self, by_columns=False):
        self.by_columns = by_columns

    def open(self, runtime_context):
        if self.by_columns:
            runtime_context.get_state(ValueStateDescriptor("unused", Types.LONG()))

    def process_batch(self, keys, batch, ctx):
        for what, method in METHODS.items():
            times = pc.if_else(pc.equal(batch.column("what"), what), batch.column("at"), None)
            getattr(ctx.timer_service(), f"{method}s")(keys, times)


BACKENDS = ["heap", "heap by columns", "rocksdb"]
over_each = pytest.mark.parametrize("backend", BACKENDS)
by_each_clock = pytest.mark.parametrize("clock", DOMAINS)


def made(backend, form=ByBatch):
    function = ByBatch(by_columns=True) if backend == "heap by columns" else form()
    return Harness(function, "k", INPUT, OUTPUT, state_backend=backend.split()[0])


@pytest.fixture(params=[False, True], ids=["warm", "restored"])
def go_on(request):
    """Returns the harness to continue with: the same one, or a restored one."""
    return lambda run, backend: renewed(run, lambda: made(backend)) if request.param else run


def said(run):
    """Returns what fired since the last call."""
    rows = [f"{key} {what}" for key, what in run.extract_output_values()]
    run.clear_output()
    return rows


def at(run, clock, time):
    """Returns what fires when a clock is moved to a time."""
    ADVANCE[clock](run, time)
    return said(run)


@over_each
@by_each_clock
def test_they_fire_at_their_times_in_the_order_of_their_keys(backend, clock, go_on):
    run = made(backend)
    run.process_elements([("b", clock, 5), ("a", clock, 7), ("a", clock, 5), (None, clock, 5)])
    run = go_on(run, backend)
    assert run.snapshot().timers(DOMAINS[clock]) == {"a": [5, 7], "b": [5], None: [5]}
    assert [at(run, clock, time) for time in (4, 5, 6)] == [[], [f"a {clock} 5", f"b {clock} 5", f"None {clock} 5"], []]
    run = go_on(run, backend)
    assert at(run, clock, 7) == [f"a {clock} 7"]
    assert run.snapshot().timers(DOMAINS[clock]) == {}
    run.close()


@over_each
@by_each_clock
def test_where_there_is_no_time_none_is_registered(backend, clock, go_on):
    run = made(backend)
    run.process_elements([("a", clock, None), ("b", clock, 5), ("c", clock, None)])
    run.process_elements([("d", clock, None)])
    run = go_on(run, backend)
    assert run.snapshot().timers(DOMAINS[clock]) == {"b": [5]}
    assert at(run, clock, 10) == [f"b {clock} 5"]
    run.close()


@over_each
@by_each_clock
def test_registered_twice_it_fires_once(backend, clock, go_on):
    run = made(backend)
    run.process_elements([("a", clock, 5), ("b", clock, 5), ("a", clock, 5), ("a", clock, 6), ("a", clock, 5)])
    run = go_on(run, backend)
    run.process_elements([("a", clock, 5), ("a", clock, 5)])
    assert run.snapshot().timers(DOMAINS[clock]) == {"a": [5, 6], "b": [5]}
    run = go_on(run, backend)
    assert at(run, clock, 10) == [f"a {clock} 5", f"b {clock} 5", f"a {clock} 6"]
    assert at(run, clock, 20) == []
    run.close()


@over_each
@by_each_clock
def test_what_is_deleted_does_not_fire(backend, clock, go_on):
    run = made(backend)
    run.process_elements([(key, clock, time) for key in "abc" for time in (5, 6)] + [("c", f"-{clock}", 6)])
    run = go_on(run, backend)
    run.process_elements([("a", f"-{clock}", 5), ("b", f"-{clock}", 6), ("a", f"-{clock}", 5)])
    run = go_on(run, backend)
    assert run.snapshot().timers(DOMAINS[clock]) == {"a": [6], "b": [5], "c": [5]}
    assert at(run, clock, 10) == [f"b {clock} 5", f"c {clock} 5", f"a {clock} 6"]
    run.close()


@over_each
@by_each_clock
def test_what_is_absent_is_deleted_without_an_error(backend, clock, go_on):
    run = made(backend)
    run.process_elements([("a", f"-{clock}", 5)])  # before the first timer of all
    run.process_elements([("a", clock, 5)])
    run = go_on(run, backend)
    other = "p" if clock == "e" else "e"
    run.process_elements(
        [("a", f"-{clock}", 6), ("b", f"-{clock}", 5), ("a", f"-{clock}", None), ("a", f"-{other}", 5)]
    )
    assert at(run, clock, 5) == [f"a {clock} 5"]
    run = go_on(run, backend)
    run.process_elements([("a", f"-{clock}", 5)])  # it has fired
    assert at(run, clock, 9) == []
    run.close()


@over_each
@by_each_clock
def test_it_may_be_registered_again_when_it_was_deleted_or_has_fired(backend, clock, go_on):
    run = made(backend)
    run.process_elements([("a", clock, 5)])
    run.process_elements([("a", f"-{clock}", 5)])
    run.process_elements([("a", clock, 5)])
    run = go_on(run, backend)
    assert at(run, clock, 5) == [f"a {clock} 5"]
    run.process_elements([("a", clock, 5)])
    run = go_on(run, backend)
    assert at(run, clock, 6) == [f"a {clock} 5"]
    run.close()


TIMERS = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from(["e", "p"]), st.integers(0, 30)),
    st.sampled_from(["", "", "-"]),
    max_size=8,
)
"""The commands of an epoch: it either registers or deletes a timer, so that their order does not count."""
EPOCHS = st.lists(st.tuples(TIMERS, st.booleans(), st.integers(0, 12)), min_size=1, max_size=5)


def course(forms, epochs, backend):
    """Returns what fires in each epoch, and which timers wait after it; each epoch has another instance.

    Args:
        forms: The form of each epoch, and of one more.
        epochs: The commands of each, some of them twice, and how far the clocks advance after it.
        backend: One of `BACKENDS`.
    """
    run, now, found = made(backend, forms[0]), 0, []
    for (timers, twice, further), form in zip(epochs, forms[1:], strict=True):
        records = [(key, f"{verb}{clock}", time) for (key, clock, time), verb in timers.items()]
        run.process_elements(records * 2 if twice else records)
        now += further
        fired = [at(run, clock, now) for clock in DOMAINS]
        found.append((fired, {clock: run.snapshot().timers(domain) for clock, domain in DOMAINS.items()}))
        run = renewed(run, lambda form=form: made(backend, form))
    run.close()
    return found


@pytest.mark.hypothesis
@over_each
def test_they_are_those_of_a_row_function_also_where_the_two_take_turns(backend):
    @settings(max_examples=max(10, settings.default.max_examples // (4 if backend != "rocksdb" else 16)))
    @given(EPOCHS, st.data())
    def check(epochs, data):
        by_row = course([ByRow] * (len(epochs) + 1), epochs, "rocksdb" if backend == "rocksdb" else "heap")
        assert course([ByBatch] * (len(epochs) + 1), epochs, backend) == by_row
        if backend != "heap by columns":
            turns = [data.draw(st.sampled_from([ByRow, ByBatch])) for _ in range(len(epochs) + 1)]
            assert course(turns, epochs, backend) == by_row

    check()


class Calls(KeyedBatchProcessFunction):
    """Calls one method of the timer service."""

    def __init__(self, method, times):
        self.method, self.times = method, times

    def process_batch(self, keys, batch, ctx):
        getattr(ctx.timer_service(), f"{self.method}s")(keys, self.times)


@pytest.mark.parametrize("method", METHODS.values())
@pytest.mark.parametrize(("times", "message"), [
    ([1.5, 2.5], "timers got a column of double, not integers of milliseconds"),
    (["1", "2"], "timers got a column of string"),
    ([1], "timers got 1 timestamps for 2 rows"),
])  # fmt: skip
def test_times_are_integers_one_per_record(method, times, message):
    with (
        Harness(Calls(method, times), "k", INPUT, OUTPUT) as run,
        pytest.raises(UserFunctionError, match=message),
    ):
        run.process_elements([("a", "", 1), ("b", "", 2)])
