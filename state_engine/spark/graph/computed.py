"""Adds columns that a Python function computes from each record, before an operator."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from state_engine.api.types import StructType
from state_engine.runtime.outputs import OutputWriter
from state_engine.runtime.shared_columns import OWN
from state_engine.serialization.convert import Reader, field_readers
from state_engine.serialization.copies import copied
from state_engine.serialization.rows import as_tuple, row_maker
from state_engine.spark.graph.dry import DryFrame
from state_engine.spark.wire.arrow_map import map_in_arrow
from state_engine.spark.wire.failures import raised_before_operators, reporting_failures
from state_engine.spark.wire.names import quote_always
from state_engine.spark.wire.schemas import ddl_of
from state_engine.spark.wire.task_spec import travelling

Compute = Callable[[Any], tuple[Any, ...]]
_WHAT = "The function that computes columns of the records of source {!r}, such as a key,"


def extended(columns: StructType, computed: StructType) -> StructType:
    """Returns a stream's columns, followed by computed ones."""
    return StructType((*columns.names, *computed.names), (*columns.types, *computed.types))


def with_computed(
    df: DataFrame, columns: StructType, compute: Compute, computed: StructType, *, source: str
) -> DataFrame:
    """Returns a source's DataFrame with its own columns, then the computed ones, then ours.

    Args:
        df: The stream.
        columns: Its columns, without ours.
        compute: Returns the values of the new columns.
        computed: The new columns.
        source: Name of the source, for messages.
    """
    made = extended(columns, computed)
    stream: object = df
    if isinstance(stream, DryFrame):
        return DryFrame(made, stream.kind)  # type: ignore[return-value]
    ours = [f"{field.name} {field.dataType.simpleString()}" for field in df.schema if field.name.startswith(OWN)]
    runner = ComputedRunner(compute, columns, computed, source)
    our_names = [name for name in df.columns if name.startswith(OWN)]
    ordered = df.select(*map(quote_always, [*columns.names, *our_names]))
    return map_in_arrow(ordered, runner, ", ".join([ddl_of(made), *ours]))


class ComputedRunner:
    """What `mapInArrow` runs before the first operator, to compute columns.

    Args:
        compute: The author's function.
        columns: Columns of the records, which come first.
        computed: Columns that the function computes.
        source: Name of the source, for messages.
    """

    def __init__(self, compute: Compute, columns: StructType, computed: StructType, source: str) -> None:
        self._compute = compute
        self._columns = columns
        self._computed = computed
        self._source = source

    def __reduce__(self) -> tuple[object, ...]:
        parts = self._compute, self._columns, self._computed, self._source
        return travelling(ComputedRunner, parts, _WHAT.format(self._source))

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with reporting_failures():
            yield from self._run(batches)

    def _run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        readers = field_readers(self._columns)
        make, writer = row_maker(self._columns), OutputWriter("key_by", self._computed)
        width = len(readers)
        for batch in batches:
            made = self._made(readers, make, writer, batch)
            arrays = [*batch.columns[:width], *made.columns, *batch.columns[width:]]
            names = [*self._columns.names, *self._computed.names, *batch.schema.names[width:]]
            yield pa.RecordBatch.from_arrays(arrays, names=names)

    def _made(
        self, readers: Sequence[Reader], make: Callable[..., Any], writer: OutputWriter, batch: pa.RecordBatch
    ) -> pa.RecordBatch:
        values: list[Any] = []
        record: Any = None
        try:
            columns = [read(array) for read, array in zip(readers, batch.columns, strict=False)]
            for record in map(make, *columns):
                values.append(copied(self._compute(record)))
            record = None
            return writer.write(values)
        except BaseException as error:
            raise raised_before_operators(_WHAT.format(self._source), error, record, values) from error


def computing(compute: Compute, columns: StructType) -> Callable[[Any], Any]:
    """Returns the function of a map between operators that appends computed values to a record's fields."""
    return lambda record: (*as_tuple(record, columns), *compute(record))


__all__ = ["Compute", "ComputedRunner", "computing", "extended", "with_computed"]
