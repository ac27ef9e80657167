"""The first of two phases of an aggregation: what Spark makes of records in front of the exchange.

Flink calls it local aggregation: each group of records becomes one row, a partial, and the operator merges partials
into its states in place of records. It is there only where the second phase gives what one phase would have given.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from state_engine.api.pyflink_types import Types
from state_engine.api.types import StructType, TypeInformation

RECORDS = "__ls_records"
"""Column of partials, which tells them from records: of how many records one is made."""


class Partial(NamedTuple):
    """One number of a group.

    Attributes:
        type: Its type.
        function: Spark SQL, with `{}` for the column.
        column: What is aggregated; None for an aggregate of records.
    """

    type: TypeInformation
    function: str
    column: str | None


class Pane(NamedTuple):
    """Event time cut into pieces, each of which is within the same windows from its first to its last ms."""

    length: int
    offset: int


@dataclass(frozen=True)
class LocalAggregation:
    """How records are grouped, and what becomes of a group.

    Attributes:
        key: The key columns.
        key_types: Their types.
        partials: By the names of their columns.
        pane: Groups end with it; None where time does not matter.
    """

    key: tuple[str, ...]
    key_types: tuple[TypeInformation, ...]
    partials: Mapping[str, Partial]
    pane: Pane | None = None

    @property
    def columns(self) -> StructType:
        """Columns of partials: the key, how many records there were, then the numbers."""
        types = [one.type for one in self.partials.values()]
        return StructType((*self.key, RECORDS, *self.partials), (*self.key_types, Types.LONG(), *types))


def is_partial(batch: pa.RecordBatch) -> bool:
    """Returns whether a batch holds partials, and not records."""
    return RECORDS in batch.schema.names


def named(partials: Sequence[Partial]) -> dict[str, Partial]:
    """Returns partials by the names of their columns, each once."""
    return {f"__ls_partial_{n}": one for n, one in enumerate(dict.fromkeys(partials))}


__all__ = ["RECORDS", "LocalAggregation", "Pane", "Partial", "is_partial", "named"]
