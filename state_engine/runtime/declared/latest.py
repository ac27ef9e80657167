"""`KeyedStream.latest`: the newest record of each key."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.descriptors import ValueStateDescriptor
from state_engine.api.functions import RuntimeContext
from state_engine.api.keys import Keys, Numbers, indices
from state_engine.api.ttl import StateTtlConfig
from state_engine.api.types import StructType
from state_engine.runtime.declared.base import Declared, ordered_column, stored_rows
from state_engine.runtime.declared.changelog import Changes, with_op
from state_engine.runtime.declared.comparison import ordinals, same


class Latest(Declared):
    """Keeps the newest record of each key; gives it in each epoch in which it changed.

    Args:
        columns: Columns of the records, and of the rows.
        by: The column by which the record with the largest value is the newest; of equal values, the later record.
            Without it, the newest record is the one that came last.
        ttl: How long a record is kept after it came; None for ever.
        changelog: Whether the rows also say which record the newest one replaces.

    Raises:
        JobDefinitionError: There is no such column, its values have no order, or a column has the name of a column that
            is added.
    """

    verb = "latest"

    def __init__(
        self,
        columns: StructType,
        by: str | None = None,
        ttl: StateTtlConfig | None = None,
        *,
        changelog: bool = False,
    ) -> None:
        super().__init__(ttl)
        self._columns, self.gives_changelog = columns, changelog
        self.wants_all = changelog
        self.output = with_op(self.verb, columns) if changelog else columns
        self._by = None if by is None else ordered_column(self.verb, by, columns)
        self._by_name = by

    @property
    def argument(self) -> str:
        return self.arguments(by=self._by_name, changelog=self.gives_changelog or None)

    def open(self, runtime_context: RuntimeContext) -> None:
        self._latest = runtime_context.get_state(self.kept(ValueStateDescriptor("latest", stored_rows(self._columns))))

    def process_batch(self, keys: Keys, batch: pa.RecordBatch, ctx: Any) -> Any:
        each = keys.distinct
        stored = self._latest.get_many(each)
        newest = keys.last if self._by is None else self._newest(keys, stored, batch.column(self._by))
        of_batch = np.flatnonzero(newest >= 0)
        positions = newest[of_batch]
        records = batch.take(indices(positions)).to_struct_array()
        before = stored.take(indices(of_batch))
        had = np.asarray(pc.is_valid(before))
        changed = ~(had & same(before, records))
        # With a time to live, also store a record that is the same in all columns: its time starts anew.
        kept = np.flatnonzero(changed) if self.ttl is None else np.arange(len(positions))
        self._latest.put_many(each.take(of_batch[kept]), records.take(indices(kept)))
        rows: Any
        if self.gives_changelog:
            change = Changes.between(had, np.ones_like(had), before, records)
            given, rows = positions[change.codes], change.table(self.output.names)
        else:
            given = np.sort(positions[changed])
            rows = batch.take(indices(given))
        return ctx.timed(rows, None if keys.times is None else keys.times.take(indices(given)))

    def _newest(self, keys: Keys, stored: Any, values: Any) -> Numbers:
        """Returns the position of each distinct key's newest record in the batch; -1 if that is the stored one."""
        count = len(stored)
        codes = np.concatenate([np.arange(count), keys.codes])
        order = ordinals(pa.concat_arrays([stored.flatten()[self._by], values]))
        # A missing stored record has the value null, and of several records with null the later one is the newest.
        largest = np.full(count, np.iinfo(np.int64).min)
        np.maximum.at(largest, codes, order)
        positions = np.flatnonzero(order == largest[codes])
        newest = np.full(count, -1)
        newest[codes[positions]] = np.maximum(positions - count, -1)  # for several positions the last assignment stays
        return newest


__all__ = ["Latest"]
