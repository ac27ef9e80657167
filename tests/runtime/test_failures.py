"""The author's code raises: the failure says where, on which key and record, with a traceback."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from state_engine.api import KeyedProcessFunction, ProcessFunction, RuntimeContext, Types, ValueStateDescriptor
from state_engine.errors import DuplicateStateError, JobDefinitionError
from state_engine.log.records import Failure
from state_engine.runtime.failures import OperatorFailure
from state_engine.runtime.operators import operator_of


class Dividing(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        yield value.k, 1 // value.n


class DividingAlone(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any]:
        return [(value.k, 1 // value.n)]


def failure_of(running: Any, *records: tuple[Any, ...]) -> Failure:
    with pytest.raises(OperatorFailure) as failed:
        running.feed(*records)
    return failed.value.failure


def test_key_record_and_traceback(run: Any) -> None:
    failure = failure_of(run(Dividing()), ("a", 1), ("b", 0), ("c", 1))
    assert (failure.kind, failure.uid, failure.subtask) == ("user_function", "op", 0)
    assert (failure.key, failure.record) == ("'b'", "Row(k='b', n=0)")
    assert "process_element() raised ZeroDivisionError" in failure.message
    assert "1 // value.n" in failure.traceback
    assert failure.action


def test_a_null_key_is_a_key(run: Any) -> None:
    failure = failure_of(run(Dividing()), (None, 0))
    assert (failure.key, failure.record) == ("None", "Row(k=None, n=0)")


def test_without_keys(run: Any) -> None:
    failure = failure_of(run(DividingAlone()), ("b", 0))
    assert failure.record == "Row(k='b', n=0)"


def test_long_records_are_cut(run: Any) -> None:
    failure = failure_of(run(Dividing()), ("x" * 10_000, 0))
    assert len(failure.record) == 200
    assert len(failure.key) == 200


def test_a_failure_travels_as_data(run: Any) -> None:
    failure = failure_of(run(Dividing()), ("b", 0))
    assert msgspec.json.decode(msgspec.json.encode(failure), type=Failure) == failure


@pytest.mark.parametrize("returned", [5, True, object()])
def test_something_that_cannot_be_iterated(run: Any, returned: Any) -> None:
    class Wrong(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
            return returned

    failure = failure_of(run(Wrong()), ("a", 1))
    assert "not iterable" in failure.message
    assert failure.action == "Yield rows, or return a list of them: [row] for one row. For no rows, return None."


def test_what_is_not_iterable_inside_the_function_is_the_functions(run: Any) -> None:
    class Wrong(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
            return list(value[1])

    failure = failure_of(run(Wrong()), ("a", 1))
    assert failure.action.startswith("Fix the function")
    assert "_keyed_loop" not in failure.traceback
    assert "return list(value[1])" in failure.traceback


def test_one_row_that_was_returned_bare(run: Any) -> None:
    class Wrong(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
            return value[0], value[1]

    assert failure_of(run(Wrong()), ("a", 1)).action.endswith("[row] for one row.")


def test_stop_iteration_is_no_end_of_records(run: Any) -> None:
    class Stopping(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
            raise StopIteration

    assert "StopIteration" in failure_of(run(Stopping()), ("a", 1)).message


def test_open_that_raises(spec: Any) -> None:
    class Closed(KeyedProcessFunction):
        closed = False

        def open(self, runtime_context: RuntimeContext) -> None:
            raise OSError("no such host")

        def close(self) -> None:
            self.closed = True

        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
            return None

    function = Closed()
    operator = operator_of(spec(function), 0, 1)
    with pytest.raises(OperatorFailure) as failed:
        operator.open()
    failure = failed.value.failure
    assert "open() raised OSError: no such host" in failure.message
    assert "no such host" in failure.traceback
    operator.close()
    assert function.closed, "resources that it took before it failed must be released"


def test_open_that_asks_for_one_name_twice_keeps_its_error(spec: Any) -> None:
    class Twice(KeyedProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_state(ValueStateDescriptor("s", Types.INT()))
            runtime_context.get_state(ValueStateDescriptor("s", Types.STRING()))

        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
            return None

    with pytest.raises(DuplicateStateError, match="'s'"):
        operator_of(spec(Twice()), 0, 1).open()


def test_a_function_without_keys_has_no_keyed_state(spec: Any) -> None:
    class Hoping(ProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_state(ValueStateDescriptor("s", Types.INT()))

        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
            return None

    with pytest.raises(JobDefinitionError, match="'s', but its stream has no key") as refused:
        operator_of(spec(Hoping()), 0, 1).open()
    assert "key_by" in refused.value.action


def test_a_descriptor_of_another_kind_is_refused(spec: Any) -> None:
    class Mixed(KeyedProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            runtime_context.get_map_state(ValueStateDescriptor("s", Types.INT()))  # type: ignore[arg-type]

        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
            return None

    with pytest.raises(JobDefinitionError, match="MapStateDescriptor"):
        operator_of(spec(Mixed()), 0, 1).open()


def test_a_named_error_keeps_its_own_remedy(run: Any) -> None:
    class Refused(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
            raise JobDefinitionError("No.", action="Ask elsewhere.")

    failure = failure_of(run(Refused()), ("a", 1))
    assert (failure.message, failure.action) == ("process_element() raised JobDefinitionError: No.", "Ask elsewhere.")
