"""Values that expire, end to end: a function in a harness that sets the time."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from state_engine.api import (
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    RuntimeContext,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from state_engine.errors import TtlTimeChangedError, UserFunctionError
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness
from state_engine.testing.state_folding_suite import Mean

Harness = KeyedOneInputStreamOperatorTestHarness


def lives(ms: int = 100) -> StateTtlConfig.Builder:
    return StateTtlConfig.new_builder(Time.milliseconds(ms))


class Mortal(KeyedProcessFunction):
    """Has a state of each kind, and emits what they hold before it adds to them; a negative number only reads."""

    def __init__(self, config: StateTtlConfig | None) -> None:
        self.config = config

    def open(self, runtime_context: RuntimeContext) -> None:
        accumulator = Types.TUPLE([Types.LONG(), Types.LONG()])
        last = ValueStateDescriptor("last", Types.LONG())
        every = ListStateDescriptor("all", Types.LONG())
        by_n = MapStateDescriptor("by_n", Types.LONG(), Types.LONG())
        total = ReducingStateDescriptor("sum", lambda a, b: a + b, int)
        mean = AggregatingStateDescriptor("mean", Mean(), accumulator)
        if self.config is not None:
            for descriptor in (last, every, by_n, total, mean):
                descriptor.enable_time_to_live(self.config)
        self.last = runtime_context.get_state(last)
        self.all = runtime_context.get_list_state(every)
        self.by_n = runtime_context.get_map_state(by_n)
        self.sum = runtime_context.get_reducing_state(total)
        self.mean = runtime_context.get_aggregating_state(mean)

    def seen(self) -> str:
        by_n = dict(sorted(self.by_n.items()))
        return f"{self.last.value()} {list(self.all.get())} {by_n} {self.sum.get()} {self.mean.get()}"

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        yield value.k, self.seen()
        if value.n >= 0:
            self.last.update(value.n)
            self.all.add(value.n)
            self.by_n.put(value.n, value.n)
            self.sum.add(value.n)
            self.mean.add(value.n)
            if value.n >= 1_000:
                ctx.timer_service().register_event_time_timer(value.n + 80)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        yield ctx.get_current_key(), f"timer {self.seen()}"
        self.last.update(7)


EMPTY = "None [] {} None None"
ONE = "1 [1] {1: 1} 1 1.0"


def make(config: StateTtlConfig | None, **given: Any) -> Harness:
    return Harness(Mortal(config), "k", "k string, n bigint", "k string, seen string", **given)


def reads(harness: Harness, key: str = "a", timestamp: int | None = None) -> str:
    """Returns what the states of a key hold, by a record that only reads."""
    harness.clear_output()
    harness.process_element((key, -1), timestamp)
    ((_, seen),) = harness.extract_output_values()
    return str(seen)


@pytest.fixture(params=[False, True], ids=["warm", "restored"])
def go_on(request: pytest.FixtureRequest) -> Any:
    """Returns the harness with which a test goes on: the same, or one restored at another parallelism."""

    def again(harness: Harness, config: StateTtlConfig | None) -> Harness:
        if not request.param:
            return harness
        restored = make(config, parallelism=3)
        restored.initialize_state(harness.snapshot())
        return restored

    return again


def test_values_expire_by_processing_time(go_on: Any) -> None:
    config = lives().build()
    harness = make(config)
    harness.set_processing_time(1_000)
    harness.process_element(("a", 1))
    harness = go_on(harness, config)
    harness.set_processing_time(1_050)
    harness.process_element(("a", 2))
    assert reads(harness) == "2 [1, 2] {1: 1, 2: 2} 3 1.5"
    harness = go_on(harness, config)
    harness.set_processing_time(1_100)
    assert reads(harness) == "2 [2] {2: 2} 3 1.5"
    harness.set_processing_time(1_149)
    harness = go_on(harness, config)
    assert reads(harness) == "2 [2] {2: 2} 3 1.5"
    harness.set_processing_time(1_150)
    assert reads(harness) == EMPTY
    assert harness.num_keyed_state_entries() == 0


def test_reads_keep_values_alive(go_on: Any) -> None:
    config = lives().update_ttl_on_read_and_write().build()
    harness = make(config)
    harness.set_processing_time(0)
    harness.process_element(("a", 1))
    for ms in range(90, 500, 90):
        harness = go_on(harness, config)
        harness.set_processing_time(ms)
        assert reads(harness) == ONE
    assert reads(harness, "b") == EMPTY


def test_values_expire_by_event_time(go_on: Any) -> None:
    config = lives().use_event_time().build()
    harness = make(config)
    harness.set_processing_time(1 << 40)
    harness.process_element(("a", 1), 10_000)
    harness.process_watermark(10_099)
    harness = go_on(harness, config)
    assert reads(harness, timestamp=20_000) == ONE
    harness.process_watermark(10_100)
    harness = go_on(harness, config)
    assert reads(harness, timestamp=20_000) == EMPTY


def test_a_timer_reads_and_writes_at_its_own_time() -> None:
    harness = make(lives().use_event_time().build())
    harness.process_element(("a", 1_000), 1_000)
    harness.process_watermark(1_090)
    assert harness.extract_output_values()[-1] == ("a", "timer 1000 [1000] {1000: 1000} 1000 1000.0")
    (row,) = harness.snapshot().table("last").to_pylist()
    assert (row["value"], row["last_access"]) == (7, 1_080)
    harness.process_watermark(1_179)
    assert reads(harness) == "7 [] {} None None"
    harness.process_watermark(1_180)
    assert reads(harness) == EMPTY


def test_a_ttl_is_added_changed_and_removed_between_restores() -> None:
    harness = make(None)
    harness.set_processing_time(1_000)
    harness.process_element(("a", 1))

    def restored(config: StateTtlConfig | None, ms: int) -> str:
        other = make(config, parallelism=2)
        other.initialize_state(harness.snapshot())
        other.set_processing_time(ms)
        return reads(other)

    assert restored(lives(100).build(), 1_099) == ONE
    assert restored(lives(100).build(), 1_100) == EMPTY
    assert restored(lives(500).build(), 1_100) == ONE
    assert restored(None, 9_999) == ONE
    with pytest.raises(TtlTimeChangedError, match="of operator 'operator' is in event time"):
        restored(lives().use_event_time().build(), 1_000)
    assert restored(lives().use_event_time().allow_time_characteristic_change().build(), 9_999) == ONE


def test_a_snapshot_says_since_when_the_other_time_counts() -> None:
    harness = make(None)
    harness.process_element(("a", 1), 5_000)
    changed = lives().use_event_time().allow_time_characteristic_change().build()
    other = make(changed)
    other.initialize_state(harness.snapshot())
    other.process_element(("b", 1), 5_000)
    other.process_watermark(9_000)
    assert {schema.unknown_until for schema in other.snapshot().manifest.schemas} == {1}
    again = make(lives().use_event_time().build(), parallelism=2)
    again.initialize_state(other.snapshot())
    assert reads(again, "a") == ONE
    assert reads(again, "b") == EMPTY
    again.process_watermark(9_100)
    assert reads(again, "a") == EMPTY


def test_records_of_others_clean_up() -> None:
    harness = make(lives().cleanup_incrementally(10, True).build())
    for key in "abcde":
        harness.process_element((key, 1))
    harness.set_processing_time(100)
    assert harness.num_keyed_state_entries() == 25
    assert reads(harness, "z") == EMPTY
    assert harness.num_keyed_state_entries() == 0


def test_a_failed_epoch_touches_nothing() -> None:
    harness = make(lives().update_ttl_on_read_and_write().build())
    harness.process_element(("a", 1))
    harness.set_processing_time(50)
    with pytest.raises(UserFunctionError):
        harness.process_elements([("a", -1), ("a", None)])  # the second has nothing to compare with 0
    harness.set_processing_time(100)
    assert reads(harness) == EMPTY
