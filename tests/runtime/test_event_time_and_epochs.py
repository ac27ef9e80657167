"""Results of one ordered input do not depend on where epochs are cut, or on the parallelism."""

from collections.abc import Iterable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from state_engine.api import (
    Duration,
    KeyedProcessFunction,
    ListStateDescriptor,
    Types,
    ValueStateDescriptor,
    WatermarkStrategy,
)
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness

GAP = 10
END = (1 << 63) - 1


class Sessions(KeyedProcessFunction):
    """Sessions without windows: a timer `GAP` after the newest record of a key closes its session."""

    def open(self, runtime_context: Any) -> None:
        self.values = runtime_context.get_list_state(ListStateDescriptor("values", Types.LONG()))
        self.closes = runtime_context.get_state(ValueStateDescriptor("closes", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        timers, at = ctx.timer_service(), ctx.timestamp()
        assert at is not None
        if (closes := self.closes.value()) is not None:
            timers.delete_event_time_timer(closes)
        timers.register_event_time_timer(at + GAP)
        self.closes.update(at + GAP)
        self.values.add(value.v)
        yield ctx.get_current_key(), f"seen at {timers.current_watermark()}", [value.v]

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        yield ctx.get_current_key(), f"closed {timestamp}", list(self.values)
        self.values.clear()
        self.closes.clear()


Records = list[tuple[str, int, int]]


def run(records: Records, cuts: set[int], parallelism: int, behind: int) -> dict[str, list[Any]]:
    """Returns the rows of each key in order."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(behind))
    with KeyedOneInputStreamOperatorTestHarness(
        Sessions(),
        key="k",
        input_type="k string, v bigint",
        output_type="k string, what string, of array<bigint>",
        parallelism=parallelism,
        watermark_strategy=strategy,
    ) as harness:
        epoch: Records = []
        for n, record in enumerate(records):
            epoch.append(record)
            if n in cuts or n == len(records) - 1:
                harness.process_elements([(k, v) for k, v, _ in epoch], [at for _, _, at in epoch])
                epoch = []
        harness.process_watermark(END)
        rows: dict[str, list[Any]] = {}
        for key, what, values in harness.extract_output_values():
            rows.setdefault(key, []).append((what, values))
        return rows


steps = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 7)), min_size=1, max_size=25)


@settings(max_examples=settings.default.max_examples // 3)
@given(steps=steps, cuts=st.sets(st.integers(0, 24)), parallelism=st.integers(1, 3), behind=st.sampled_from([0, 5]))
def test_an_ordered_input_gives_the_same_wherever_it_is_cut(
    steps: list[tuple[str, int]], cuts: set[int], parallelism: int, behind: int
) -> None:
    at, records = 100, []
    for n, (key, later) in enumerate(steps):
        at += later
        records.append((key, n, at))
    whole = run(records, set(), 1, behind)
    each = run(records, set(range(len(records))), 1, behind)
    assert whole == each
    assert run(records, cuts, parallelism, behind) == whole


def test_the_watermark_follows_the_records() -> None:
    rows = run([("a", 1, 100), ("b", 2, 100), ("a", 3, 130)], set(), 1, 5)
    assert rows == {
        "a": [("seen at 93", [1]), ("closed 110", [1]), ("seen at 123", [3]), ("closed 140", [3])],
        "b": [("seen at 93", [2]), ("closed 110", [2])],
    }
