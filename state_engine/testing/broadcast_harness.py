"""Tests a broadcast function without Spark: Flink's `KeyedBroadcastOperatorTestHarness`."""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from state_engine.api.broadcast import BaseBroadcastProcessFunction
from state_engine.api.descriptors import MapStateDescriptor, check_name
from state_engine.api.output_tag import OutputTag, columns_type
from state_engine.api.state_backend import StateBackend
from state_engine.iterating import whole
from state_engine.key_groups import check_parallelism
from state_engine.runtime.broadcast_operator import check_broadcast_function
from state_engine.runtime.outputs import side_output_columns
from state_engine.runtime.spec import OperatorSpec, key_columns
from state_engine.runtime.two_inputs import KeyedInput, with_broadcast
from state_engine.testing.harness_base import subtasks_of
from state_engine.testing.two_input_harness import TwoInputHarness, TwoInputRouter


class KeyedBroadcastOperatorTestHarness(TwoInputHarness):
    """Runs one operator with a broadcast stream: input 2 is broadcast to every subtask.

    Within an epoch the broadcast elements come before the records. Otherwise it works as
    `KeyedTwoInputStreamOperatorTestHarness`.

    Args:
        function: A `KeyedBroadcastProcessFunction`, or without key columns a `BroadcastProcessFunction`.
        key: Names of the key columns of input 1; empty for a function without key.
        input_type: Columns of the records: DDL, `Types.ROW_NAMED` or a dataclass.
        broadcast_type: Columns of the broadcast elements.
        output_type: Columns of the rows that the function returns.
        descriptors: Descriptors of the broadcast states.
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
        function: BaseBroadcastProcessFunction,
        key: str | Sequence[str],
        input_type: Any,
        broadcast_type: Any,
        output_type: Any,
        descriptors: Sequence[MapStateDescriptor],
        *,
        parallelism: int = 1,
        max_parallelism: int = 128,
        subtask: int | None = None,
        side_outputs: Sequence[OutputTag] = (),
        uid: str = "operator",
        parameters: dict[str, str] | None = None,
        state_backend: StateBackend | str = "heap",
    ) -> None:
        names = (key,) if isinstance(key, str) else tuple(key)
        check_broadcast_function(function, keyed=bool(names))
        check_parallelism(parallelism, max_parallelism)
        columns = columns_type(input_type, "the input")
        two = with_broadcast(KeyedInput(columns, names), columns_type(broadcast_type, "the broadcast input"))
        spec = OperatorSpec(
            uid=check_name(uid, "an operator"),
            kind="keyed_broadcast_process" if names else "broadcast_process",
            function=function,
            input=two.columns,
            key=key_columns(columns, names),
            order_by=(),
            output=columns_type(output_type, f"operator {uid!r}"),
            side_outputs={tag.tag_id: side_output_columns(tag) for tag in side_outputs},
            max_parallelism=max_parallelism,
            parameters=parameters or {},
            two_inputs=two,
            broadcast=tuple(descriptors),
        )
        subtasks = subtasks_of(subtask, parallelism)
        super().__init__(spec, parallelism, subtasks, _BroadcastRouter(spec, two, parallelism, subtasks), state_backend)

    def process_element(self, record: Any, timestamp: int | None = None) -> None:
        """Processes one record, as an epoch of its own; see `process_elements`."""
        self.process_element1(record, timestamp)

    def process_broadcast_element(self, element: Any, timestamp: int | None = None) -> None:
        """Processes one broadcast element in every subtask, as an epoch of its own."""
        self.process_element2(element, timestamp)

    def process_watermark(self, ms: int) -> None:
        """Moves the watermark of the records, as `process_watermark1`."""
        self.process_watermark1(ms)

    def process_broadcast_watermark(self, ms: int) -> None:
        """Moves the watermark of the broadcast elements, as `process_watermark2`."""
        self.process_watermark2(ms)


class _BroadcastRouter(TwoInputRouter):
    """Gives each subtask all broadcast elements, followed by its own records."""

    def route(self, records: Iterable[Any], timestamps: Sequence[int | None] | None = None) -> list[pa.RecordBatch]:
        listed = list(whole(records))
        times = None if timestamps is None else list(timestamps)
        if times is not None and len(times) != len(listed):
            raise ValueError(f"There are {len(times)} timestamps for {len(listed)} records.")
        parts: list[tuple[list[Any], list[int | None] | None]] = []
        for broadcast in (True, False):
            positions = [n for n, (input_, _) in enumerate(listed) if (input_ == 2) == broadcast]
            parts.append(([listed[n] for n in positions], None if times is None else [times[n] for n in positions]))
        elements = self._in_columns(*parts[0])
        return [_together(elements, of_subtask) for of_subtask in super().route(*parts[1])]


def _together(*parts: pa.RecordBatch) -> pa.RecordBatch:
    columns: list[Any] = [pa.concat_arrays(arrays) for arrays in zip(*(part.columns for part in parts), strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=parts[0].schema)


__all__ = ["KeyedBroadcastOperatorTestHarness"]
