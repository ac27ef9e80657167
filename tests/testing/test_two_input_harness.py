"""The harness for functions with two inputs: it runs what a task runs."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from state_engine.api import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
    OutputTag,
    Types,
    ValueStateDescriptor,
)
from state_engine.errors import JobDefinitionError, OutputTypeError, RoutingError, UserFunctionError
from state_engine.testing import KeyedTwoInputStreamOperatorTestHarness, repackage_state

ORDERS = "user string, amount bigint"
USERS = "since bigint, id string, city string"
LATE = OutputTag("late", "id string")


class Enrich(KeyedCoProcessFunction):
    """Adds the city to an order; an order without one waits until its timer."""

    def open(self, runtime_context: Any) -> None:
        self.city = runtime_context.get_state(ValueStateDescriptor("city", Types.STRING()))
        self.waiting = runtime_context.get_state(ValueStateDescriptor("waiting", Types.LONG()))

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        if self.city.value() is None:
            self.waiting.update((self.waiting.value() or 0) + value.amount)
            ctx.timer_service().register_event_time_timer((ctx.timestamp() or 0) + 10)
        else:
            yield ctx.get_current_key(), value.amount, self.city.value()

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        if self.waiting.value() is not None:
            yield value.id, self.waiting.value(), value.city
            self.waiting.clear()
        self.city.update(value.city)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        if self.waiting.value() is not None:
            yield LATE, (ctx.get_current_key(),)
            self.waiting.clear()


def harness_of(function: Any = None, **options: Any) -> KeyedTwoInputStreamOperatorTestHarness:
    return KeyedTwoInputStreamOperatorTestHarness(
        function or Enrich(),
        "user",
        "id",
        ORDERS,
        USERS,
        "user string, amount bigint, city string",
        side_outputs=[LATE],
        **options,
    )


def test_both_inputs_share_the_state_of_their_key() -> None:
    with harness_of() as harness:
        harness.process_element1(("ann", 3))
        harness.process_element1({"user": "ann", "amount": 4})
        harness.process_element2((7, "bob", "Rome"))
        assert harness.extract_output_values() == []
        assert harness.snapshot().states() == {"city": {"bob": "Rome"}, "waiting": {"ann": 7}}
        harness.process_element2({"city": "Oslo", "id": "ann", "since": 1})
        harness.process_element1(("bob", 1))
        assert harness.extract_output_values() == [("ann", 7, "Oslo"), ("bob", 1, "Rome")]
        assert harness.snapshot().states() == {"city": {"bob": "Rome", "ann": "Oslo"}, "waiting": {}}


def test_records_of_one_epoch_keep_the_order_of_the_call() -> None:
    mixed = [(2, (1, "ann", "Oslo")), (1, ("ann", 5)), (1, ("bob", 2)), (2, (1, "bob", "Rome")), (1, ("ann", 6))]
    with harness_of() as harness:
        harness.process_elements(mixed)
        assert harness.extract_output_values() == [("ann", 5, "Oslo"), ("bob", 2, "Rome"), ("ann", 6, "Oslo")]


def test_records_with_timestamps_come_in_their_order() -> None:
    with harness_of() as harness:
        harness.process_elements([(1, ("ann", 5)), (2, (1, "ann", "Oslo"))], timestamps=[8, 3])
        assert harness.extract_output_values() == [("ann", 5, "Oslo")]


def test_timers_fire_at_the_least_of_both_watermarks() -> None:
    with harness_of() as harness:
        harness.process_element1(("ann", 3), timestamp=100)
        assert harness.num_event_time_timers() == 1
        harness.process_watermark1(200)
        harness.process_watermark2(109)
        assert harness.get_side_output(LATE) == []
        harness.process_watermark2(110)
        assert harness.get_side_output(LATE) == [("ann",)]
        assert harness.num_event_time_timers() == 0
        with pytest.raises(ValueError, match="input 1 is 200"):
            harness.process_watermark1(150)
        harness.process_element1(("bob", 3), timestamp=200)
        harness.process_both_watermarks(210)
        assert harness.get_side_output(LATE) == [("ann",), ("bob",)]


def test_a_snapshot_starts_another_parallelism() -> None:
    users = [f"u{n}" for n in range(20)]
    with harness_of(parallelism=2) as before:
        before.process_elements([(2, (0, user, f"city of {user}")) for user in users])
    with harness_of(parallelism=3) as after:
        after.initialize_state(before.snapshot())
        after.process_elements([(1, (user, 1)) for user in users])
        assert sorted(after.extract_output_values()) == sorted((user, 1, f"city of {user}") for user in users)


def test_one_subtask_refuses_the_keys_of_others_on_both_inputs() -> None:
    parts = []
    for subtask in (0, 1):
        with harness_of(parallelism=2, subtask=subtask) as harness:
            for n in range(10):
                for process, record in (
                    (harness.process_element1, (f"u{n}", 1)),
                    (harness.process_element2, (0, f"u{n}", "Rome")),
                ):
                    with suppress(RoutingError):
                        process(record)
            parts.append(harness.snapshot())
    cities = [set(part.states()["city"]) for part in parts]
    assert all(cities)
    assert len(repackage_state(*parts).states()["city"]) == sum(map(len, cities)) == 10


@dataclass
class Order:
    user: str
    amount: int


@dataclass
class Point:
    x: int


@dataclass
class Spot:
    x: int


def test_each_input_has_its_own_classes_although_they_share_columns() -> None:
    class Classes(KeyedCoProcessFunction):
        def process_element1(self, value: Any, ctx: Any) -> list[Any]:
            return [(value[0], type(value[1]).__name__)]

        def process_element2(self, value: Any, ctx: Any) -> list[Any]:
            return [(value[0], type(value[1]).__name__)]

    one = Types.ROW_NAMED(["k", "p"], [Types.STRING(), Point])
    two = Types.ROW_NAMED(["k", "p"], [Types.STRING(), Spot])
    with KeyedTwoInputStreamOperatorTestHarness(Classes(), "k", "k", one, two, "k string, name string") as harness:
        harness.process_elements([(1, ("a", Point(1))), (2, ("a", Spot(1)))])
        assert harness.extract_output_values() == [("a", "Point"), ("a", "Spot")]


def test_dataclasses_as_records() -> None:
    class Classes(CoMapFunction):
        def map1(self, value: Any) -> Any:
            return (type(value).__name__, value.amount)

        def map2(self, value: Any) -> Any:
            return None if value.since < 0 else (value.id, value.since)

    with KeyedTwoInputStreamOperatorTestHarness(Classes(), (), (), Order, USERS, "name string, n bigint") as harness:
        harness.process_element1(Order("ann", 4))
        harness.process_element2((-1, "bob", "Rome"))
        harness.process_element2((1, "bob", "Rome"))
        assert harness.extract_output_values() == [("Order", 4), ("bob", 1)]


def test_flat_map_and_process_without_key() -> None:
    class Flat(CoFlatMapFunction):
        def flat_map1(self, value: Any) -> Iterable[Any] | None:
            return None

        def flat_map2(self, value: Any) -> Iterable[Any] | None:
            return [(value.id,), (value.city,)]

    class Plain(CoProcessFunction):
        def process_element1(self, value: Any, ctx: Any) -> Iterable[Any]:
            yield (f"{value.user} at {ctx.timestamp()}",)

        def process_element2(self, value: Any, ctx: Any) -> Iterable[Any]:
            return [(str(ctx.timer_service().current_processing_time()),)]

    for function, expected in ((Flat(), ["bob", "Rome"]), (Plain(), ["ann at 7", "1000"])):
        with KeyedTwoInputStreamOperatorTestHarness(
            function, (), (), ORDERS, USERS, "word string", parallelism=2
        ) as harness:
            harness.set_processing_time(1000)
            harness.process_element1(("ann", 1), timestamp=7)
            harness.process_element2((1, "bob", "Rome"))
            assert [word for (word,) in harness.extract_output_values()] == expected


def test_what_a_function_raises_names_input_key_and_record() -> None:
    class Fails(Enrich):
        def process_element2(self, value: Any, ctx: Any) -> Any:
            raise ValueError("cannot digest this")

    class FailsToMap(CoMapFunction):
        def map1(self, value: Any) -> Any:
            return ("a", "b")

        def map2(self, value: Any) -> Any:
            raise ValueError("cannot digest this")

    with harness_of(Fails()) as harness:
        with pytest.raises(UserFunctionError, match=r"process_element2\(\) raised ValueError.*Key: 'ann'.*city='Oslo'"):
            harness.process_elements([(1, ("ann", 1)), (2, (1, "ann", "Oslo"))])
        assert harness.snapshot().states() == {}  # nothing of the epoch is kept
    with KeyedTwoInputStreamOperatorTestHarness(FailsToMap(), (), (), ORDERS, USERS, "a string, n bigint") as mapping:
        with pytest.raises(UserFunctionError, match=r"map2\(\) raised ValueError"):
            mapping.process_element2((1, "ann", "Oslo"))
        with pytest.raises(OutputTypeError, match="field 'n'"):
            mapping.process_element1(("ann", 1))


def test_what_does_not_fit_is_refused_by_name() -> None:
    with pytest.raises(JobDefinitionError, match=r"user \(string\).*since \(bigint\)"):
        KeyedTwoInputStreamOperatorTestHarness(Enrich(), "user", "since", ORDERS, USERS, "a int")
    with pytest.raises(JobDefinitionError, match="with two inputs without key columns got a Enrich"):
        KeyedTwoInputStreamOperatorTestHarness(Enrich(), (), (), ORDERS, USERS, "a int")
    with harness_of() as harness:
        with pytest.raises(TypeError, match=r"'Oslo'.*is not struct<user"):
            harness.process_element1((1, "ann", "Oslo"))
        with pytest.raises(ValueError, match="no input 3"):
            harness.process_elements([(3, ("ann", 1))])
