"""Local aggregation: the first of two phases of an aggregation, which Spark runs before the exchange.

As in Flink's local aggregation, each group of records becomes one row, a partial, and the operator merges partials into
its states instead of records. It is used only where two phases give the same result as one phase.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from state_engine.api.pyflink_types import Types
from state_engine.api.types import StructType, TypeInformation

RECORDS = "__ls_records"
"""Column that only partials have: the number of records in the partial."""


class Partial(NamedTuple):
    """One value that Spark computes for a group of records.

    Attributes:
        type: Its type.
        function: A Spark SQL expression, with `{}` for the column.
        column: The column that is aggregated; None for an aggregate of records.
    """

    type: TypeInformation
    function: str
    column: str | None


class Pane(NamedTuple):
    """Divides event time into pieces; all times of a piece are in the same windows."""

    length: int
    offset: int


@dataclass(frozen=True)
class LocalAggregation:
    """How Spark groups records before the exchange, and what it computes for each group.

    Attributes:
        key: The key columns.
        key_types: Their types.
        partials: The partials by the names of their columns.
        pane: A group has only records of one pane; None if time does not matter.
    """

    key: tuple[str, ...]
    key_types: tuple[TypeInformation, ...]
    partials: Mapping[str, Partial]
    pane: Pane | None = None

    @property
    def columns(self) -> StructType:
        """Columns of partials: the key, the number of records, then the computed values."""
        types = [one.type for one in self.partials.values()]
        return StructType((*self.key, RECORDS, *self.partials), (*self.key_types, Types.LONG(), *types))


def is_partial(batch: pa.RecordBatch) -> bool:
    """Returns whether a batch has partials instead of records."""
    return RECORDS in batch.schema.names


def named(partials: Sequence[Partial]) -> dict[str, Partial]:
    """Returns distinct partials by the names of their columns."""
    return {f"__ls_partial_{n}": one for n, one in enumerate(dict.fromkeys(partials))}


__all__ = ["RECORDS", "LocalAggregation", "Pane", "Partial", "is_partial", "named"]
