"""Windows of all records, of any key: functions see no key, and only the columns of the stream."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from state_engine.api import (
    AllWindowFunction,
    CheckpointedFunction,
    ListStateDescriptor,
    OutputTag,
    ProcessAllWindowFunction,
    Time,
    Types,
    ValueStateDescriptor,
)
from state_engine.api.windows import (
    CountEvictor,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    ProcessWindowFunction,
    TumblingEventTimeWindows,
    WindowFunction,
)
from state_engine.errors import JobDefinitionError
from state_engine.testing import windowed_harness

INPUT = "k string, n bigint"
SEEN = "start bigint, seen string"
LATE = OutputTag("late", INPUT)
TUMBLING = TumblingEventTimeWindows.of(Time.milliseconds(10))


class Seen(AllWindowFunction[Any, Any, Any]):
    def apply(self, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        yield window.start, " ".join(repr(value) for value in inputs)


class Numbered(ProcessAllWindowFunction[Any, Any, Any]):
    """Numbers all results, and the results of each window."""

    def open(self, runtime_context: Any) -> None:
        self.opened = runtime_context.get_task_name()

    def process(self, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        numbers = []
        for store in (context.global_state(), context.window_state()):
            number = store.get_state(ValueStateDescriptor("number", Types.LONG()))
            number.update((number.value() or 0) + 1)
            numbers.append(number.value())
        yield context.window().start, f"{self.opened} {numbers} {sum(e.n for e in elements)}"

    def clear(self, context: Any) -> None:
        context.window_state().get_state(ValueStateDescriptor("number", Types.LONG())).clear()


def all_of(assigner: Any, input_type: Any = INPUT, **options: Any) -> Any:
    return windowed_harness(assigner, (), input_type, side_outputs=[LATE], **options)


def test_keys_do_not_matter_and_rows_are_the_streams() -> None:
    with all_of(TUMBLING).side_output_late_data(LATE).apply(Seen(), SEEN) as run:
        run.process_elements([("a", 1), {"k": "b", "n": 2}, ("a", 3)], [1, 2, 11])
        run.process_watermark(9)
        run.process_element(("c", 4), 3)
        assert run.extract_output_values() == [(0, "Row(k='a', n=1) Row(k='b', n=2)")]
        assert run.get_side_output(LATE) == [("c", 4)]


def test_state_over_a_restore_at_another_parallelism() -> None:
    with all_of(TUMBLING).allowed_lateness(5).process(Numbered(), SEEN) as run:
        run.process_elements([("a", 1), ("b", 2)], [1, 2])
        run.process_watermark(9)
    with all_of(TUMBLING, parallelism=3).allowed_lateness(5).process(Numbered(), SEEN) as other:
        other.initialize_state(run.snapshot())
        other.process_elements([("c", 4), ("d", 8)], [3, 12])
        other.process_watermark(19)
        rows = run.extract_output_values() + other.extract_output_values()
        assert rows == [(0, "operator [1, 1] 3"), (0, "operator [2, 2] 7"), (10, "operator [3, 1] 8")]
        other.process_watermark(24)
        assert {n: s for n, s in other.snapshot().states().items() if s} == {"number": {None: 3}}


@dataclass
class Click:
    k: str
    n: int


@pytest.mark.parametrize("evictor", [None, CountEvictor(9)])
def test_sessions_of_dataclasses_reduced(evictor: Any) -> None:
    expected = "abc"  # records of the second session follow those of the first; c came last
    stream = all_of(EventTimeSessionWindows.with_gap(Time.milliseconds(10)), Click)
    if evictor is not None:
        stream.evictor(evictor)
    with stream.reduce(lambda a, b: Click(a.k + b.k, a.n + b.n)) as run:
        for click, at in ((Click("a", 1), 0), (Click("b", 2), 20), (Click("c", 4), 10)):
            run.process_element(click, at)
        run.process_watermark(100)
        assert run.extract_output_values() == [Click(expected, 7)]
        assert not any(run.snapshot().states().values())


def test_count_windows() -> None:
    with all_of(CountTumblingWindowAssigner.of(3)).reduce(lambda a, b: (a.k + b.k, a.n + b.n)) as run:
        run.process_elements([(k, n) for n, k in enumerate("abcdefgh")])
        assert run.extract_output_values() == [("abc", 3), ("def", 12)]


class Remembers(ProcessAllWindowFunction[Any, Any, Any], CheckpointedFunction):
    """Counts how often it fired, in a field that is stored as operator state."""

    fired = 0

    def initialize_state(self, context: Any) -> None:
        self.stored = context.get_operator_state_store().get_list_state(ListStateDescriptor("fired", Types.LONG()))
        self.fired = sum(self.stored.get())

    def snapshot_state(self, context: Any) -> None:
        self.stored.update([self.fired])

    def process(self, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        self.fired += 1
        yield context.window().start, str(self.fired)


def test_a_function_may_keep_operator_state() -> None:
    with all_of(TUMBLING).process(Remembers(), SEEN) as run:
        run.process_elements([("a", 1), ("b", 2)], [1, 12])
        run.process_watermark(9)
        run.close()
        run.process_watermark(19)
        assert run.extract_output_values() == [(0, "1"), (10, "2")]


class ForKeys(WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        raise AssertionError


class ProcessForKeys(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        raise AssertionError


def test_functions_with_keys_are_refused_and_the_other_way_round() -> None:
    for call in (
        lambda: all_of(TUMBLING).apply(ForKeys(), SEEN),
        lambda: all_of(TUMBLING).process(ProcessForKeys(), SEEN),
        lambda: all_of(TUMBLING).reduce(max, ForKeys(), SEEN),
        lambda: windowed_harness(TUMBLING, "k", INPUT).apply(Seen(), SEEN),
        lambda: windowed_harness(TUMBLING, "k", INPUT).process(Numbered(), SEEN),
        lambda: windowed_harness(TUMBLING, "k", INPUT).reduce(max, Numbered(), SEEN),
    ):
        with pytest.raises(JobDefinitionError, match="WindowFunction"):
            call()
