"""Timers and event time through the harness: what a function sees and when it is called.

Checklist of Flink's own tests (`InternalTimerServiceImplTest`, `KeyedProcessOperatorTest`), in our words:

| what Flink tests | here |
|---|---|
| the key, the watermark, both times can be read | `test_a_function_sees_the_times` |
| event-time and processing-time timers are set and fire | `test_a_timer_fires_when_its_clock_reaches_it` |
| timers are deleted | `test_a_deleted_timer_does_not_fire` |
| one physical timer per key and time | `test_a_timer_is_kept_once` |
| state under the timer's key | `test_a_timer_has_its_own_keys_state` |
| snapshot, restore, rebalancing restore | `test_timers_survive_a_restore_at_another_parallelism` |
| timers belong to the key group of their key | `test_timers_move_with_their_key_groups` |
| side output from a timer | `test_a_timer_emits_to_a_side_output` |
"""

from collections.abc import Iterable
from typing import Any

import pytest

from state_engine.api import (
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    RuntimeContext,
    TimeDomain,
    Types,
    ValueStateDescriptor,
)
from state_engine.errors import UserFunctionError
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness

LATE = OutputTag("late", "k string, n bigint")
NEVER = -(1 << 63)
END = (1 << 63) - 1


class Timers(KeyedProcessFunction):
    """Does what a record says: `e5` registers an event-time timer at 5, `p5` one of processing time, `-e5` deletes."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.fired = runtime_context.get_state(ValueStateDescriptor("fired", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        timers = ctx.timer_service()
        what, time = value.what.rstrip("0123456789"), int(value.what.lstrip("-ep"))
        {
            "e": timers.register_event_time_timer,
            "p": timers.register_processing_time_timer,
            "-e": timers.delete_event_time_timer,
            "-p": timers.delete_processing_time_timer,
        }[what](time)
        return []

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        self.fired.update((self.fired.value() or 0) + 1)
        assert ctx.timestamp() == timestamp
        yield f"{ctx.get_current_key()}{self.fired.value()}", timestamp, ctx.time_domain().name[0].lower()


class Again(KeyedProcessFunction):
    """A timer that registers the next one, `step` ms later, until 50."""

    def __init__(self, step: int) -> None:
        self.step = step

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(10)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        if timestamp < 50:
            ctx.timer_service().register_event_time_timer(timestamp + self.step)
        yield ctx.get_current_key(), timestamp, "e"


class Times(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        timers = ctx.timer_service()
        yield ctx.get_current_key(), ctx.timestamp(), timers.current_watermark(), timers.current_processing_time()


def harness(function: Any = None, output: str = "k string, at bigint, domain string", **given: Any) -> Any:
    return KeyedOneInputStreamOperatorTestHarness(
        function or Timers(), key="k", input_type="k string, what string", output_type=output, **given
    )


def test_a_function_sees_the_times() -> None:
    with harness(Times(), "k string, at bigint, watermark bigint, now bigint") as run:
        run.process_element(("a", ""))
        run.process_watermark(7)
        run.set_processing_time(9)
        run.process_element(("b", ""), 8)
    assert run.extract_output_values() == [("a", None, NEVER, 0), ("b", 8, 7, 9)]


@pytest.mark.parametrize(("record", "advance"), [("e5", "process_watermark"), ("p5", "set_processing_time")])
def test_a_timer_fires_when_its_clock_reaches_it(record: str, advance: str) -> None:
    with harness() as run:
        run.process_element(("a", record))
        getattr(run, advance)(4)
        assert run.extract_output_values() == []
        getattr(run, advance)(5)
        assert run.extract_output_values() == [("a1", 5, record[0])]
        getattr(run, advance)(6)
        assert run.extract_output_values() == [("a1", 5, record[0])]
        assert run.num_event_time_timers() == run.num_processing_time_timers() == 0


def test_the_clocks_do_not_mix() -> None:
    with harness() as run:
        run.process_elements([("a", "e5"), ("a", "p5")])
        run.process_watermark(10)
        assert run.extract_output_values() == [("a1", 5, "e")]
        assert (run.num_event_time_timers(), run.num_processing_time_timers()) == (0, 1)
        run.set_processing_time(10)
        assert run.extract_output_values() == [("a1", 5, "e"), ("a2", 5, "p")]


def test_timers_fire_in_order_of_time_over_all_keys() -> None:
    with harness() as run:
        run.process_elements([("b", "e3"), ("a", "e5"), ("c", "e3"), ("a", "e1"), ("b", "e9")])
        run.process_watermark(8)
    assert run.extract_output_values() == [("a1", 1, "e"), ("b1", 3, "e"), ("c1", 3, "e"), ("a2", 5, "e")]


@pytest.mark.parametrize("clock", ["e", "p"])
def test_a_deleted_timer_does_not_fire(clock: str) -> None:
    with harness() as run:
        run.process_elements([("a", f"{clock}5"), ("b", f"{clock}5")])
        run.process_element(("a", f"-{clock}5"))
        run.process_element(("a", f"-{clock}77"))  # there is no such timer: no error
        run.process_watermark(5)
        run.set_processing_time(5)
    assert run.extract_output_values() == [("b1", 5, clock)]


def test_a_timer_is_kept_once() -> None:
    with harness() as run:
        run.process_elements([("a", "e5"), ("a", "e5"), ("b", "e5")])
        run.process_element(("a", "e5"))
        assert run.num_event_time_timers() == 2
        run.process_watermark(5)
    assert run.extract_output_values() == [("a1", 5, "e"), ("b1", 5, "e")]


def test_a_timer_has_its_own_keys_state() -> None:
    with harness() as run:
        run.process_elements([("a", "e1"), ("b", "e2"), ("a", "e3")])
        run.process_watermark(3)
        assert run.extract_output_values() == [("a1", 1, "e"), ("b1", 2, "e"), ("a2", 3, "e")]
        assert run.snapshot().states()["fired"] == {"a": 2, "b": 1}


def test_a_timer_below_the_watermark_fires_when_the_watermark_moves_again() -> None:
    with harness() as run:
        run.process_watermark(10)
        run.process_element(("a", "e5"))
        assert run.extract_output_values() == []
        run.process_watermark(11)
    assert run.extract_output_values() == [("a1", 5, "e")]


def test_timers_registered_by_a_timer_fire_in_the_same_turn_if_they_are_due() -> None:
    with harness(Again(20)) as run:
        run.process_element(("a", ""))
        run.process_watermark(35)
        assert [at for _, at, _ in run.extract_output_values()] == [10, 30]
        run.process_watermark(END)
    assert [at for _, at, _ in run.extract_output_values()] == [10, 30, 50]


def test_the_last_watermark_fires_all() -> None:
    with harness() as run:
        run.process_elements([("a", "e5"), ("b", f"e{END}"), ("c", "p5")])
        run.process_watermark(END)
        assert run.extract_output_values() == [("a1", 5, "e"), ("b1", END, "e")]


class DeletesTheOther(KeyedProcessFunction):
    """The first timer that fires deletes the second one of its key."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        for time in (1, 2):
            ctx.timer_service().register_event_time_timer(time)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        ctx.timer_service().delete_event_time_timer(2)
        yield ctx.get_current_key(), timestamp, "e"


