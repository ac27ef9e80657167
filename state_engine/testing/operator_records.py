"""Converts the records of a test to columns, and columns of output to rows, as a job does."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from state_engine.api.types import StructType
from state_engine.backends.keys import KeyCodec
from state_engine.backends.time import NO_WATERMARK
from state_engine.errors import RoutingError
from state_engine.iterating import whole
from state_engine.key_groups import range_of, subtask_of
from state_engine.runtime.emitted import EVENT_TIME
from state_engine.runtime.outputs import MAIN
from state_engine.runtime.spec import OperatorSpec
from state_engine.serialization.convert import ValueTypeError, reader, writer
from state_engine.serialization.rows import row_maker, write_columns
from state_engine.serialization.types import schema_of


class RecordRouter:
    """Converts records to columns, and gives each subtask its own: E2, without Spark.

    Args:
        spec: The operator.
        parallelism: Its parallelism.
        subtasks: The subtasks to run.
    """

    def __init__(self, spec: OperatorSpec, parallelism: int, subtasks: Sequence[int]) -> None:
        self._spec = spec
        self._parallelism = parallelism
        self._subtasks = subtasks
        self._schema = schema_of(spec.input)
        self._writers = [writer(t) for t in spec.input.types]
        self._codec = KeyCodec(spec.key, spec.max_parallelism) if spec.key else None
        self._routed = 0

    def route(self, records: Iterable[Any], timestamps: Sequence[int | None] | None = None) -> list[pa.RecordBatch]:
        """Returns one batch per subtask of this harness.

        Args:
            records: The records.
            timestamps: Their event times; the records of a subtask are then sorted by them, as Spark sorts them.

        Raises:
            TypeError: A record does not fit the input columns.
            RoutingError: A record belongs to another subtask.
            ValueError: There are more or fewer timestamps than records.
        """
        listed = list(whole(records))
        batch = self._in_columns(listed, timestamps)
        if self._codec is None:
            owners = self._in_turn(len(listed))
        else:
            keys = self._codec.read([batch.column(column.name) for column in self._spec.key])
            groups = list(map(self._codec.key_group, keys))
            owners = np.array([subtask_of(g, self._parallelism, self._spec.max_parallelism) for g in groups])
            for key, group, owner in zip(keys, groups, owners.tolist(), strict=True):
                if owner not in self._subtasks:
                    raise self._strange(key, group, owner)
        return [batch.take(np.flatnonzero(owners == subtask)) for subtask in self._subtasks]

    def _in_columns(self, records: list[Any], timestamps: Sequence[int | None] | None) -> pa.RecordBatch:
        batch = self._columns(records)
        return batch if timestamps is None else _in_order(batch, timestamps)

    def _columns(self, records: list[Any]) -> pa.RecordBatch:
        try:
            arrays = write_columns(records, self._spec.input, self._writers)
        except ValueTypeError as error:
            raise unfit(records, self._spec.input, error) from None
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _in_turn(self, count: int) -> "np.ndarray[Any, Any]":
        """Returns the subtasks of records without key: the subtasks of this harness in turn."""
        numbers = np.arange(self._routed, self._routed + count) % len(self._subtasks)
        self._routed += count
        owners: np.ndarray[Any, Any] = np.asarray(self._subtasks)[numbers]
        return owners

    def _strange(self, key: Any, group: int, owner: int) -> RoutingError:
        subtask = self._subtasks[0]
        first, last = range_of(subtask, self._parallelism, self._spec.max_parallelism)
        return RoutingError(
            f"The key {key!r} is in key group {group}, which belongs to subtask {owner} of {self._parallelism}; this "
            f"harness runs subtask {subtask} (key groups {first} to {last}).",
            action=f"Give the record to a harness with subtask={owner}, or omit subtask=, so that this one runs all.",
        )


def unfit(records: Sequence[Any], struct: StructType, error: ValueTypeError) -> TypeError:
    """Returns the error for a record that does not fit its input."""
    where = f"field {error.path!r}: " if error.path else ""
    return TypeError(f"The record {records[error.index]!r} is not {struct.ddl()}: {where}{error}.")


def _in_order(batch: pa.RecordBatch, timestamps: Sequence[int | None]) -> pa.RecordBatch:
    """Adds event times and sorts by them. Records without one come first; records of one time keep their order."""
    if len(timestamps) != batch.num_rows:
        raise ValueError(f"There are {len(timestamps)} timestamps for {batch.num_rows} records.")
    order = sorted(range(len(timestamps)), key=lambda n: NO_WATERMARK if (t := timestamps[n]) is None else t)
    return batch.append_column(EVENT_TIME, pa.array(timestamps, pa.int64())).take(pa.array(order, pa.int64()))


class CollectedOutput:
    """All rows that an operator emitted, output by output."""

    def __init__(self, spec: OperatorSpec) -> None:
        self._structs: dict[str, StructType] = {MAIN: spec.output, **spec.side_outputs}
        self._batches: dict[str, list[pa.RecordBatch]] = {}
        self.clear()

    def clear(self) -> None:
        """Discards the rows."""
        self._batches = {output: [] for output in self._structs}

    def add(self, batches: dict[str, pa.RecordBatch]) -> None:
        """Adds what an operator emitted."""
        for output, batch in batches.items():
            self._batches[output].append(batch)

    def table(self, output: str) -> pa.Table:
        """Returns the rows of an output as columns.

        Raises:
            KeyError: This output is not collected.
        """
        if output not in self._structs:
            declared = sorted(set(self._structs) - {MAIN})
            raise KeyError(f"The side output {output!r} is not collected; side_outputs has {declared}.")
        return pa.Table.from_batches(self._batches[output], schema=schema_of(self._structs[output]))

    def values(self, output: str) -> list[Any]:
        """Returns the rows of an output as tuples, or as dataclasses if its type is one."""
        table, struct = self.table(output), self._structs[output]
        columns = [reader(t)(column) for t, column in zip(struct.types, table.columns, strict=True)]
        return list(zip(*columns, strict=True)) if struct.carrier is None else list(map(row_maker(struct), *columns))


__all__ = ["CollectedOutput", "RecordRouter", "unfit"]
