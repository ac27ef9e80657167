"""The harness: records and rows have the same columns as in a job."""

import datetime
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from state_engine.api import (
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    Row,
    RuntimeContext,
    Types,
    ValueStateDescriptor,
)
from state_engine.errors import JobDefinitionError, UnsupportedTypeError
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness

LARGE = OutputTag("large", "user string, amount bigint")
INPUT, OUTPUT = "user string, amount bigint", "user string, total bigint"


class Total(KeyedProcessFunction):
    """Adds amounts; large ones also go to a side output."""

    def __init__(self) -> None:
        self.closed = 0

    def open(self, runtime_context: RuntimeContext) -> None:
        self.context = runtime_context
        self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

    def close(self) -> None:
        self.closed += 1

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        total = (self.total.value() or 0) + (value.amount or 0)
        self.total.update(total)
        if value.amount is not None and value.amount > 100:
            yield LARGE, (value.user, value.amount)
        yield ctx.get_current_key(), total


@dataclass
class Payment:
    user: str
    amount: int


def total(**given: Any) -> KeyedOneInputStreamOperatorTestHarness:
    return KeyedOneInputStreamOperatorTestHarness(Total(), "user", INPUT, OUTPUT, **given)


@pytest.mark.parametrize(
    "record",
    [
        ("ann", 3),
        {"amount": 3, "user": "ann"},
        Row("ann", 3),
        Row(amount=3, user="ann"),
        Payment("ann", 3),
        ["ann", 3],
    ],
)
def test_records_of_any_form(record: Any) -> None:
    with total() as harness:
        harness.process_element(record)
        assert harness.extract_output_values() == [("ann", 3)]


def test_what_a_dict_leaves_out_is_null() -> None:
    with total() as harness:
        harness.process_element({"user": "ann"})
        assert harness.extract_output_values() == [("ann", 0)]


def test_records_of_one_call_and_of_several() -> None:
    with total() as harness:
        harness.process_elements([("ann", 1), ("bob", 2), ("ann", 3)])
        harness.process_element(("ann", 4))
        harness.process_elements([])
        assert harness.extract_output_values() == [("ann", 1), ("bob", 2), ("ann", 4), ("ann", 8)]


def test_the_output_as_columns() -> None:
    with total() as harness:
        assert harness.get_output().num_rows == 0
        harness.process_elements([("ann", 1), ("bob", 2)])
        assert harness.get_output().schema == pa.schema([("user", pa.string()), ("total", pa.int64())])
        assert harness.get_output().to_pylist() == [{"user": "ann", "total": 1}, {"user": "bob", "total": 2}]


def test_side_outputs() -> None:
    with total(side_outputs=[LARGE]) as harness:
        harness.process_elements([("ann", 1), ("bob", 200)])
        assert harness.get_side_output(LARGE) == [("bob", 200)]
        assert harness.extract_output_values() == [("ann", 1), ("bob", 200)]
        with pytest.raises(KeyError, match=r"'late'.*large"):
            harness.get_side_output(OutputTag("late"))


def test_a_side_output_without_a_reader_is_dropped() -> None:
    with total() as harness:
        harness.process_element(("bob", 200))
        assert harness.extract_output_values() == [("bob", 200)]


def test_cleared_output_is_gone_and_state_is_not() -> None:
    with total(side_outputs=[LARGE]) as harness:
        harness.process_element(("bob", 200))
        harness.clear_output()
        assert (harness.extract_output_values(), harness.get_side_output(LARGE)) == ([], [])
        harness.process_element(("bob", 1))
        assert harness.extract_output_values() == [("bob", 201)]


def test_dataclasses_in_and_out() -> None:
    class Doubling(KeyedProcessFunction):
        def process_element(self, value: Payment, ctx: KeyedProcessFunction.Context) -> Iterable[Payment]:
            assert type(value) is Payment
            yield Payment(value.user, 2 * value.amount)

    with KeyedOneInputStreamOperatorTestHarness(Doubling(), "user", Payment, Payment) as harness:
        harness.process_element(("ann", 2))
        assert harness.extract_output_values() == [Payment("ann", 4)]


