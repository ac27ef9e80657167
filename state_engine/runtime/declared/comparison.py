"""Compares columns value by value, in SQL's order: declared operators find the newest, first or changed rows by it."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from state_engine.api.keys import Keys, Numbers, indices

Flags = NDArray[np.bool_]


def ordinals(column: Any) -> Numbers:
    """Returns integers in the same order as a column's values: null is least, NaN is larger than every number.

    `~ordinals(column)` has the reverse order.
    """
    whole = pa.types.is_integer(column.type) or pa.types.is_timestamp(column.type)
    if whole and not column.null_count:
        return np.asarray(column.cast(pa.int64()))
    ranks = np.asarray(pc.rank(column, "ascending", tiebreaker="dense")).astype(np.int64)
    return np.where(_valid(column), ranks, 0)


def same(one: Any, other: Any) -> Flags:
    """Returns where two columns of one type and length have the same value: null equals null, NaN equals NaN."""
    kinds = pa.types
    valid = _valid(one)
    alike: Flags = valid == _valid(other)
    if kinds.is_struct(one.type):
        for part, other_part in zip(one.flatten(), other.flatten(), strict=True):
            alike &= same(part, other_part)
    elif kinds.is_map(one.type):
        alike &= _same_lists(one, other, [(one.keys, other.keys), (one.items, other.items)])
    elif kinds.is_list(one.type):
        alike &= _same_lists(one, other, [(one.values, other.values)])
    else:
        equal = _flags(pc.equal(one, other))
        if kinds.is_floating(one.type):
            equal |= _flags(pc.and_(pc.is_nan(one), pc.is_nan(other)))
        alike &= equal | ~valid
    return alike


def row_numbers(columns: Sequence[Any]) -> Numbers:
    """Returns a number for each row of some columns; rows with the same values, as `same` compares them, share one."""
    return Keys([_atoms(column) for column in columns], lambda _: []).codes


def _atoms(column: Any) -> Any:
    """Returns a column of atoms that are equal where the column's values are equal."""
    kinds = pa.types
    if kinds.is_struct(column.type):
        return indices(row_numbers([pc.is_valid(column), *column.flatten()]))
    if not (kinds.is_list(column.type) or kinds.is_map(column.type)):
        return column
    starts, lengths = _spans(column)
    owners, inside = _elements(lengths)
    parts = [column.keys, column.items] if kinds.is_map(column.type) else [column.values]
    numbers = row_numbers([part.take(indices(starts[owners] + inside)) for part in parts])
    # A list becomes the bytes of its elements' numbers.
    offsets = np.concatenate([[0], np.cumsum(lengths)]) * numbers.itemsize
    buffers = [None, *(pa.py_buffer(one.astype(np.int64).data) for one in (offsets, numbers))]
    lists: Any = pa.Array.from_buffers(pa.large_binary(), len(column), buffers)
    return pc.if_else(pc.is_valid(column), lists, None)


def _same_lists(one: Any, other: Any, parts: list[tuple[Any, Any]]) -> Flags:
    """Compares lists element by element, and maps entry by entry in their order; two nulls are equal."""
    starts, lengths = _spans(one)
    other_starts, other_lengths = _spans(other)
    alike: Flags = lengths == other_lengths
    owners, inside = _elements(np.where(alike, lengths, 0))
    for elements, other_elements in parts:
        taken = elements.take(pa.array(starts[owners] + inside))
        equal = same(taken, other_elements.take(pa.array(other_starts[owners] + inside)))
        alike[owners[~equal]] = False
    return alike


def _elements(lengths: Numbers) -> tuple[Numbers, Numbers]:
    """Returns for each element the number of its list, and its position in the list."""
    owners = np.repeat(np.arange(len(lengths)), lengths)
    return owners, np.arange(len(owners)) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def _spans(lists: Any) -> tuple[Numbers, Numbers]:
    """Returns the start and the length of each list; a null list has no elements."""
    offsets = np.asarray(lists.offsets).astype(np.int64)
    return offsets[:-1], np.where(_valid(lists), np.diff(offsets), 0)


def _valid(column: Any) -> Flags:
    return np.asarray(pc.is_valid(column), bool)


def _flags(column: Any) -> Flags:
    return np.array(pc.fill_null(column, False))


__all__ = ["ordinals", "row_numbers", "same"]
