"""Tests a function of two inputs without Spark: Flink's `KeyedTwoInputStreamOperatorTestHarness`."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from state_engine.api.co_functions import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from state_engine.api.descriptors import check_name
from state_engine.api.functions import Function
from state_engine.api.output_tag import OutputTag, columns_type
from state_engine.api.state_backend import StateBackend
from state_engine.backends.time import NO_WATERMARK
from state_engine.errors import JobDefinitionError
from state_engine.key_groups import check_parallelism
from state_engine.runtime.co_adapters import CoFlatMapAdapter, CoMapAdapter
from state_engine.runtime.declared.joins import Join
from state_engine.runtime.outputs import side_output_columns
from state_engine.runtime.spec import OperatorSpec, key_columns
from state_engine.runtime.two_inputs import KeyedInput, TwoInputs, two_inputs
from state_engine.serialization.convert import ValueTypeError, writer
from state_engine.serialization.rows import write_columns
from state_engine.testing.harness_base import OperatorTestHarness, subtasks_of
from state_engine.testing.operator_records import RecordRouter, unfit


class TwoInputHarness(OperatorTestHarness):
    """Base of the harnesses for operators with two inputs.

    Args:
        spec: The operator.
        parallelism: Its parallelism.
        subtasks: The subtasks to run.
        router: Routes the records of both inputs to them.
        state_backend: Where they keep keyed state.
    """

    def __init__(
        self,
        spec: OperatorSpec,
        parallelism: int,
        subtasks: Sequence[int],
        router: RecordRouter,
        state_backend: StateBackend | str = "heap",
    ) -> None:
        super().__init__(spec, parallelism, subtasks, router, state_backend)
        self._watermarks = [NO_WATERMARK, NO_WATERMARK]

    def process_element1(self, record: Any, timestamp: int | None = None) -> None:
        """Processes one record of input 1, as an epoch of its own; see `process_elements`."""
        self.process_elements([(1, record)], None if timestamp is None else [timestamp])

    def process_element2(self, record: Any, timestamp: int | None = None) -> None:
        """Processes one record of input 2, as an epoch of its own; see `process_elements`."""
        self.process_elements([(2, record)], None if timestamp is None else [timestamp])

    def process_elements(
        self, records: Iterable[tuple[int, Any]], timestamps: Sequence[int | None] | None = None
    ) -> None:
        """Processes records of both inputs as one epoch, and seals it. Due timers fire first.

        Args:
            records: Pairs of an input, 1 or 2, and a record: a dict, tuple, `Row` or dataclass. The records of a
                subtask keep their order.
            timestamps: Their event times in ms. As in a job, a subtask then gets its records in this order.

        Raises:
            UserFunctionError: The function raised.
            OutputTypeError: It returned a row that does not fit the declared output.
            StateTypeChangedError: It put a value into a state that does not fit the state's type.
            RoutingError: The key of a record belongs to a subtask that this harness does not run.
            TypeError: A record does not fit the columns of its input.
            ValueError: An input is neither 1 nor 2, or there are more or fewer timestamps than records.
        """
        self._run(records, timestamps)

    def process_watermark1(self, ms: int) -> None:
        """Moves the watermark of input 1, and runs an epoch without records. The operator's is the lesser of both.

        Raises:
            ValueError: The watermark would go back.
            UserFunctionError, OutputTypeError, StateTypeChangedError: As `process_elements` raises them.
        """
        self._watermark(0, ms)

    def process_watermark2(self, ms: int) -> None:
        """Moves the watermark of input 2, as `process_watermark1` does that of input 1."""
        self._watermark(1, ms)

    def process_both_watermarks(self, ms: int) -> None:
        """Moves the watermarks of both inputs, as `process_watermark1` does."""
        self._watermarks = [max(ms, held) for held in self._watermarks]
        self._move_watermark(ms)

    def _watermark(self, input_: int, ms: int) -> None:
        held = max(self._watermarks[input_], self._instances.watermark)  # after a restore only the operator's is known
        if ms < held:
            raise ValueError(f"The watermark of input {input_ + 1} is {held} and cannot go back to {ms}.")
        self._watermarks[input_] = ms
        self._move_watermark(max(min(self._watermarks), self._instances.watermark))


class KeyedTwoInputStreamOperatorTestHarness(TwoInputHarness):
    """Runs one operator with two inputs; otherwise as `KeyedOneInputStreamOperatorTestHarness`.

    Args:
        function: A `KeyedCoProcessFunction`, or without key columns a `CoProcessFunction`. A `CoMapFunction` or a
            `CoFlatMapFunction` works with and without key columns.
        key1: Names of the key columns of input 1; empty for a function without key.
        key2: Names of the key columns of input 2.
        input_type1: Columns of the records of input 1: DDL, `Types.ROW_NAMED` or a dataclass.
        input_type2: Columns of the records of input 2.
        output_type: Columns of the rows that the function returns.
        parallelism: Number of subtasks.
        max_parallelism: Number of key groups.
        subtask: The only subtask to run; records with keys of other subtasks are refused.
        side_outputs: Tags, with columns, of the side outputs to collect; rows for other tags are dropped.
        uid: Name of the operator, in messages and in snapshots.
        parameters: Job parameters.
        state_backend: Where keyed state is kept: `heap`, `rocksdb`, or an instance of `HashMapStateBackend` or
            `EmbeddedRocksDBStateBackend`, as in a job. Snapshots do not depend on it.

    Raises:
        JobDefinitionError: A job with these arguments would be refused when it is built.
    """

    def __init__(
        self,
        function: Function,
        key1: str | Sequence[str],
        key2: str | Sequence[str],
        input_type1: Any,
        input_type2: Any,
        output_type: Any,
        *,
        parallelism: int = 1,
        max_parallelism: int = 128,
        subtask: int | None = None,
        side_outputs: Sequence[OutputTag] = (),
        uid: str = "operator",
        parameters: dict[str, str] | None = None,
        state_backend: StateBackend | str = "heap",
    ) -> None:
        first, second = _input(input_type1, key1, 1), _input(input_type2, key2, 2)
        check_parallelism(parallelism, max_parallelism)
        two = two_inputs(first, second)
        spec = OperatorSpec(
            uid=check_name(uid, "an operator"),
            kind="keyed_co_process" if first.key else "co_process",
            function=_adapted(function, keyed=bool(first.key)),
            input=two.columns,
            key=key_columns(two.columns, first.key),
            order_by=(),
            output=columns_type(output_type, f"operator {uid!r}"),
            side_outputs={tag.tag_id: side_output_columns(tag) for tag in side_outputs},
            max_parallelism=max_parallelism,
            parameters=parameters or {},
            two_inputs=two,
        )
        subtasks = subtasks_of(subtask, parallelism)
        super().__init__(spec, parallelism, subtasks, TwoInputRouter(spec, two, parallelism, subtasks), state_backend)


class TwoInputRouter(RecordRouter):
    """Converts pairs of input and record to the shared columns of both inputs, in the order of the pairs."""

    def __init__(self, spec: OperatorSpec, two: TwoInputs, parallelism: int, subtasks: Sequence[int]) -> None:
        super().__init__(spec, parallelism, subtasks)
        self._two = two

    def _columns(self, records: list[Any]) -> pa.RecordBatch:
        inputs = np.array([input_ for input_, _ in records], dtype=np.int8)
        if invalid := set(inputs.tolist()) - {1, 2}:
            raise ValueError(f"There is no input {min(invalid)}; give pairs of 1 or 2 and a record.")
        arrays = {n: self._of_input(n, [record for input_, record in records if input_ == n]) for n in (1, 2)}
        # The position of each record when all records of input 1 come first, then all of input 2.
        places = np.argsort(np.argsort(inputs, kind="stable"), kind="stable")
        columns = [self._shared(place, arrays).take(pa.array(places)) for place in range(len(self._two.columns.names))]
        columns[-1] = pa.array(inputs)
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _of_input(self, input_: int, records: list[Any]) -> tuple[int, list[Any]]:
        struct = self._two.first if input_ == 1 else self._two.second
        try:
            return len(records), write_columns(records, struct, [writer(t) for t in struct.types])
        except ValueTypeError as error:
            raise unfit(records, struct, error) from None

    def _shared(self, place: int, arrays: dict[int, tuple[int, list[Any]]]) -> Any:
        parts: list[Any] = []
        type_: Any = self._schema.types[place]
        for input_, (count, columns) in arrays.items():
            column = self._two.column_of(input_, place)
            parts.append(pa.nulls(count, type_) if column is None else columns[column])
        return pa.concat_arrays(parts)


def _input(input_type: Any, key: str | Sequence[str], number: int) -> KeyedInput:
    columns, names = columns_type(input_type, f"input {number}"), (key,) if isinstance(key, str) else tuple(key)
    key_columns(columns, names)
    return KeyedInput(columns, names)


def _adapted(function: Function, *, keyed: bool) -> Function:
    if isinstance(function, CoMapFunction):
        return CoMapAdapter(function)
    if isinstance(function, CoFlatMapFunction):
        return CoFlatMapAdapter(function)
    if isinstance(function, Join):
        return function
    expected = KeyedCoProcessFunction if keyed else CoProcessFunction
    if not isinstance(function, expected):
        raise JobDefinitionError(
            f"A harness with two inputs {'with' if keyed else 'without'} key columns got a {type(function).__name__}.",
            action=f"Give a {expected.__name__}, or {'no' if keyed else 'the'} key columns.",
        )
    return function


__all__ = ["KeyedTwoInputStreamOperatorTestHarness", "TwoInputHarness", "TwoInputRouter"]
