"""Tests a function without Spark and without a JVM: Flink's `KeyedOneInputStreamOperatorTestHarness`.

It runs what a task runs: `runtime.Operator` over a state backend, Arrow in and out. Two things differ: the log is kept
in memory, and Spark does not route the records.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from state_engine.api.descriptors import check_name
from state_engine.api.functions import Function, KeyedBatchProcessFunction, KeyedProcessFunction, ProcessFunction
from state_engine.api.output_tag import OutputTag, columns_type
from state_engine.api.state_backend import StateBackend
from state_engine.api.watermarks import WatermarkStrategy
from state_engine.errors import JobDefinitionError
from state_engine.key_groups import check_parallelism
from state_engine.runtime.adapters import Adapter
from state_engine.runtime.outputs import side_output_columns
from state_engine.runtime.spec import OperatorSpec, key_columns
from state_engine.testing.harness_base import OperatorTestHarness, subtasks_of
from state_engine.testing.operator_records import RecordRouter


class KeyedOneInputStreamOperatorTestHarness(OperatorTestHarness):
    """Runs one operator with all its subtasks, or with one of them, in the process of the test.

    Each call of `process_element` or `process_elements` is one epoch: it processes the records, then freezes and seals
    the changes. If it fails, nothing of the epoch is kept. The next call then starts new instances from the last
    sealed epoch, as a restarted job does. Every instance runs a copy of the function, as in a worker.

    Args:
        function: A `KeyedProcessFunction`, or without key columns a `ProcessFunction`.
        key: Names of the key columns; empty for a `ProcessFunction`.
        input_type: Columns of the records: DDL (`a int, b string`), `Types.ROW_NAMED` or a dataclass. The function
            then gets instances of the dataclass, as it does downstream of an operator with that output type.
        output_type: Columns of the rows that the function returns.
        parallelism: Number of subtasks.
        max_parallelism: Number of key groups.
        subtask: The only subtask to run; records with keys of other subtasks are refused. Without it all subtasks run,
            and each gets its records.
        side_outputs: Tags, with columns, of the side outputs to collect; rows for other tags are dropped.
        uid: Name of the operator, in messages and in snapshots.
        parameters: Job parameters.
        state_backend: Where keyed state is kept: `heap`, `rocksdb`, or an instance of `HashMapStateBackend` or
            `EmbeddedRocksDBStateBackend`, as in a job. Snapshots do not depend on it.
        watermark_strategy: The strategy of a job's only source. The watermark then follows the timestamps of the
            records, and `process_watermark` is needed only to move it to the end. Without a strategy only
            `process_watermark` moves it.

    Raises:
        JobDefinitionError: A job with these arguments would be refused when it is built.
    """

    def __init__(
        self,
        function: Function,
        key: str | Sequence[str],
        input_type: Any,
        output_type: Any,
        *,
        parallelism: int = 1,
        max_parallelism: int = 128,
        subtask: int | None = None,
        side_outputs: Sequence[OutputTag] = (),
        uid: str = "operator",
        parameters: dict[str, str] | None = None,
        state_backend: StateBackend | str = "heap",
        watermark_strategy: WatermarkStrategy | None = None,
    ) -> None:
        names = (key,) if isinstance(key, str) else tuple(key)
        _check_function(function, names)
        check_parallelism(parallelism, max_parallelism)
        columns = columns_type(input_type, "the input")
        spec = OperatorSpec(
            uid=check_name(uid, "an operator"),
            kind="keyed_process" if names else "process",
            function=function,
            input=columns,
            key=key_columns(columns, names),
            order_by=(),
            output=columns_type(output_type, f"operator {uid!r}"),
            side_outputs={tag.tag_id: side_output_columns(tag) for tag in side_outputs},
            max_parallelism=max_parallelism,
            parameters=parameters or {},
            out_of_orderness=watermark_strategy.out_of_orderness if watermark_strategy is not None else None,
        )
        subtasks = subtasks_of(subtask, parallelism)
        super().__init__(spec, parallelism, subtasks, RecordRouter(spec, parallelism, subtasks), state_backend)

    def process_element(self, record: Any, timestamp: int | None = None) -> None:
        """Processes one record, as an epoch of its own; see `process_elements`."""
        self.process_elements([record], None if timestamp is None else [timestamp])

    def process_elements(self, records: Iterable[Any], timestamps: Sequence[int | None] | None = None) -> None:
        """Processes records as one epoch, and seals it. Due timers fire first.

        Args:
            records: Dicts, tuples, `Row`s or dataclasses. The records of a subtask keep their order.
            timestamps: Their event times in ms. As in a job, a subtask then gets its records in this order.

        Raises:
            UserFunctionError: The function raised.
            OutputTypeError: It returned a row that does not fit the declared output.
            StateTypeChangedError: It put a value into a state that does not fit the state's type.
            RoutingError: The key of a record belongs to a subtask that this harness does not run.
            TypeError: A record does not fit `input_type`.
            ValueError: There are more or fewer timestamps than records.
        """
        self._run(records, timestamps)

    def process_watermark(self, ms: int) -> None:
        """Moves the watermark, and runs an epoch without records: event-time timers up to it fire.

        After a restore the watermark continues from that of the snapshot. Later records at or below it are late.

        Raises:
            ValueError: The watermark would go back.
            UserFunctionError, OutputTypeError, StateTypeChangedError: As `process_elements` raises them.
        """
        self._move_watermark(ms)


def _check_function(function: Function, key: Sequence[str]) -> None:
    expected = KeyedProcessFunction if key else ProcessFunction
    if key and isinstance(function, KeyedBatchProcessFunction):
        return
    if not isinstance(function, (expected, Adapter)):
        raise JobDefinitionError(
            f"A harness {'with' if key else 'without'} key columns got a {type(function).__name__}.",
            action=f"Give a {expected.__name__}, or {'no' if key else 'the'} key columns.",
        )


__all__ = ["KeyedOneInputStreamOperatorTestHarness"]
