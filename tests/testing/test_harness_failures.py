"""The harness: failures have the names that the driver of a job would give them, and leave no changes."""

import threading
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from state_engine.api import (
    KeyedProcessFunction,
    ListStateDescriptor,
    OutputTag,
    RuntimeContext,
    Types,
    ValueStateDescriptor,
)
from state_engine.errors import (
    DuplicateStateError,
    JobDefinitionError,
    LakestateError,
    OutputTypeError,
    StateTypeChangedError,
    UserFunctionError,
)
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness


class Calling(KeyedProcessFunction):
    """Counts the records of a key, then calls `then`."""

    def __init__(self, then: Callable[[Any, Any], Any]) -> None:
        self.then = then

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        self.count.update((self.count.value() or 0) + 1)
        return self.then(self, value) or [(value.k, self.count.value())]


def calling(then: Callable[[Any, Any], Any], **given: Any) -> KeyedOneInputStreamOperatorTestHarness:
    return KeyedOneInputStreamOperatorTestHarness(Calling(then), "k", "k string, n int", "k string, n int", **given)


LATE = OutputTag("late", "n tinyint")
WRONG: dict[str, tuple[Callable[[Any, Any], Any], type[LakestateError], list[str]]] = {
    "it raises": (
        lambda f, r: 1 // r.n and None,
        UserFunctionError,
        ["ZeroDivisionError", "Key: 'bad'", "Record: Row(k='bad', n=0)", "1 // r.n", "in epoch 2"],
    ),
    "a wrong row": (
        lambda f, r: None if r.n else [(r.k, "one")],
        OutputTypeError,
        ["'main'", "field 'n': 'one' (str) is not int", "Record: ('bad', 'one')"],
    ),
    "a wrong row of a side output": (
        lambda f, r: None if r.n else [(LATE, (300,))],
        OutputTypeError,
        ["'late'", "300 (int) is not tinyint"],
    ),
    "a wrong value in a state": (
        lambda f, r: None if r.n else [(r.k, f.count.update(1 << 40))],
        StateTypeChangedError,
        ["state 'count'", "under key 'bad'", "1099511627776"],
    ),
}


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("case", WRONG)
def test_errors_have_the_drivers_names(case: str, parallelism: int) -> None:
    then, kind, named = WRONG[case]
    with calling(then, side_outputs=[LATE], uid="op", parallelism=parallelism) as harness:
        harness.process_elements([("a", 1), ("bad", 1)])
        before = harness.snapshot().states(), harness.extract_output_values()
        with pytest.raises(kind) as failed:
            harness.process_elements([("a", 1), ("b", 1), ("c", 1), ("bad", 0)])
        for text in ["Operator 'op'", *named]:
            assert text in str(failed.value)
        assert failed.value.action
        assert (harness.snapshot().states(), harness.extract_output_values()) == before


def test_what_comes_after_a_failure_goes_on_from_what_was_sealed() -> None:
    with calling(lambda f, r: 1 // r.n and None) as harness:
        harness.process_elements([("a", 1), ("a", 1)])
        with pytest.raises(UserFunctionError):
            harness.process_elements([("a", 1), ("a", 0)])
        harness.process_element(("a", 1))
        assert harness.extract_output_values()[-1] == ("a", 3)


def test_the_error_knows_its_cause() -> None:
    with calling(lambda f, r: 1 // r.n) as harness, pytest.raises(UserFunctionError) as failed:
        harness.process_element(("a", 0))
    assert isinstance(failed.value.__cause__, ZeroDivisionError)


def test_an_open_that_raises() -> None:
    class Closed(Calling):
        def open(self, runtime_context: RuntimeContext) -> None:
            raise OSError("no such host")

    harness = KeyedOneInputStreamOperatorTestHarness(Closed(lambda f, r: None), "k", "k string", "k string")
    with pytest.raises(UserFunctionError, match=r"open\(\) raised OSError: no such host"):
        harness.open()
    assert harness.functions == ()


def test_one_name_with_two_types() -> None:
    class Twice(Calling):
        def open(self, runtime_context: RuntimeContext) -> None:
            super().open(runtime_context)
            runtime_context.get_list_state(ListStateDescriptor("count", Types.INT()))

    with pytest.raises(DuplicateStateError, match="'count'"):
        KeyedOneInputStreamOperatorTestHarness(Twice(lambda f, r: None), "k", "k string", "k string")


def test_a_state_that_is_used_in_open() -> None:
    class Hasty(Calling):
        def open(self, runtime_context: RuntimeContext) -> None:
            super().open(runtime_context)
            self.count.value()

    with pytest.raises(JobDefinitionError, match=r"value\(\) was called on a state inside open"):
        KeyedOneInputStreamOperatorTestHarness(Hasty(lambda f, r: None), "k", "k string", "k string")


def test_a_function_that_no_worker_could_get() -> None:
    function = Calling(lambda f, r: None)
    function.lock = threading.Lock()  # type: ignore[attr-defined]
    with pytest.raises(JobDefinitionError, match="cannot be sent to a worker"):
        KeyedOneInputStreamOperatorTestHarness(function, "k", "k string", "k string")


def test_a_close_that_raises_is_heard() -> None:
    class Leaving(Calling):
        def close(self) -> None:
            raise OSError("was open twice")

    harness = KeyedOneInputStreamOperatorTestHarness(Leaving(lambda f, r: None), "k", "k string, n int", "k string")
    harness.open()
    with pytest.raises(OSError, match="was open twice"):
        harness.close()