def test_values_are_those_that_columns_give_back() -> None:
    class Given(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
            yield value.k, value.at, 1

    at = datetime.datetime(2024, 1, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    output = "k int, at timestamp, x double"
    with KeyedOneInputStreamOperatorTestHarness(Given(), ["k"], "k int, at timestamp", output) as harness:
        harness.process_element((1, at))
        [(key, found, number)] = harness.extract_output_values()
    assert (key, found) == (1, at)
    assert found.tzinfo is datetime.UTC
    assert type(number) is float


@pytest.mark.parametrize(
    ("record", "named"),
    [
        (("ann", "3"), r"field 'amount': '3' \(str\) is not bigint"),
        (("ann",), "1 fields for 2"),
        ({"user": "ann", "sum": 3}, r"unknown fields \['sum'\]"),
        (5, r"5 \(int\)"),
        (None, "None"),
    ],
)
def test_a_record_that_does_not_fit(record: Any, named: str) -> None:
    with total() as harness:
        with pytest.raises(TypeError, match=named):
            harness.process_elements([("ann", 1), record])
        assert harness.extract_output_values() == []


def test_a_key_of_several_columns_and_null_keys() -> None:
    class Keys(Total):
        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
            self.total.update(1)
            yield repr(ctx.get_current_key()), 0

    with KeyedOneInputStreamOperatorTestHarness(Keys(), ["amount", "user"], INPUT, OUTPUT) as harness:
        harness.process_elements([("ann", 1), (None, None)])
        assert harness.extract_output_values() == [("(1, 'ann')", 0), ("(None, None)", 0)]
        assert harness.snapshot().states() == {"total": {(1, "ann"): 1, (None, None): 1}}


@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_function_without_keys(parallelism: int) -> None:
    class Split(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
            return [(value.user, value.amount + 1)]

    harness = KeyedOneInputStreamOperatorTestHarness(Split(), (), INPUT, OUTPUT, parallelism=parallelism)
    with harness:
        harness.process_elements([(None, n) for n in range(5)])
        assert sorted(n for _, n in harness.extract_output_values()) == [1, 2, 3, 4, 5]
        assert harness.snapshot().states() == {}
        assert harness.num_keyed_state_entries() == 0


def test_processing_time_is_that_of_the_call() -> None:
    class Times(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
            yield value.user, ctx.timer_service().current_processing_time()

    with KeyedOneInputStreamOperatorTestHarness(Times(), "user", INPUT, OUTPUT) as harness:
        harness.process_element(("ann", 1))
        harness.set_processing_time(5_000)
        harness.process_elements([("ann", 1), ("ann", 1)])
        assert [time for _, time in harness.extract_output_values()] == [0, 5_000, 5_000]
        with pytest.raises(ValueError, match="cannot go back to 4000"):
            harness.set_processing_time(4_000)
        restored = KeyedOneInputStreamOperatorTestHarness(Times(), "user", INPUT, OUTPUT)
        restored.initialize_state(harness.snapshot())
        restored.process_element(("ann", 1))
        assert restored.extract_output_values() == [("ann", 5_000)]


def test_where_an_instance_runs() -> None:
    with total(parallelism=3, max_parallelism=13, uid="sum", parameters={"mode": "fast"}) as harness:
        harness.open()
        contexts = [function.context for function in harness.functions]
        assert [context.get_task_name_with_subtasks() for context in contexts] == [
            "sum (1/3)",
            "sum (2/3)",
            "sum (3/3)",
        ]
        assert contexts[0].get_max_number_of_parallel_subtasks() == 13
        assert contexts[0].get_job_parameter("mode", "slow") == "fast"


def test_life() -> None:
    function = Total()
    harness = KeyedOneInputStreamOperatorTestHarness(function, "user", INPUT, OUTPUT)
    assert harness.functions == ()
    harness.open()
    [copy] = harness.functions
    harness.open()
    assert harness.functions == (copy,)
    harness.process_element(("ann", 1))
    harness.close()
    harness.close()
    assert (copy.closed, function.closed) == (1, 0)
    assert not hasattr(function, "total"), "the author's own object was opened"
    assert harness.extract_output_values() == [("ann", 1)]
    harness.process_element(("ann", 1))
    assert harness.extract_output_values() == [("ann", 1), ("ann", 2)]
    assert harness.functions != (copy,)


REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no such key column": ({"key": "usr"}, JobDefinitionError, "no columns usr"),
    "a key that is no key": ({"key": "x", "input_type": "x double"}, UnsupportedTypeError, "double"),
    "a reserved name": ({"key": "value", "input_type": "value int"}, JobDefinitionError, "value"),
    "a function of the other kind": ({"key": ()}, JobDefinitionError, "Give a ProcessFunction"),
    "an output without columns": ({"output_type": "bigint"}, UnsupportedTypeError, "'operator'.*no columns"),
    "parallelism": ({"parallelism": 200}, JobDefinitionError, "200"),
    "subtask": ({"parallelism": 2, "subtask": 2}, JobDefinitionError, "no subtask 2"),
    "a side output called main": ({"side_outputs": [OutputTag("main", "n int")]}, JobDefinitionError, "'main'"),
    "a uid that names no folder": ({"uid": "a/b"}, JobDefinitionError, "a/b"),
    "a tag without columns": ({"side_outputs": [OutputTag("late")]}, JobDefinitionError, "'late'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_job_would_refuse(case: str) -> None:
    given, kind, named = REFUSED[case]
    arguments: dict[str, Any] = {"key": "user", "input_type": INPUT, "output_type": OUTPUT, **given}
    with pytest.raises(kind) as refused:
        KeyedOneInputStreamOperatorTestHarness(Total(), **arguments)
    assert re.search(named, str(refused.value))


def test_importing_it_needs_nothing_of_tests_or_spark() -> None:
    code = "import sys, state_engine.testing as t; print(*({'pytest', 'hypothesis', 'pyspark'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == ""
