"""Calls a function that takes whole batches, and checks the batches that it returns."""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.descriptors import StateDescriptor
from state_engine.api.functions import Function, KeyedBatchProcessFunction
from state_engine.api.keys import Keys
from state_engine.api.output_tag import OutputTag
from state_engine.api.timers import TimeDomain
from state_engine.api.types import holds_codec
from state_engine.backends.batch_keys import EntryKeys, NamespacedKeys
from state_engine.backends.keys import KeyCodec, split_entry
from state_engine.backends.layout import Layout
from state_engine.backends.shapes.column_timers import in_order
from state_engine.errors import JobDefinitionError
from state_engine.iterating import whole
from state_engine.runtime.declared.base import Declared, FiresTogether, local_of, wants_all
from state_engine.runtime.declared.local import is_partial
from state_engine.runtime.emitted import EVENT_TIME
from state_engine.runtime.outputs import MAIN, OutputValueError
from state_engine.runtime.spec import OperatorSpec
from state_engine.serialization.types import schema_of

ENOUGH_BYTES = 64 << 20
"""A function gets at least this many bytes in a call, or the whole epoch: reading a key's state once costs least."""
TIMERS_AT_ONCE = 1 << 20
"""The largest number of timers that a function gets in one call."""


def takes_timers_together(function: Any) -> bool:
    """Returns whether a function gets all due timers together, as columns."""
    return isinstance(function, FiresTogether) or (
        isinstance(function, KeyedBatchProcessFunction) and _has(function, "on_timers")
    )


def check_timer_methods(function: Any) -> None:
    """Checks that a function has only one method for timers.

    Raises:
        JobDefinitionError: It has both.
    """
    if isinstance(function, KeyedBatchProcessFunction) and _has(function, "on_timer") and _has(function, "on_timers"):
        raise JobDefinitionError(
            f"{type(function).__name__} has on_timer and on_timers: its timers cannot go to both.",
            action="Remove one of them. on_timers gets many timers at once, on_timer one by one.",
        )


def _has(function: Any, method: str) -> bool:
    return getattr(type(function), method) is not getattr(KeyedBatchProcessFunction, method)


def layout_of(function: Function, descriptor: StateDescriptor) -> Layout:
    """Returns how a function over batches will access a state.

    Raises:
        JobDefinitionError: It gets its timers together, and the state has a time to live in event time.
    """
    if isinstance(function, Declared):
        return function.layout_of(descriptor)
    if takes_timers_together(function) and descriptor.expires_in_event_time:
        raise JobDefinitionError(
            f"State {descriptor.name!r} of {type(function).__name__} has a time to live in event time, and its "
            "timers go to on_timers. Each timer would have to see the state as it was at the timer's own time.",
            action="Use processing time, which is one per epoch, or on_timer instead of on_timers.",
        )
    # `on_timer` uses the row methods of states; and values with an author's codec are read one by one.
    by_rows = _has(function, "on_timer") or holds_codec(descriptor.type_info)
    return Layout.ENTRIES if by_rows else Layout.COLUMNS


