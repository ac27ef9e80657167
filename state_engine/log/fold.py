"""The fold: computes the state that results from a sequence of operations.

Two results from one pass. `fold` returns the live rows after all operations since the first epoch. `coalesce` returns,
for an interval of epochs, the fewest operations with the same effect on any earlier state. Rows of one key group do not
affect those of another. So rows are first sorted by key group, and then processed in pieces of some key groups each,
which fit into the caches. All rows of a piece are processed at once:

1. sort by (position, seq): a row's place in this order is its rank;
2. number equal (key group, key, namespace), for maps also with the user key;
3. find the last reset of each key group and the last clear of each list or map: rows before these are dead;
4. of the remaining rows, a value or map entry keeps its last one, a list keeps all.

`coalesce(x) + coalesce(y)` folds to the same as `x + y`, since the rows keep their position and seq.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.errors import DamagedFileError
from state_engine.log.grouping import Codes, codes_of, combine, cuts_of
from state_engine.log.ops import KEY_GROUP, LAST_ACCESS, NAMESPACE, OP, POSITION, SEQ, USER_KEY, VALUE, Op, ops_to_codes
from state_engine.log.records import StateSchema

Mask = np.ndarray[tuple[int], np.dtype[np.bool_]]

_PIECE_ROWS = 1 << 15  # a piece ends at or after this: its numbers and their hash table stay in the caches
_RUN_ROWS = 256  # runs with an average length of this or more are copied as they are
_PIECE = 1 << 29  # bytes; with a value of 1 GiB before it still less than the 2 GiB of an array
_LARGE: dict[Any, Any] = {pa.binary(): pa.large_binary(), pa.string(): pa.large_string()}

_ALLOWED = {
    "value": (Op.PUT, Op.DELETE, Op.RESET_GROUP),
    "reducing": (Op.PUT, Op.DELETE, Op.RESET_GROUP),
    "aggregating": (Op.PUT, Op.DELETE, Op.RESET_GROUP),
    "list": (Op.APPEND, Op.CLEAR, Op.RESET_GROUP),
    "map": (Op.PUT, Op.DELETE, Op.CLEAR, Op.RESET_GROUP),
}


def fold(schema: StateSchema, tables: Sequence[pa.Table], *, copy: bool = True) -> pa.Table:
    """Returns the live rows of a state.

    Args:
        schema: The state. Its shape decides what the operations mean.
        tables: Rows in the columns of `log_schema(…, position=True)`, in any order; `op` may also be by name. All
            rows since the state began: those of a base first, if there is one.
        copy: Copy the rows into new arrays, as few as possible. Otherwise the result refers to long runs of rows in the
            tables, and keeps the tables alive: for a caller that goes through them once.

    Returns:
        Rows with op PUT or APPEND and their own position and seq, sorted by key group. Within a key group the rows of a
        key and namespace are adjacent, in the order in which they were written (so the elements of a list in order).

    Raises:
        DamagedFileError: a state of this shape has no such operation.
        ValueError: no tables, or their columns differ.
    """
    return _kept(schema, tables, deletes=False, copy=copy)


def coalesce(schema: StateSchema, tables: Sequence[pa.Table]) -> pa.Table:
    """Returns the fewest rows of an interval that have its effect on every earlier state.

    Deletes and clears are kept only if they may still remove something earlier: none after a reset of its key group,
    and no delete after a clear. Arguments, order of the result and errors are those of `fold`.
    """
    return _kept(schema, tables, deletes=True, copy=True)


class _Log(NamedTuple):
    """How the rows of a piece affect each other; all arrays are in order of rank.

    `order` maps a rank to a row. `reset` and `clear` hold the rank of the last reset of the row's key group and of the
    last clear of its entry after that reset; -1 without one. `entry` numbers (key group, key, namespace), `cell` what
    one row replaces.
    """

    order: Codes
    op: Codes
    groups: Codes
    entry: Codes
    cell: Codes | None
    rank: Codes
    reset: Codes
    clear: Codes

    def alive(self) -> Mask:
        """Returns the rows with data, or deletes, that no later row of the log undoes."""
        not_undone = np.logical_and(self.rank > self.reset, self.rank > self.clear)
        data: Mask = not_undone & (self.op != Op.CLEAR) & (self.op != Op.RESET_GROUP)
        if self.cell is None:
            return data
        last: Mask = self.rank == _last_rank(self.cell, data, self.rank)
        return np.logical_and(data, last)

    def effective(self) -> Mask:
        """Returns the fewest rows that have the effect of all rows on any earlier state."""
        alive = self.alive()
        nothing_before = self.reset >= 0
        deletes = alive & (self.op == Op.DELETE) & ~nothing_before & (self.clear < 0)
        clears = (self.op == Op.CLEAR) & (self.rank == self.clear) & ~nothing_before
        resets = (self.op == Op.RESET_GROUP) & (self.rank == self.reset)
        effective: Mask = (alive & _is_data(self.op)) | deletes | clears | resets
        return effective

    def rows(self, mask: Mask) -> Codes:
        """Returns the rows of a mask, sorted by key group, entry and rank; a reset comes first in its key group."""
        chosen = np.flatnonzero(mask)
        entry = np.where(self.op[chosen] == Op.RESET_GROUP, -1, self.entry[chosen])
        return self.order[chosen[np.lexsort((entry, self.groups[chosen]))]]


def _kept(schema: StateSchema, tables: Sequence[pa.Table], *, deletes: bool, copy: bool) -> pa.Table:
    """Returns the live rows, sorted by key group; with `deletes` also the rows that act on an earlier state."""
    rows = _together(schema, tables)
    _check_ops(schema, rows.column(OP).to_numpy())
    groups = rows.column(KEY_GROUP).to_numpy()
    by_group = _by_group(groups)
    marks = _gathered(rows.drop_columns([VALUE, LAST_ACCESS]), by_group)
    kept = [by_group[:0]]
    for start, stop in cuts_of(groups[by_group], _PIECE_ROWS):
        kept.append(by_group[start:stop][_kept_of(schema, marks.slice(start, stop - start), deletes)])
    return _gathered(rows, np.concatenate(kept), copy=copy)


def _kept_of(schema: StateSchema, marks: pa.Table, deletes: bool) -> "Codes | Mask":
    """Does the same as `_kept` for a piece, in which the rows are sorted by key group."""
    groups = _numbers(marks.column(KEY_GROUP))
    groups = groups - groups[0]
    keys = [codes_of(marks.column(column.name)) for column in schema.key]
    entry = combine([*keys, codes_of(marks.column(NAMESPACE)), groups])
    op = marks.column(OP).to_numpy()
    if np.bincount(entry).max() == 1 and not ((op == Op.CLEAR) | (op == Op.RESET_GROUP)).any():
        return np.full(len(op), True) if deletes else _is_data(op)  # no row affects another: the order does not matter
    log = _read(schema, marks, groups, entry)
    return log.rows(log.effective() if deletes else log.alive() & _is_data(log.op))


def _is_data(op: Codes) -> Mask:
    data: Mask = (op == Op.PUT) | (op == Op.APPEND)
    return data


def _by_group(groups: Codes) -> Codes:
    """Returns the numbers of the rows in order of key group; within a key group they keep their order."""
    small = len(groups) and groups.min() >= 0 and groups.max() < 1 << 15
    return np.argsort(groups.astype(np.int16) if small else groups, kind="stable")  # numpy sorts 16 bits by radix


def _read(schema: StateSchema, marks: pa.Table, groups: Codes, entry: Codes) -> _Log:
    order = _order(_numbers(marks.column(POSITION)), _numbers(marks.column(SEQ)))
    cell: Codes | None = entry[order]
    if schema.shape == "list":
        cell = None
    elif schema.user_key is not None:
        cell = combine([codes_of(marks.column(USER_KEY)), entry])[order]
    op, groups, entry = marks.column(OP).to_numpy()[order], groups[order], entry[order]
    rank = np.arange(len(op), dtype=np.int64)
    reset = _last_rank(groups, op == Op.RESET_GROUP, rank)
    clear = _last_rank(entry, (op == Op.CLEAR) & (rank > reset), rank)
    return _Log(order, op, groups, entry, cell, rank, reset, clear)


def _check_ops(schema: StateSchema, op: "np.ndarray[tuple[int], np.dtype[np.int8]]") -> None:
    allowed = _ALLOWED[schema.shape]
    codes = np.flatnonzero(np.bincount(op.view(np.uint8))).astype(np.uint8).view(np.int8)
    not_allowed = np.setdiff1d(codes, [int(code) for code in allowed])
    if not_allowed.size:
        raise DamagedFileError(
            f"State {schema.name!r} of {schema.uid!r} has rows with op {not_allowed.tolist()}; a {schema.shape} state "
            f"has only {', '.join(code.name for code in allowed)}.",
            action="Validate the file or table; restore an older checkpoint or savepoint.",
        )


def _last_rank(codes: Codes, mask: Mask, rank: Codes) -> Codes:
    """Returns for every row the rank of the last row of its code that is in the mask; -1 without one."""
    last = np.full(int(codes.max(initial=-1)) + 1, -1, np.int64)
    last[codes[mask]] = rank[mask]  # in order of rank, so the last one stays
    return last[codes]


def _order(position: Codes, seq: Codes) -> Codes:
    """Returns the numbers of the rows in order of (position, seq)."""
    if not len(position):
        return np.zeros(0, np.int64)
    width = int(seq.max()) + 1
    if int(seq.min()) >= 0 and (int(position.max()) - int(position.min()) + 1) * width < 2**62:
        return np.argsort((position - position.min()) * width + seq, kind="stable")
    return np.lexsort((seq, position))


def _together(schema: StateSchema, tables: Sequence[pa.Table]) -> pa.Table:
    """Returns one table of all rows, in the columns of the log."""
    if not tables:
        raise ValueError(f"No tables to fold for state {schema.name!r} of {schema.uid!r}; give an empty table.")
    names = [KEY_GROUP, *(column.name for column in schema.key), NAMESPACE]
    names += [USER_KEY] if schema.user_key is not None else []
    names += [VALUE, OP, POSITION, SEQ, LAST_ACCESS]
    same = [ops_to_codes(_columns(schema, table, names)) for table in tables]
    target = same[0].schema.remove_metadata()
    return pa.concat_tables([table if table.schema == target else table.cast(target) for table in same])


def _columns(schema: StateSchema, table: pa.Table, names: list[str]) -> pa.Table:
    missing = [name for name in names if name not in table.column_names]
    if missing:
        raise ValueError(
            f"Rows of state {schema.name!r} of {schema.uid!r} have no column {missing}; they have "
            f"{table.column_names} (log.ops.with_position adds the position)."
        )
    return table.select(names)


def _gathered(rows: pa.Table, indices: Codes, *, copy: bool = True) -> pa.Table:
    """Returns rows by their numbers.

    Tables that come sorted by key group, and in which most rows are live, give long runs. Runs are copied as they are,
    or not at all; to take rows one by one, they would first have to be copied into one array. With `copy` the result
    keeps nothing of the tables alive.
    """
    breaks = np.flatnonzero(np.diff(indices) != 1) + 1
    if len(indices) < _RUN_ROWS * (len(breaks) + 1):
        return taken(rows.combine_chunks(), indices)
    cuts = [0, *breaks.tolist(), len(indices)]
    runs = [rows.slice(int(indices[start]), stop - start) for start, stop in pairwise(cuts)]
    gathered = pa.concat_tables(runs)
    if copy and len(runs) == 1 and any(column.num_chunks == 1 for column in gathered.columns):
        gathered = taken(gathered, np.arange(len(indices)))  # `combine_chunks` does not copy a column that is one array
    return gathered.combine_chunks() if copy else gathered


def taken(rows: pa.Table, indices: Codes) -> pa.Table:
    """Returns rows by their numbers, also if values have too many bytes for one array and are in several.

    Arrow's `take` would first combine these arrays, which it cannot.
    """
    if all(column.num_chunks <= 1 for column in rows.columns):
        return rows.take(indices)
    return pa.table([_taken_of(column, indices) for column in rows.columns], schema=rows.schema)


def _taken_of(column: "pa.ChunkedArray[Any]", indices: Codes) -> "pa.ChunkedArray[Any]":
    large = _LARGE.get(column.type)
    if column.num_chunks <= 1 or large is None:
        return column.take(indices)
    values: Any = column.cast(large).combine_chunks()
    ends = np.cumsum(pc.binary_length(values).fill_null(0).to_numpy(zero_copy_only=False)[indices])
    cuts = [0, *(np.flatnonzero(np.diff(ends // _PIECE)) + 1).tolist(), len(indices)]
    pieces = [values.take(pa.array(indices[start:stop])).cast(column.type) for start, stop in pairwise(cuts)]
    return pa.chunked_array(pieces, column.type)


def _numbers(column: "pa.ChunkedArray[Any]") -> Codes:
    return column.to_numpy().astype(np.int64, copy=False)


__all__ = ["coalesce", "fold", "taken"]
