"""`KeyedStream.top_n`: the changes among the first `n` records of each key."""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from state_engine.api.descriptors import ListStateDescriptor
from state_engine.api.functions import RuntimeContext
from state_engine.api.keys import Keys, Numbers, indices, order_of
from state_engine.api.pyflink_types import Types
from state_engine.api.ttl import StateTtlConfig
from state_engine.api.types import StructType
from state_engine.errors import JobDefinitionError
from state_engine.runtime.declared.base import Declared, ordered_column, renaming, stored_rows
from state_engine.runtime.declared.changelog import OP, OPS
from state_engine.runtime.declared.comparison import Flags, ordinals, same

RANK = "rank"


class TopN(Declared):
    """Keeps the first records of each key by a column, and gives the changes among them as a changelog of ranks.

    State that was written for a larger `n`, or for another column, is reordered with the next record of its key.

    Args:
        columns: Columns of the records.
        n: The number of records to keep per key.
        by: The column; null is less than all of its values, NaN is larger than all numbers.
        descending: Whether the largest value comes first. Of equal values, the earlier record comes first.
        ttl: How long the first records of a key are kept after they last changed; None for ever.

    Attributes:
        output: Columns of the rows: those of the records, the rank, and the kind of the row.

    Raises:
        JobDefinitionError: `n` or `by` is not possible, or a column has the name of a column that is added.
    """

    verb = "top_n"
    gives_changelog = True

    def __init__(
        self, columns: StructType, n: int, by: str, *, descending: bool = True, ttl: StateTtlConfig | None = None
    ) -> None:
        super().__init__(ttl)
        if type(n) is not int or n < 1:
            raise JobDefinitionError(f"top_n() got n={n!r}.", action="Give a number, 1 or more.")
        taken = [name for name in columns.names if name.lower() in (RANK, OP)]
        if taken:
            raise JobDefinitionError(
                f"top_n() of a stream with a column {taken[0]!r}: its rows get one of this name.",
                action=renaming(taken[0]),
            )
        self._by = ordered_column(self.verb, by, columns)
        self._n, self._by_name, self._descending = n, by, descending
        self._columns = columns
        self.output = StructType((*columns.names, RANK, OP), (*columns.types, Types.LONG(), Types.STRING()))

    @property
    def argument(self) -> str:
        return self.arguments(n=self._n, by=self._by_name, descending=self._descending)

    def open(self, runtime_context: RuntimeContext) -> None:
        self._top = runtime_context.get_list_state(self.kept(ListStateDescriptor("top", stored_rows(self._columns))))

    def process_batch(self, keys: Keys, batch: pa.RecordBatch, ctx: Any) -> Any:
        each = keys.distinct
        lists: Any = self._top.get_many(each)
        stored = lists.flatten()
        rows: Any = pa.concat_arrays([stored, batch.to_struct_array()])
        before = np.diff(np.asarray(lists.offsets)).astype(np.int64)
        codes = np.concatenate([np.repeat(np.arange(len(each)), before), keys.codes])
        order = ordinals(pa.concat_arrays([stored.flatten()[self._by], batch.column(self._by)]))
        top = _ranked(codes, ~order if self._descending else order, len(each), self._n)
        change = _Change.of(rows, top, before)
        self._put(each, rows, top, change.touched, lists.type)
        return self._changes(keys, rows, change, ctx)

    def _put(self, each: Keys, rows: Any, top: "_Top", touched: Flags, wanted: Any) -> None:
        """Replaces the lists of the keys whose first records changed."""
        offsets: Any = pa.array(np.concatenate([[0], np.cumsum(top.counts[touched])]), pa.int32())
        values = rows.take(indices(top.positions[touched[top.codes]]))
        lists = pa.ListArray.from_arrays(offsets, values, type=wanted)
        self._top.put_many(each.take(np.flatnonzero(touched)), lists)

    def _changes(self, keys: Keys, rows: Any, change: "_Change", ctx: Any) -> Any:
        """Returns the changelog rows, in order of key, rank and op."""
        in_order = order_of(change.ops, change.ranks, change.codes)
        columns = rows.take(indices(change.positions[in_order])).flatten()
        ranks = pa.array(change.ranks[in_order] + 1)
        ops = pa.array(OPS).take(indices(change.ops[in_order]))
        table = pa.table([*columns, ranks, ops], names=list(self.output.names))
        latest = keys.latest_times
        codes = indices(change.codes[in_order])
        return ctx.timed(table, None if latest is None else latest.take(codes))


class _Top(NamedTuple):
    """The first rows of each key, by key and rank.

    Attributes:
        positions: Positions of the rows.
        codes: Numbers of their keys.
        ranks: Their ranks, from 0.
        counts: Number of rows of each key.
    """

    positions: Numbers
    codes: Numbers
    ranks: Numbers
    counts: Numbers


def _ranked(codes: Numbers, order: Numbers, keys: int, n: int) -> _Top:
    """Returns the first `n` rows of each key; of equal rows, the earlier ones come first."""
    positions = order_of(order, codes)
    counts = np.bincount(codes, minlength=keys).astype(np.int64)
    ranks = np.arange(len(codes)) - np.repeat(np.cumsum(counts) - counts, counts)
    first = ranks < n
    positions = positions[first]
    return _Top(positions, codes[positions], ranks[first], np.minimum(counts, n))


class _Change(NamedTuple):
    """The changelog rows for the ranks that changed, in no order.

    Attributes:
        positions: Positions of the rows that are given.
        codes: Numbers of their keys.
        ranks: Their ranks, from 0.
        ops: Their kinds, as positions in `OPS`.
        touched: Flags of the keys with other first records than before, even if these are the same in all columns.
    """

    positions: Numbers
    codes: Numbers
    ranks: Numbers
    ops: Numbers
    touched: Flags

    @classmethod
    def of(cls, rows: Any, top: _Top, before: Numbers) -> "_Change":
        """Compares with the stored rows: they come first in `rows`, `before[code]` of each key, in order of rank."""
        starts = np.cumsum(before) - before
        had = top.ranks < before[top.codes]
        old = starts[top.codes] + top.ranks
        moved = np.flatnonzero(had & (top.positions != old))
        moved_from, moved_to = old[moved], top.positions[moved]
        another = ~same(rows.take(indices(moved_from)), rows.take(indices(moved_to)))
        updated, inserted = moved[another], np.flatnonzero(~had)
        lost = np.repeat(np.arange(len(before)), np.maximum(before - top.counts, 0))
        lost_ranks = np.arange(len(lost)) - np.searchsorted(lost, lost) + top.counts[lost]
        parts = (
            (old[updated], top.codes[updated], top.ranks[updated]),
            (top.positions[updated], top.codes[updated], top.ranks[updated]),
            (top.positions[inserted], top.codes[inserted], top.ranks[inserted]),
            (starts[lost] + lost_ranks, lost, lost_ranks),
        )
        ops = np.repeat(np.arange(len(OPS)), [len(part[0]) for part in parts])
        touched = np.zeros(len(before), bool)
        touched[np.concatenate([top.codes[moved], top.codes[inserted], lost])] = True
        positions, codes, ranks = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return cls(positions, codes, ranks, ops, touched)


__all__ = ["RANK", "TopN"]
