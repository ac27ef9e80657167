"""Timers at the edges: set while others fire, at odd times, overdue at a restore, in both clocks at once."""

from collections.abc import Iterable
from typing import Any

import pytest

from state_engine.api import KeyedProcessFunction, RuntimeContext, TimeDomain, Types, ValueStateDescriptor
from state_engine.errors import UserFunctionError
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness

MIN, MAX = -(1 << 63), (1 << 63) - 1


class Does(KeyedProcessFunction):
    """A record says what to do: `e 5` sets an event-time timer at 5, `p 5` one of processing time, `-e 5` deletes.

    `e 5 then e 5 x2` does the second thing when it fires, the given number of times.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        self.then = runtime_context.get_state(ValueStateDescriptor("then", Types.STRING()))
        self.left = runtime_context.get_state(ValueStateDescriptor("left", Types.LONG(), 0))

    def do(self, what: str, ctx: Any) -> None:
        timers, (verb, time) = ctx.timer_service(), what.split()
        {
            "e": timers.register_event_time_timer,
            "p": timers.register_processing_time_timer,
            "-e": timers.delete_event_time_timer,
            "-p": timers.delete_processing_time_timer,
        }[verb](int(time))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        now, _, then = value.what.partition(" then ")
        if then:
            then, _, times = then.partition(" x")
            self.then.update(then)
            self.left.update(int(times or 1))
        for what in filter(None, now.split(", ")):
            self.do(what, ctx)
        yield value.k, "record"

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        clock = "e" if ctx.time_domain() is TimeDomain.EVENT_TIME else "p"
        if left := self.left.value():
            self.left.update(left - 1)
            self.do(self.then.value() or "", ctx)
        else:
            self.then.clear()
            self.left.clear()
        yield ctx.get_current_key(), f"{clock} {timestamp}"


Harness = KeyedOneInputStreamOperatorTestHarness


@pytest.fixture(params=["heap", "rocksdb"])
def harness(request: pytest.FixtureRequest) -> Any:
    """Makes harnesses, over either backend."""
    backend = request.getfixturevalue("rocksdb") if request.param == "rocksdb" else "heap"

    def make(parallelism: int = 1) -> Harness:
        columns = ("k string, what string", "k string, said string")
        return Harness(Does(), "k", *columns, parallelism=parallelism, state_backend=backend)

    return make


def said(run: Harness) -> list[str]:
    """Returns what was emitted since the last call, without rows of records."""
    emitted = [f"{key} {what}" for key, what in run.extract_output_values() if what != "record"]
    run.clear_output()
    return emitted


@pytest.fixture(params=[False, True], ids=["warm", "restored"])
def go_on(request: pytest.FixtureRequest, harness: Any) -> Any:
    """Returns the harness with which a test goes on: the same, or one restored at another parallelism."""

    def again(run: Harness) -> Harness:
        if not request.param:
            return run
        restored = harness(parallelism=2)
        restored.initialize_state(run.snapshot())
        return restored

    return again


@pytest.mark.parametrize(("clock", "advance"), [("e", "process_watermark"), ("p", "set_processing_time")])
def test_a_timer_may_set_itself_again_and_fires_in_the_same_turn(harness: Any, clock: str, advance: str) -> None:
    with harness() as run:
        run.process_element(("a", f"{clock} 5 then {clock} 5 x2"))
        getattr(run, advance)(5)
        assert said(run) == [f"a {clock} 5"] * 3
        assert run.num_event_time_timers() == run.num_processing_time_timers() == 0
        assert run.snapshot().states() == {"then": {}, "left": {}}


@pytest.mark.parametrize(("clock", "advance"), [("e", "process_watermark"), ("p", "set_processing_time")])
def test_a_timer_set_in_the_past_by_a_timer_fires_in_the_same_turn(harness: Any, clock: str, advance: str) -> None:
    with harness() as run:
        run.process_elements([("a", f"{clock} 5, {clock} 7 then {clock} 2")])
        getattr(run, advance)(9)
        assert said(run) == [f"a {clock} 5", f"a {clock} 2", f"a {clock} 7"]


def test_a_chain_of_timers_leaves_one_at_a_time(harness: Any, go_on: Any) -> None:
    run = harness()
    run.process_element(("a", "p 10 then p 20"))
    run = go_on(run)
    for now, left in [(10, 1), (20, 0)]:
        run.set_processing_time(now)
        assert said(run) == [f"a p {now}"]
        assert run.num_processing_time_timers() == left
        run = go_on(run)


def test_an_earlier_timer_set_later_fires_first(harness: Any, go_on: Any) -> None:
    run = harness()
    run.process_element(("a", "p 20"))
    run.process_element(("a", "p 10"))
    run = go_on(run)
    run.set_processing_time(10)
    assert said(run) == ["a p 10"]
    run.set_processing_time(20)
    assert said(run) == ["a p 20"]


def test_deleted_and_set_again_it_fires_once(harness: Any, go_on: Any) -> None:
    run = harness()
    run.process_elements([("a", "e 5"), ("a", "-e 5, e 5"), ("b", "e 5, -e 5")])
    run = go_on(run)
    run.process_elements([("a", "-e 5"), ("a", "e 5")])
    run.process_watermark(5)
    assert said(run) == ["a e 5"]
    run.process_watermark(6)
    assert said(run) == []


def test_one_clock_does_not_delete_for_the_other(harness: Any, go_on: Any) -> None:
    run = harness()
    run.process_elements([("a", "e 5, p 5, -p 5"), ("b", "e 5, p 5, -e 5")])
    run = go_on(run)
    run.process_watermark(5)
    run.set_processing_time(5)
    assert said(run) == ["a e 5", "b p 5"]


def test_a_key_deletes_its_own_timers_only(harness: Any, go_on: Any) -> None:
    run = harness()
    run.process_element(("a", "e 5, p 5"))
    run = go_on(run)
    run.process_element(("b", "-e 5, -p 5"))
    run.process_watermark(5)
    run.set_processing_time(5)
    assert said(run) == ["a e 5", "a p 5"]


def test_times_before_1970_and_the_ends_of_time(harness: Any, go_on: Any) -> None:
    run = harness()
    run.process_elements([("a", f"e {MAX}, e -5, e 0"), ("b", f"e {MIN + 1}")])
    run = go_on(run)
    run.process_watermark(-5)
    assert said(run) == [f"b e {MIN + 1}", "a e -5"]
    run.process_watermark(MAX - 1)
    assert said(run) == ["a e 0"]
    run.process_watermark(MAX)
    assert said(run) == [f"a e {MAX}"]


def test_null_and_empty_keys_have_timers(harness: Any, go_on: Any) -> None:
    run = harness()
    run.process_elements([(None, "e 5"), ("", "e 5"), ("a", "e 5")])
    run = go_on(run)
    assert run.snapshot().timers(TimeDomain.EVENT_TIME) == {None: [5], "": [5], "a": [5]}
    run.process_watermark(5)
    assert sorted(said(run)) == [" e 5", "None e 5", "a e 5"]


def test_what_is_overdue_at_a_restore_fires_with_the_first_epoch(harness: Any) -> None:
    with harness() as before:
        before.process_elements([("a", "p 10"), ("b", "p 20"), ("c", "p 99")])
        snapshot = before.snapshot()
    with harness(parallelism=1) as run:
        run.initialize_state(snapshot)
        run.set_processing_time(50)
        assert said(run) == ["a p 10", "b p 20"]
        run.process_element(("d", ""))
        assert said(run) == []
        assert run.num_processing_time_timers() == 1


def test_a_watermark_that_does_not_move_fires_nothing_twice(harness: Any, go_on: Any) -> None:
    run = harness()
    run.process_element(("a", "e 5"))
    run.process_watermark(5)
    assert said(run) == ["a e 5"]
    run = go_on(run)
    run.process_watermark(5)
    assert said(run) == []


class Registering(KeyedProcessFunction):
    """Registers a timer at a time that it is given."""

    def __init__(self, clock: str, time: int) -> None:
        self.register, self.time = f"register_{clock}_time_timer", time

    def process_element(self, value: Any, ctx: Any) -> list[Any]:
        getattr(ctx.timer_service(), self.register)(self.time)
        return []


@pytest.mark.parametrize("clock", ["event", "processing"])
@pytest.mark.parametrize("backend", ["heap", "rocksdb"])
@pytest.mark.parametrize("time", [2**63, -(2**63) - 1])
def test_a_timer_for_a_value_that_is_no_time_is_reported_as_such(clock: str, backend: str, time: int) -> None:
    harness = KeyedOneInputStreamOperatorTestHarness(
        Registering(clock, time), "k", "k string", "k string", state_backend=backend
    )
    harness.open()
    with pytest.raises(UserFunctionError, match=rf"timer for a value that is no time: {time}") as told:
        harness.process_element(("a",))
    assert "milliseconds since 1970" in told.value.action
