"""The arguments of window functions, the event time of their rows, and definitions that are refused."""

from collections.abc import Iterable
from dataclasses import dataclass
from operator import add
from typing import Any

import pyarrow as pa
import pytest

from state_engine.api import (
    AggregateFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ProcessWindowFunction,
    ReduceFunction,
    ReducingStateDescriptor,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
    WindowFunction,
)
from state_engine.api.type_hints import parse_columns_ddl
from state_engine.api.windows import (
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    Window,
    WindowAssigner,
    WindowSerializer,
)
from state_engine.errors import DuplicateStateError, JobDefinitionError, LakestateError, UserFunctionError
from state_engine.runtime.emitted import EVENT_TIME
from state_engine.runtime.operators import operator_of
from state_engine.runtime.spec import OperatorSpec, key_columns
from state_engine.runtime.windows.stream import WindowedStream
from state_engine.testing import windowed_harness

ms = Time.milliseconds
TUMBLING = TumblingEventTimeWindows.of(ms(10))
END = (1 << 63) - 1


class Remembers(ProcessWindowFunction[Any, Any, Any, Any]):
    """Counts calls per window and per key, in a state from each way to get one; clears a window's state at its end."""

    in_window = ValueStateDescriptor("calls", Types.LONG())

    def open(self, runtime_context: Any) -> None:
        self.from_open = runtime_context.get_reducing_state(ReducingStateDescriptor("opened", add, Types.LONG()))

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        # Both have the same name in turn, and must not be confused. Descriptors are created again, as authors do.
        of_window = context.window_state().get_state(self.in_window)
        of_key = context.global_state().get_state(ValueStateDescriptor("calls", Types.LONG()))
        of_window.update((of_window.value() or 0) + 1)
        of_key.update((of_key.value() or 0) + 1)
        self.from_open.add(1)
        listed = context.window_state().get_list_state(ListStateDescriptor("listed", Types.LONG()))
        listed.add_all([e.n for e in elements])
        mapped = context.window_state().get_map_state(MapStateDescriptor("mapped", Types.LONG(), Types.LONG()))
        mapped[of_window.value()] = len(list(listed))
        assert of_window.value() in mapped
        yield key, context.window().start, of_window.value(), of_key.value(), self.from_open.get()

    def clear(self, context: Any) -> None:
        store = context.window_state()
        store.get_state(self.in_window).clear()
        store.get_list_state(ListStateDescriptor("listed", Types.LONG())).clear()
        store.get_map_state(MapStateDescriptor("mapped", Types.LONG(), Types.LONG())).clear()


CALLS = "k string, start bigint, in_window bigint, of_key bigint, opened bigint"


class TestState:
    def test_of_the_window_and_of_the_key(self, windowed: Any) -> None:
        with windowed(TUMBLING).allowed_lateness(20).process(Remembers(), CALLS) as run:
            run.process_elements([("a", 1), ("b", 2), ("a", 3)], [1, 2, 11])
            run.process_watermark(9)
            run.process_element(("a", 4), 3)
            run.process_watermark(19)
            assert run.extract_output_values() == [
                ("a", 0, 1, 1, 1), ("b", 0, 1, 1, 1), ("a", 0, 2, 2, 2), ("a", 10, 1, 3, 3),
            ]  # fmt: skip
            run.process_watermark(END)
            left = {name: found for name, found in run.snapshot().states().items() if found}
        assert left == {"calls": {"a": 3, "b": 1}, "opened": {"a": 3, "b": 1}}

    def test_is_restored(self, windowed: Any) -> None:
        def start(**options: Any) -> Any:
            return windowed(TUMBLING, **options).allowed_lateness(20).process(Remembers(), CALLS)

        with start() as run:
            run.process_element(("a", 1), 1)
            run.process_watermark(9)
        with start(parallelism=4) as other:
            other.initialize_state(run.snapshot())
            other.process_element(("a", 2), 2)
            assert other.extract_output_values() == [("a", 0, 2, 2, 2)]

    @pytest.mark.parametrize("name", ["window-contents", "merging-window-set"])
    def test_the_operators_own_names_are_taken(self, windowed: Any, name: str) -> None:
        class Asks(ProcessWindowFunction[Any, Any, Any, Any]):
            def open(self, runtime_context: Any) -> None:
                runtime_context.get_state(ValueStateDescriptor(name, Types.LONG()))

            def process(self, key: Any, context: Any, elements: Any) -> Any:
                raise AssertionError

        with pytest.raises(DuplicateStateError, match=f"keeps a state '{name}' itself"):
            windowed(TUMBLING).process(Asks(), "k string")

    @pytest.mark.parametrize("store", ["window_state", "global_state"])
    def test_one_name_has_one_type(self, windowed: Any, store: str) -> None:
        class Twice(ProcessWindowFunction[Any, Any, Any, Any]):
            def process(self, key: Any, context: Any, elements: Any) -> Any:
                states = getattr(context, store)()
                states.get_state(ValueStateDescriptor("mine", Types.LONG()))
                states.get_state(ValueStateDescriptor("mine", Types.STRING()))
                raise AssertionError

        with windowed(TUMBLING).process(Twice(), "k string") as run:
            run.process_element(("a", 1), 1)
            with pytest.raises(LakestateError, match="uses the state name 'mine'"):
                run.process_watermark(9)

    def test_functions_that_fold_have_none(self, windowed: Any) -> None:
        class Asks(ReduceFunction):
            def open(self, runtime_context: Any) -> None:
                runtime_context.get_state(ValueStateDescriptor("mine", Types.LONG()))

            def reduce(self, value1: Any, value2: Any) -> Any:
                raise AssertionError

        with pytest.raises(JobDefinitionError, match="asked for a state"):
            windowed(TUMBLING).reduce(Asks())

    def test_contents_change_their_type_only_under_another_uid(self, windowed: Any, sum_of_n: Any, total: Any) -> None:
        output = "what string, n bigint, sum bigint"
        with windowed(TUMBLING).reduce(sum_of_n) as run:
            run.process_element(("a", 1), 1)
        with pytest.raises(LakestateError, match="window-contents"):
            windowed(TUMBLING).aggregate(total, output_type=output).initialize_state(run.snapshot())


