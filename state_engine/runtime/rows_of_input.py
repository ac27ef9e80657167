"""Makes row objects of one of two inputs from the columns that both share."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from state_engine.api.types import StructType
from state_engine.serialization.convert import field_readers
from state_engine.serialization.rows import row_maker


class RowsOfInput:
    """Makes row objects from the records of one input.

    Args:
        struct: Columns of the input.
        places: Position of each among the shared columns.
    """

    def __init__(self, struct: StructType, places: Sequence[int]) -> None:
        self._places = places
        self._readers = field_readers(struct)
        self._make_row = row_maker(struct)

    def of(self, batch: pa.RecordBatch) -> Iterator[Any]:
        """Yields the rows of a batch that has only records of this input."""
        columns = [read(batch.column(place)) for read, place in zip(self._readers, self._places, strict=True)]
        return map(self._make_row, *columns)


__all__ = ["RowsOfInput"]
