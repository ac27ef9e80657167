"""What an operator does with a function that takes whole batches."""

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
"""A function is called with so much, or with all records of the epoch: asked for each key once, states cost least."""
TIMERS_AT_ONCE = 1 << 20
"""A function is handed so many timers at once."""


def takes_timers_together(function: Any) -> bool:
    """Returns whether a function gets the timers that are due together, as columns."""
    return isinstance(function, FiresTogether) or (
        isinstance(function, KeyedBatchProcessFunction) and _has(function, "on_timers")
    )


def check_timer_methods(function: Any) -> None:
    """Checks that timers come to a function in one way.

    Raises:
        JobDefinitionError: It has two.
    """
    if isinstance(function, KeyedBatchProcessFunction) and _has(function, "on_timer") and _has(function, "on_timers"):
        raise JobDefinitionError(
            f"{type(function).__name__} has on_timer and on_timers: its timers cannot come to both.",
            action="Leave out one of them. on_timers gets many timers at once, on_timer one by one.",
        )


def _has(function: Any, method: str) -> bool:
    return getattr(type(function), method) is not getattr(KeyedBatchProcessFunction, method)


def layout_of(function: Function, descriptor: StateDescriptor) -> Layout:
    """Returns how a function over batches will ask a state.

    Raises:
        JobDefinitionError: It gets its timers together, and the state has a time to live in event time.
    """
    if isinstance(function, Declared):
        return function.layout_of(descriptor)
    if takes_timers_together(function) and descriptor.expires_in_event_time:
        raise JobDefinitionError(
            f"State {descriptor.name!r} of {type(function).__name__} has a time to live in event time, and its "
            "timers come to on_timers. Each timer would have to see what was there at its own time.",
            action="Take processing time, of which an epoch has one, or on_timer in place of on_timers.",
        )
    # In `on_timer` a function has row methods; and what an author's codec stores, it reads value by value.
    by_rows = _has(function, "on_timer") or holds_codec(descriptor.type_info)
    return Layout.ENTRIES if by_rows else Layout.COLUMNS


class BatchCall:
    """Calls `process_batch`, and checks what it gives.

    Args:
        spec: The operator.
        key_positions: Which of the input's columns are the key.
        codec: Its keys.

    Attributes:
        latest: The largest event time of the epoch's records that the function was called with; None without one.
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
        """Takes a batch of the exchange; says whether more may come before the function is called."""
        if batch.num_rows:  # without records there is nothing to call the function with
            self._waiting.append(batch)
            self._bytes += batch.nbytes
        return self._bytes < self._enough

    def taken(self) -> pa.RecordBatch | None:
        """Returns all that waits, as one batch, and forgets it; None if nothing does."""
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        return joined(waiting) if waiting else None

    def records(self, batch: pa.RecordBatch) -> tuple[Keys, pa.RecordBatch]:
        """Returns the keys and the records, or partials of them, of a batch of the exchange."""
        schema, positions = self._of_partials if is_partial(batch) else self._of_records
        count = len(schema)
        own = [array.cast(field.type) for array, field in zip(batch.columns, schema, strict=False)]
        times = batch.column(count) if batch.num_columns > count else None
        if times is not None and (latest := pc.max(times).as_py()) is not None:
            self.latest = latest if self.latest is None else max(self.latest, latest)
        keys = Keys([own[position] for position in positions], self._codec.read, times)
        return keys, pa.RecordBatch.from_arrays(own, schema=schema)

    def timers(self, keys: Keys, domain: TimeDomain) -> "Iterator[tuple[Keys, pa.Array[Any]]]":
        """Yields the keys of timers, as their author's function knows them, and what the timers were registered for."""
        times: Any = keys.times
        if isinstance(keys, EntryKeys):  # those of one time stand in the order of their spelling
            own = Keys(self._codec.write([split_entry(entry)[0] for entry in keys.each]), self._codec.read)
            own = own.take(in_order(np.asarray(times), lambda tied: list(own.take(tied).columns)))
        else:
            own = keys.own.take(keys.of_own) if isinstance(keys, NamespacedKeys) else keys
        own.times = times if domain is TimeDomain.EVENT_TIME else None
        for start in range(0, len(own), TIMERS_AT_ONCE):
            some = np.arange(start, min(start + TIMERS_AT_ONCE, len(own)))
            yield own.take(some) if len(some) < len(own) else own, times.slice(start, len(some))

    def outputs(self, given: Any, keys: Keys) -> dict[str, pa.RecordBatch]:
        """Returns one batch per output that somebody reads, of what the function gave.

        Raises:
            OutputValueError: Something is no batch, or its columns are others than those that were declared.
        """
        parts: dict[str, list[pa.Table]] = {}
        for one in whole(_listed(given)):
            output, rows = (one[0].tag_id, one[1]) if _is_tagged(one) else (None, one)
            if output is None or (output != MAIN and output in self._schemas):
                table = _table(output or MAIN, rows)
                parts.setdefault(output or MAIN, []).append(table if self._declared else _owned(table))
        batches = {output: self._batches(output, tables, keys) for output, tables in parts.items()}
        return {output: joined(of_output) for output, of_output in batches.items() if of_output}

    def _batches(self, output: str, tables: list[pa.Table], keys: Keys) -> list[pa.RecordBatch]:
        schema = self._schemas[output]
        if output in self._timed:
            schema = schema.append(pa.field(EVENT_TIME, pa.int64()))
            if len(tables) == 1 and tables[0].num_rows == len(keys) and EVENT_TIME not in tables[0].schema.names:
                times = keys.times if keys.times is not None else pa.nulls(len(keys), pa.int64())
                tables = [tables[0].append_column(EVENT_TIME, times)]
        return [batch for table in tables for batch in self._fitted(output, table, schema)]

    def _fitted(self, output: str, rows: pa.Table, schema: pa.Schema) -> list[pa.RecordBatch]:
        """Returns rows of an output as it was declared, checked."""
        names = set(rows.schema.names)
        if EVENT_TIME in schema.names and EVENT_TIME not in names:
            why = "an operator behind it wants event times: give them by ctx.timed(rows, times), or one row per record"
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
    """Returns rows in memory of their own: a column may be a NumPy array that its author goes on to fill anew."""
    return pa.concat_tables([rows, rows.schema.empty_table()]).combine_chunks() if rows.num_rows else rows


def _listed(given: Any) -> Iterable[Any]:
    if given is None:
        return ()
    return (given,) if isinstance(given, (pa.RecordBatch, pa.Table)) or _is_tagged(given) else given


def _is_tagged(given: Any) -> bool:
    return type(given) is tuple and len(given) == 2 and isinstance(given[0], OutputTag)


def by_output(given: list[dict[str, pa.RecordBatch]]) -> dict[str, pa.RecordBatch]:
    """Returns what several calls gave as one batch for each output."""
    if len(given) == 1:
        return given[0]
    outputs: dict[str, list[pa.RecordBatch]] = {}
    for of_call in given:
        for output, batch in of_call.items():
            outputs.setdefault(output, []).append(batch)
    return {output: joined(batches) for output, batches in outputs.items()}


def joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Returns batches as one; there is at least one of them, with records."""
    whole: Any = pa.Table.from_batches(batches)
    [together] = whole.combine_chunks().to_batches()
    return together  # type: ignore[no-any-return]


__all__ = [
    "BatchCall",
    "by_output",
    "check_timer_methods",
    "joined",
    "layout_of",
    "takes_timers_together",
]