class TestContext:
    def test_times(self, windowed: Any) -> None:
        class Times(ProcessWindowFunction[Any, Any, Any, Any]):
            def process(self, key: Any, context: Any, elements: Any) -> Any:
                yield context.current_watermark(), context.current_processing_time()

        with windowed(TUMBLING).process(Times(), "watermark bigint, now bigint") as run:
            run.set_processing_time(5)
            run.process_element(("a", 1), 1)
            run.process_watermark(12)
        assert run.extract_output_values() == [(12, 5)]

    def test_a_key_of_two_columns_is_a_tuple(self) -> None:
        class Keys(WindowFunction[Any, Any, Any, Any]):
            def apply(self, key: Any, window: Any, inputs: Any) -> Any:
                yield repr(key), len(list(inputs))

        columns = "k string, n bigint, v string"
        with windowed_harness(TUMBLING, ("k", "n"), columns).apply(Keys(), "k string, n bigint") as run:
            run.process_elements([("a", 1, "x"), ("a", None, "y"), ("a", 1, "z")], [1, 2, 3])
            run.process_watermark(9)
        assert sorted(run.extract_output_values()) == [("('a', 1)", 2), ("('a', None)", 1)]

    def test_what_fails_is_named(self, windowed: Any) -> None:
        class Fails(WindowFunction[Any, Any, Any, Any]):
            def apply(self, key: Any, window: Any, inputs: Any) -> Any:
                yield 1 / 0

        with windowed(TUMBLING).trigger(CountTrigger.of(2)).apply(Fails(), "k string") as run:
            run.process_element(("a", 1), 1)
            with pytest.raises(UserFunctionError, match=r"apply\(\) raised ZeroDivisionError.*Key: 'a'"):
                run.process_element(("a", 2), 2)
        with windowed(TUMBLING).apply(Fails(), "k string") as run:
            run.process_element(("a", 1), 1)
            with pytest.raises(UserFunctionError, match=r"on_timer\(\) raised ZeroDivisionError.*Key: 'a'"):
                run.process_watermark(9)

    def test_functions_are_opened_and_closed(self, windowed: Any, sum_of_n: Any) -> None:
        class Life(WindowFunction[Any, Any, Any, Any], ReduceFunction):
            calls: list[str] = []  # noqa: RUF012 - of the class, so that copies share it

            def open(self, runtime_context: Any) -> None:
                self.calls.append("open")

            def close(self) -> None:
                self.calls.append("close")

            def apply(self, key: Any, window: Any, inputs: Any) -> Any:
                return []

            def reduce(self, value1: Any, value2: Any) -> Any:
                raise AssertionError

        with windowed(TUMBLING).reduce(Life(), Life(), "k string") as run:
            Life.calls.clear()
            run.open()
            assert Life.calls == ["open", "open"]
        assert Life.calls[2:] == ["close", "close"]


@dataclass(frozen=True)
class Grade(Window):
    """Windows of a class that the library does not have."""

    name: str

    def max_timestamp(self) -> int:
        return 99 if self.name == "small" else 199


class GradeSerializer(WindowSerializer[Grade]):
    def serialize(self, window: Grade) -> str:
        return f"grade:{window.name}"

    def deserialize(self, text: str) -> Grade:
        return Grade(text.removeprefix("grade:"))