def test_a_timer_that_is_due_can_still_be_deleted() -> None:
    with harness(DeletesTheOther()) as run:
        run.process_element(("a", ""))
        run.process_watermark(5)
    assert run.extract_output_values() == [("a", 1, "e")]


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 5), (1, 1)])
def test_timers_survive_a_restore_at_another_parallelism(before: int, after: int) -> None:
    keys = [f"k{n}" for n in range(20)]
    with harness(parallelism=before) as run:
        run.process_elements([(key, f"e{n % 4 + 1}") for n, key in enumerate(keys)])
        run.process_elements([(key, f"p{n % 4 + 1}") for n, key in enumerate(keys)])
        run.process_watermark(2)
        fired = sorted(run.extract_output_values())
        snapshot = run.snapshot()
    with harness(parallelism=after) as run:
        run.initialize_state(snapshot)
        assert (run.num_event_time_timers(), run.num_processing_time_timers()) == (10, 20)
        run.process_watermark(END)
        run.set_processing_time(9)
        rest = sorted(run.extract_output_values())
    assert fired == sorted((f"k{n}1", n % 4 + 1, "e") for n in range(20) if n % 4 < 2)
    late = [(f"k{n}1", n % 4 + 1, "e") for n in range(20) if n % 4 >= 2]
    assert rest == sorted([*late, *((f"k{n}2", n % 4 + 1, "p") for n in range(20))])


