"""`KeyedStream.aggregate`: the aggregates of a key's records so far, one row per key and epoch."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from state_engine.api.aggregates import Aggregate
from state_engine.api.functions import RuntimeContext
from state_engine.api.keys import Keys
from state_engine.api.ttl import StateTtlConfig
from state_engine.api.types import StructType
from state_engine.runtime.declared.base import Declared, types_of
from state_engine.runtime.declared.local import LocalAggregation
from state_engine.runtime.declared.named import NamedAggregates


class Aggregation(Declared):
    """Keeps aggregates per key; gives one row with all of them for each key that has records in an epoch.

    Args:
        key: The key columns.
        aggregates: The aggregates by the name of the result.
        columns: Columns of the records.
        ttl: How long the aggregates of a key are kept.

    Attributes:
        output: Columns of the rows: the key, then the results.

    Raises:
        JobDefinitionError: An aggregate is not possible with these columns, or has the name of another or of a key.
    """

    verb = "aggregate"

    def __init__(
        self,
        key: Sequence[str],
        aggregates: Mapping[str, Aggregate],
        columns: StructType,
        ttl: StateTtlConfig | None = None,
    ) -> None:
        super().__init__(ttl)
        self._key = tuple(key)
        self._aggregates = NamedAggregates(aggregates, columns, dict.fromkeys(key, "a key column"))
        types, key_types = self._aggregates.types, types_of(key, columns)
        self.output = StructType((*key, *types), (*key_types, *types.values()))
        if self._aggregates.partials is not None:
            self.local = LocalAggregation(self._key, key_types, self._aggregates.partials)

    @property
    def argument(self) -> str:
        return str(self._aggregates)

    def open(self, runtime_context: RuntimeContext) -> None:
        self._aggregates.open(runtime_context, self)

    def process_batch(self, keys: Keys, batch: pa.RecordBatch, ctx: Any) -> Any:
        rows = dict(zip(self._key, keys.distinct.columns, strict=True)) | self._aggregates.fold(keys, batch)
        return ctx.timed(pa.table(rows), keys.latest_times)


__all__ = ["Aggregation"]
