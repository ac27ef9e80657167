"""`map` between operators: one function, record by record, that lets barriers pass."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from state_engine.api.types import StructType
from state_engine.runtime.outputs import OutputValueError, OutputWriter
from state_engine.serialization.convert import reader, row_maker
from state_engine.serialization.types import schema_of
from state_engine.spark.wire import CONTROL, GROUP, KIND, RECORD


class MapFunction:
    """What `mapInArrow` runs for a `map` step."""

    def __init__(self, function: Callable[[Any], Any], input_: StructType, output: StructType) -> None:
        self._function = function
        self._input = input_
        self._output = output

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        readers = [reader(t) for t in self._input.types]
        make, writer = row_maker(self._input), OutputWriter("map", self._output)
        for batch in batches:
            records = batch.column(KIND).to_numpy() == RECORD
            columns = [read(batch.column(n)) for read, n in zip(readers, self._input.names, strict=True)]
            rows = [self._function(row) for row, ok in zip(map(make, *columns), records, strict=True) if ok]
            try:
                mapped = writer.write(rows)
            except OutputValueError as error:
                raise TypeError(f"map() returned {error.row}, which is not {self._output.ddl()}: {error}") from None
            yield self._with_marks(mapped, batch, records)

    def _with_marks(self, mapped: pa.RecordBatch, batch: pa.RecordBatch, records: "np.ndarray[Any, Any]") -> Any:
        places = np.cumsum(records) - 1
        indices = pa.array(places, pa.int64(), mask=~records)
        columns = [column.take(indices) for column in mapped.columns]
        wire = [batch.column(n) for n in (KIND, GROUP, CONTROL)]
        fields = [*schema_of(self._output), *(batch.schema.field(n) for n in (KIND, GROUP, CONTROL))]
        return pa.RecordBatch.from_arrays([*columns, *wire], schema=pa.schema(fields))


__all__ = ["MapFunction"]