class Graded(WindowAssigner[Any, Grade]):
    """Assigns windows by a record's content; the first record of a key is in no window."""

    def __init__(self) -> None:
        self.seen = ValueStateDescriptor("seen", Types.BOOLEAN())

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> list[Grade]:
        runtime = context.get_runtime_context()
        assert runtime.get_task_name() == "operator"
        seen = runtime.get_state(self.seen)
        if not seen.value():
            seen.update(True)
            return []
        return [Grade("small" if element.n < 10 else "large")]

    def get_default_trigger(self, env: Any) -> Any:
        return EventTimeTrigger()

    def get_window_serializer(self) -> GradeSerializer:
        return GradeSerializer()

    def is_event_time(self) -> bool:
        return True


class TestAnAssignerOfTheAuthors:
    def test_windows_of_its_own_kind_survive_a_restore(self, windowed: Any, sum_of_n: Any) -> None:
        class Named(WindowFunction[Any, Any, Any, Any]):
            def apply(self, key: Any, window: Grade, inputs: Any) -> Any:
                yield window.name, sum(i.n for i in inputs)

        def start(parallelism: int) -> Any:
            return windowed(Graded(), parallelism=parallelism).reduce(sum_of_n, Named(), "name string, n bigint")

        with start(1) as run:
            run.process_elements([("a", 1), ("a", 2), ("a", 30)], [1, 2, 3])
            assert {row["namespace"] for row in run.snapshot().table("window-contents").to_pylist()} == {
                "grade:small",
                "grade:large",
            }
        with start(3) as other:
            other.initialize_state(run.snapshot())
            other.process_elements([("a", 4), ("a", 50)], [4, 5])
            other.process_watermark(99)
            assert other.extract_output_values() == [("small", 6)]
            other.process_watermark(199)
            assert other.extract_output_values()[1:] == [("large", 80)]
            assert {n: s for n, s in other.snapshot().states().items() if s} == {"seen": {"a": True}}


def test_an_aggregate_of_nothing_gives_no_row(windowed: Any, total: Any) -> None:
    """Flink calls no function with null: an accumulator with the result None counts as a window without elements."""

    class Even(type(total)):  # type: ignore[misc]
        def get_result(self, accumulator: list[int]) -> Any:
            return accumulator[1] if accumulator[1] % 2 == 0 else None

    columns = "k string, seen string"
    with windowed(TUMBLING).aggregate(Even(), Seen(), output_type=columns) as run:
        run.process_elements([("a", 1), ("a", 2), ("b", 1), ("b", 3)], [0, 1, 2, 3])
        run.process_watermark(9)
        assert run.extract_output_values() == [("b", "4")]


class Seen(WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Iterable[Any]:
        return [(key, " ".join(map(str, inputs)))]


def test_the_state_of_a_window_may_expire(windowed: Any) -> None:
    class Remembers(ProcessWindowFunction[Any, Any, Any, Any]):
        def process(self, key: Any, context: Any, elements: Any) -> Any:
            descriptor = ValueStateDescriptor("calls", Types.LONG())
            descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(10)).build())
            calls = context.window_state().get_state(descriptor)
            yield key, calls.value()
            calls.update((calls.value() or 0) + 1)

    with windowed(TUMBLING).allowed_lateness(50).process(Remembers(), "k string, calls bigint") as run:
        run.process_element(("a", 1), 1)
        run.process_watermark(9)
        for now in (5, 100):
            run.set_processing_time(now)
            run.process_element(("a", 1), 1)
    assert run.extract_output_values() == [("a", None), ("a", 1), ("a", None)]


class Collecting:
    """An operator that emits rows with event times."""

    def __init__(self, stream: Any, output: str = "k string, n bigint") -> None:
        columns = parse_columns_ddl("k string, n bigint")
        spec = OperatorSpec(
            uid="op",
            kind="keyed_process",
            function=stream,
            input=columns,
            key=key_columns(columns, ["k"]),
            order_by=(),
            output=parse_columns_ddl(output),
            emits_event_time=True,
        )
        self.operator = operator_of(spec, 0, 1)
        self.operator.open()

    def epoch(self, watermark: int, *records: tuple[str, int, int]) -> list[Any]:
        self.operator.begin(watermark, watermark, 0)
        batches = [self.operator.advance()]
        if records:
            arrays = [pa.array([r[i] for r in records]) for i in range(3)]
            batches.append(self.operator.process(pa.RecordBatch.from_arrays(arrays, names=["k", "n", EVENT_TIME])))
        return [row[EVENT_TIME] for batch in batches if "main" in batch for row in batch["main"].to_pylist()]