class BatchCall:
    """Prepares the arguments of a function over batches, and checks what the function returns.

    Args:
        spec: The operator.
        key_positions: Positions of the key columns in the input.
        codec: Reads and writes its keys.

    Attributes:
        latest: The largest event time of the epoch's records that the function has got; None without one.
    """

    def __init__(self, spec: OperatorSpec, key_positions: list[int], codec: KeyCodec) -> None:
        self._of_records = self._of_partials = schema_of(spec.input), key_positions
        if (local := local_of(spec.function)) is not None:
            self._of_partials = schema_of(local.columns), list(range(len(key_positions)))
        self._codec = codec
        self._declared = isinstance(spec.function, Declared)
        check_timer_methods(spec.function)
        outputs = {MAIN: spec.output, **spec.side_outputs}
        self._schemas = {output: schema_of(columns) for output, columns in outputs.items()}
        self._timed = {MAIN, *spec.timed_side_outputs} if spec.emits_event_time else set()
        self._enough = math.inf if wants_all(spec.function) else ENOUGH_BYTES
        self.begin()

    def begin(self) -> None:
        """Starts an epoch."""
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0
        self.latest: int | None = None

    def waits_with(self, batch: pa.RecordBatch) -> bool:
        """Takes a batch of the exchange; returns whether to wait for more before the function is called."""
        if batch.num_rows:  # without records the function is not called
            self._waiting.append(batch)
            self._bytes += batch.nbytes
        return self._bytes < self._enough

    def taken(self) -> pa.RecordBatch | None:
        """Returns all waiting records as one batch, and no longer holds them; None if there are none."""
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        return joined(waiting) if waiting else None

    def records(self, batch: pa.RecordBatch) -> tuple[Keys, pa.RecordBatch]:
        """Returns the keys and the records (or partials) of a batch of the exchange."""
        schema, positions = self._of_partials if is_partial(batch) else self._of_records
        count = len(schema)
        columns = [array.cast(field.type) for array, field in zip(batch.columns, schema, strict=False)]
        times = batch.column(count) if batch.num_columns > count else None
        if times is not None and (latest := pc.max(times).as_py()) is not None:
            self.latest = latest if self.latest is None else max(self.latest, latest)
        keys = Keys([columns[position] for position in positions], self._codec.read, times)
        return keys, pa.RecordBatch.from_arrays(columns, schema=schema)

    def timers(self, keys: Keys, domain: TimeDomain) -> "Iterator[tuple[Keys, pa.Array[Any]]]":
        """Yields keys of timers, as the author's function sees them, and the times that the timers were set for."""
        times: Any = keys.times
        if isinstance(keys, EntryKeys):  # timers of one time are in the order of their keys' spelling
            own_keys = Keys(self._codec.write([split_entry(entry)[0] for entry in keys.each]), self._codec.read)
            own_keys = own_keys.take(in_order(np.asarray(times), lambda tied: list(own_keys.take(tied).columns)))
        else:
            own_keys = keys.own.take(keys.of_own) if isinstance(keys, NamespacedKeys) else keys
        own_keys.times = times if domain is TimeDomain.EVENT_TIME else None
        for start in range(0, len(own_keys), TIMERS_AT_ONCE):
            some = np.arange(start, min(start + TIMERS_AT_ONCE, len(own_keys)))
            yield own_keys.take(some) if len(some) < len(own_keys) else own_keys, times.slice(start, len(some))

    def outputs(self, given: Any, keys: Keys) -> dict[str, pa.RecordBatch]:
        """Returns one batch per output that has a reader, from what the function gave.

        Raises:
            OutputValueError: Something is no batch, or its columns are not those that were declared.
        """
        parts: dict[str, list[pa.Table]] = {}
        for item in whole(_listed(given)):
            output, rows = (item[0].tag_id, item[1]) if _is_tagged(item) else (None, item)
            if output is None or (output != MAIN and output in self._schemas):
                table = _table(output or MAIN, rows)
                parts.setdefault(output or MAIN, []).append(table if self._declared else _owned(table))
        batches = {output: self._batches(output, tables, keys) for output, tables in parts.items()}
        return {output: joined(output_batches) for output, output_batches in batches.items() if output_batches}

    def _batches(self, output: str, tables: list[pa.Table], keys: Keys) -> list[pa.RecordBatch]:
        schema = self._schemas[output]
        if output in self._timed:
            schema = schema.append(pa.field(EVENT_TIME, pa.int64()))
            if len(tables) == 1 and tables[0].num_rows == len(keys) and EVENT_TIME not in tables[0].schema.names:
                times = keys.times if keys.times is not None else pa.nulls(len(keys), pa.int64())
                tables = [tables[0].append_column(EVENT_TIME, times)]
        return [batch for table in tables for batch in self._fitted(output, table, schema)]

    def _fitted(self, output: str, rows: pa.Table, schema: pa.Schema) -> list[pa.RecordBatch]:
        """Returns rows as batches of the output's declared columns, or raises OutputValueError."""
        names = set(rows.schema.names)
        if EVENT_TIME in schema.names and EVENT_TIME not in names:
            why = "a downstream operator needs event times: use ctx.timed(rows, times), or give one row per record"
            raise OutputValueError(output, f"{rows.num_rows} rows without event times", why)
        declared = self._schemas[output].names
        if len(rows.schema.names) != len(names) or names - {EVENT_TIME} != set(declared):
            raise OutputValueError(output, rows.schema.names, f"the declared columns are {', '.join(declared)}")
        rows = rows.select(schema.names)
        for field, given in zip(schema, rows.schema, strict=True):
            if field.type != given.type:
                raise OutputValueError(output, given, f"column {field.name!r} was declared {field.type}")
        batches: list[pa.RecordBatch] = rows.cast(schema).combine_chunks().to_batches()
        return batches


def _table(output: str, rows: Any) -> pa.Table:
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if not isinstance(rows, pa.Table):
        raise OutputValueError(output, rows, "no record batch and no table")
    return rows


def _owned(rows: pa.Table) -> pa.Table:
    """Returns a copy of rows: a column may be a NumPy array that its author goes on to change."""
    return pa.concat_tables([rows, rows.schema.empty_table()]).combine_chunks() if rows.num_rows else rows


def _listed(given: Any) -> Iterable[Any]:
    if given is None:
        return ()
    return (given,) if isinstance(given, (pa.RecordBatch, pa.Table)) or _is_tagged(given) else given


def _is_tagged(given: Any) -> bool:
    return type(given) is tuple and len(given) == 2 and isinstance(given[0], OutputTag)


def by_output(given: list[dict[str, pa.RecordBatch]]) -> dict[str, pa.RecordBatch]:
    """Joins the batches that several calls gave into one batch per output."""
    if len(given) == 1:
        return given[0]
    outputs: dict[str, list[pa.RecordBatch]] = {}
    for call_outputs in given:
        for output, batch in call_outputs.items():
            outputs.setdefault(output, []).append(batch)
    return {output: joined(batches) for output, batches in outputs.items()}


def joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Joins batches into one; there must be at least one, with records."""
    whole: Any = pa.Table.from_batches(batches)
    [batch] = whole.combine_chunks().to_batches()
    return batch  # type: ignore[no-any-return]


__all__ = [
    "BatchCall",
    "by_output",
    "check_timer_methods",
    "joined",
    "layout_of",
    "takes_timers_together",
]
