"""A delta: changes of one state, on their way from a table into the log, or from the log into a table."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from state_engine.api.keys import Keys, Numbers
from state_engine.backends.key_numbers import KeyNumbers
from state_engine.backends.keys import KeyCodec, join_entries, split_entries
from state_engine.backends.stamps import join_stamps
from state_engine.log import ops as log
from state_engine.log.fold import coalesce
from state_engine.log.ops import Op
from state_engine.log.records import StateSchema

Ops = np.ndarray[Any, np.dtype[np.int8]]


class Delta:
    """Changes of one state, one row for each change.

    A row that clears a list or a map comes before all other rows of its entry. If several rows write one value, or one
    entry of a map, the last one counts.

    Args:
        ops: What each row does (`log.ops.Op`).
        values: Of the rows, as a column of the stored type, with stamps if the state has any; null where a row removes.
        user_keys: Of the rows, if the state is a map.
        entries: The entry of each row; None if `numbers` and `namespaces` are given instead.
        counts: If entries are given once for all of their rows, the number of rows of each.
        numbers: The number of each row's key (`EntryIndex.keys`).
        namespaces: The namespace of each row, as a column.

    Attributes:
        ops: As given.
        values: As given.
        user_keys: As given.
        numbers: As given.
    """

    __slots__ = ("_codec", "_columns", "_counts", "_entries", "_namespaces", "numbers", "ops", "user_keys", "values")

    def __init__(
        self,
        ops: Ops,
        values: Any,
        user_keys: Any = None,
        *,
        entries: list[Any] | None = None,
        counts: list[int] | None = None,
        numbers: Numbers | None = None,
        namespaces: Any = None,
    ) -> None:
        self.ops = ops
        self.values = values
        self.user_keys = user_keys
        self.numbers = numbers
        self._entries = entries
        self._counts = counts
        self._namespaces = namespaces
        self._columns: list[Any] = []
        self._codec: KeyCodec | None = None

    def __len__(self) -> int:
        return len(self.ops)

    @classmethod
    def logged(cls, rows: pa.Table, codec: KeyCodec, *, stamped: bool) -> "Delta":
        """Returns the delta of log rows; none of them resets a key group."""
        values: Any = rows.column(log.VALUE)
        if stamped:
            times: Any = rows.column(log.LAST_ACCESS)
            values = join_stamps(values, times)
        user_keys = rows.column(log.USER_KEY) if log.USER_KEY in rows.column_names else None
        delta = cls(rows.column(log.OP).to_numpy(), values, user_keys, namespaces=rows.column(log.NAMESPACE))
        delta._columns, delta._codec = [rows.column(c.name) for c in codec.columns], codec
        return delta

    def runs(self) -> tuple[list[Any], list[int] | None]:
        """Returns entries, and the number of consecutive rows of each; without numbers each has one row."""
        entries = self.entries if self._counts is None else self._entries
        assert entries is not None
        return entries, self._counts

    @property
    def entries(self) -> list[Any]:
        """The entry of each row."""
        if self._counts is not None:
            assert self._entries is not None, "counts are those of entries"
            self._entries = [e for e, n in zip(self._entries, self._counts, strict=True) for _ in range(n)]
            self._counts = None
        if self._entries is None:
            assert self._codec is not None, "a table that numbers its keys gives its rows only to the log"
            has_namespaces = self._namespaces.null_count < len(self._namespaces)
            keys = self._codec.read(self._columns)
            self._entries = join_entries(keys, self._namespaces.to_pylist() if has_namespaces else None)
        return self._entries

    @property
    def namespaces(self) -> Any:
        """The namespace of each row, as an array."""
        if self._namespaces is None:
            keys, namespaces = split_entries(self.entries)
            texts: Sequence[str | None] = [None] * len(keys) if namespaces is None else namespaces
            self._namespaces = pa.array(texts, pa.string())
        return one_array(self._namespaces)

    def numbered_by(self, index: KeyNumbers) -> Numbers:
        """Returns the number of each row's key; new keys get numbers."""
        if self._codec is None:
            return index.of(split_entries(self.entries)[0])
        keys = Keys([one_array(column) for column in self._columns], self._codec.read)
        return index.of_each(keys)[keys.codes]


def entry_of_rows(entries: Iterable[Any], counts: Sequence[int]) -> Callable[[int], Any]:
    """Returns a function from a row to its entry, of entries with some rows each; for messages, not for every row."""
    return lambda row: next(e for e, end in zip(entries, accumulate(counts), strict=True) if row < end)


def one_array(column: Any) -> Any:
    """Returns a column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def deltas(schema: StateSchema, rows: pa.Table, codec: KeyCodec, *, stamped: bool) -> "Iterator[Delta | int]":
    """Cuts log rows at resets of key groups. Yields, in order, deltas and the key groups that are reset."""
    ops = rows.column(log.OP).to_numpy()
    start = 0
    for row in [*np.flatnonzero(ops == Op.RESET_GROUP).tolist(), len(ops)]:
        if row > start:
            yield Delta.logged(_cleared_first(schema, rows.slice(start, row - start)), codec, stamped=stamped)
        if row < len(ops):
            yield rows.column(log.KEY_GROUP)[row].as_py()
        start = row + 1


def _cleared_first(schema: StateSchema, rows: pa.Table) -> pa.Table:
    """Returns rows with the same effect, where rows that clear come first in their entries."""
    if not (rows.column(log.OP).to_numpy() == Op.CLEAR).any():
        return rows
    if log.POSITION not in rows.column_names:
        rows = log.with_position(rows, 0)
    return coalesce(schema, [rows])


__all__ = ["Delta", "Ops", "deltas", "entry_of_rows", "one_array"]