def stream_of(assigner: Any) -> WindowedStream[Any]:
    return WindowedStream(parse_columns_ddl("k string, n bigint"), assigner, lambda adapter, output, uid: adapter)


class TestEventTimeOfRows:
    """As in Flink: the last time of the window, whatever made it fire."""

    def test_at_the_end_and_late(self, sum_of_n: Any) -> None:
        run = Collecting(stream_of(TUMBLING).allowed_lateness(50).reduce(sum_of_n))
        assert run.epoch(0, ("a", 1, 1), ("a", 1, 12)) == []
        assert run.epoch(25) == [9, 19]
        assert run.epoch(26, ("a", 1, 2), ("a", 1, 13)) == [9, 19]

    def test_early_and_of_several_windows_at_once(self, sum_of_n: Any) -> None:
        sliding = SlidingEventTimeWindows.of(ms(10), ms(5))
        run = Collecting(stream_of(sliding).trigger(CountTrigger.of(1)).reduce(sum_of_n))
        assert run.epoch(0, ("a", 1, 7)) == [14, 9]

    def test_of_processing_time_windows(self, sum_of_n: Any) -> None:
        run = Collecting(stream_of(TumblingProcessingTimeWindows.of(ms(10))).reduce(sum_of_n))
        run.epoch(3, ("a", 1, 1))
        assert run.epoch(25) == [9]

    def test_of_windows_without_end_that_of_the_record(self, sum_of_n: Any) -> None:
        trigger = PurgingTrigger.of(CountTrigger.of(2))
        run = Collecting(stream_of(GlobalWindows.create()).trigger(trigger).reduce(sum_of_n))
        assert run.epoch(3, ("a", 1, 4), ("a", 1, 6)) == [6]


class Untyped(AggregateFunction):
    def create_accumulator(self) -> Any:
        return 0

    def add(self, value: Any, accumulator: Any) -> Any:
        return accumulator + 1

    def get_result(self, accumulator: Any) -> Any:
        return (accumulator,)

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return acc_a + acc_b


class Tagged(WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        return ()


REFUSED: dict[str, Any] = {
    "got 5": lambda s: s.trigger(5),
    "evictor.. got": lambda s: s.evictor(CountEvictor),
    "allowed lateness was given as -1": lambda s: s.allowed_lateness(-1),
    "allowed lateness was given as '5'": lambda s: s.allowed_lateness("5"),
    "allowed lateness was given as True": lambda s: s.allowed_lateness(True),
    "side_output_late_data.. got 'late'": lambda s: s.side_output_late_data("late"),
    "late.. with struct<k:string>; the stream has": lambda s: s.side_output_late_data(OutputTag("late", "k string")),
    "reduce.. got 5": lambda s: s.reduce(5),
    "reduce.. got <class": lambda s: s.reduce(Tagged),
    "reduce.. got .* as window function": lambda s: s.reduce(max, max, "k string"),
    "reduce.. of windows got no output_type": lambda s: s.reduce(max, Tagged()),
    "aggregate.. got .* AggregateFunction": lambda s: s.aggregate(max),
    "aggregate.. of windows got no output_type": lambda s: s.aggregate(Untyped(), accumulator_type=Types.LONG()),
    "Untyped's accumulator is not known.*accumulator_type": lambda s: s.aggregate(Untyped(), output_type="n bigint"),
    "apply.. got .* WindowFunction": lambda s: s.apply(Remembers(), "k string"),
    "process.. on windows got .* ProcessWindowFunction": lambda s: s.process(Tagged(), "k string"),
    "apply.. of windows got no output_type": lambda s: s.apply(Tagged()),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(message: str) -> None:
    with pytest.raises(JobDefinitionError, match=message):
        REFUSED[message](stream_of(TUMBLING))


def test_an_operator_explains_itself() -> None:
    adapter = stream_of(TUMBLING).aggregate(Untyped(), Tagged(), Types.LONG(), "k string")
    windows = "windows=TumblingEventTimeWindows(size=10, slide=10, offset=0)"
    assert (adapter.verb, adapter.argument) == ("aggregate", f"Untyped, Tagged, {windows}")
    assert stream_of(TUMBLING).reduce(add).argument == f"add, {windows}"


def test_an_assigner_is_wanted() -> None:
    with pytest.raises(JobDefinitionError, match="WindowAssigner"):
        stream_of(EventTimeTrigger())


def test_what_is_said_of_a_stream_can_be_chained() -> None:
    stream = stream_of(EventTimeSessionWindows.with_gap(ms(5)))
    said = stream.trigger(EventTimeTrigger()).evictor(CountEvictor(1)).allowed_lateness(Time.seconds(1))
    assert said.side_output_late_data(OutputTag("late")) is stream
    assert stream.get_input_type().ddl() == "struct<k:string,n:bigint>"