def test_timers_move_with_their_key_groups() -> None:
    with harness() as run:
        run.process_elements([(f"k{n}", "e5") for n in range(30)])
        whole = run.snapshot()
    counts = []
    for subtask in range(3):
        with harness(parallelism=3, subtask=subtask) as run:
            run.initialize_state(whole)
            counts.append(run.num_event_time_timers())
            run.process_watermark(5)
            assert len(run.extract_output_values()) == counts[-1]
    assert sum(counts) == 30
    assert all(counts)


def test_the_watermark_goes_on_from_the_snapshot() -> None:
    with harness() as run:
        run.process_watermark(40)
        snapshot = run.snapshot()
    with harness(Times(), "k string, at bigint, watermark bigint, now bigint") as run:
        run.initialize_state(snapshot)
        run.process_element(("a", ""), 41)
        with pytest.raises(ValueError, match="cannot go back"):
            run.process_watermark(39)
    assert run.extract_output_values() == [("a", 41, 40, 0)]


class ToASide(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(5)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield LATE, (ctx.get_current_key(), timestamp)
        yield ctx.get_current_key(), timestamp, "main"


def test_a_timer_emits_to_a_side_output() -> None:
    with harness(ToASide(), side_outputs=[LATE]) as run:
        run.process_element(("a", ""))
        run.process_watermark(5)
        assert run.get_side_output(LATE) == [("a", 5)]
        assert run.extract_output_values() == [("a", 5, "main")]


class Fails(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(5)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None:
        raise RuntimeError("no")


def test_a_timer_that_fails_is_not_lost() -> None:
    with harness(Fails()) as run:
        run.process_element(("a", ""))
        for _ in range(2):
            with pytest.raises(UserFunctionError, match=r"on_timer\(\) raised RuntimeError: no.*'a'") as failed:
                run.process_watermark(5)
            assert "timer at 5" in str(failed.value)
            assert run.num_event_time_timers() == 1


class Wrong(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(value.what)


class TooLarge(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(1 << 63)


def test_a_time_that_is_no_whole_number_is_refused() -> None:
    with harness(Wrong()) as run, pytest.raises(UserFunctionError, match="TypeError"):
        run.process_element(("a", "noon"))
    with harness(TooLarge()) as run, pytest.raises(UserFunctionError, match="no time"):
        run.process_element(("a", ""))


class NoKey(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(5)


def test_a_stream_without_key_has_no_timers() -> None:
    run = KeyedOneInputStreamOperatorTestHarness(NoKey(), (), "k string", "k string")
    with run, pytest.raises(UserFunctionError, match="without key"):
        run.process_element(("a",))


def test_records_come_in_order_of_event_time() -> None:
    with harness(Times(), "k string, at bigint, watermark bigint, now bigint") as run:
        run.process_elements([("a", ""), ("b", ""), ("c", ""), ("d", "")], [5, 3, 5, 1])
        with pytest.raises(ValueError, match="2 timestamps for 1"):
            run.process_elements([("a", "")], [1, 2])
    assert [(k, at) for k, at, _, _ in run.extract_output_values()] == [("d", 1), ("b", 3), ("a", 5), ("c", 5)]


def test_timers_of_a_snapshot_can_be_looked_at() -> None:
    with harness() as run:
        run.process_elements([("a", "e7"), ("a", "e5"), ("b", "p1")])
        snapshot = run.snapshot()
        assert snapshot.timers(TimeDomain.EVENT_TIME) == {"a": [5, 7]}
        assert snapshot.timers(TimeDomain.PROCESSING_TIME) == {"b": [1]}
        assert snapshot.states() == {"fired": {}}
        assert run.num_keyed_state_entries() == 0
