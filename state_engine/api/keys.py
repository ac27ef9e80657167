"""The keys of a batch's records as columns: vectorised functions pass them to states.

Nothing here creates a Python object per record. Arrow numbers the keys once per batch. States are read by distinct
keys, and the results are assigned to the records by key number.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from state_engine.floats import one_spelling

Numbers = NDArray[np.int64]
ReadKeys = Callable[[Sequence["pa.Array[Any]"]], list[Any]]


_NEVER = np.iinfo(np.int64).min
_LARGEST = np.iinfo(np.int64).max
_DENSE = 8
"""Integers are numbered by a table, instead of hashing, if their range is at most 8 times their count."""
_ROUNDS = 64
"""Keys with at most 64 records are summed together, one record of each key per step; other keys are summed singly."""


class Keys:
    """The keys of some records, in the order of the records.

    Args:
        columns: The key columns, one value per record each.
        read: Converts such columns to Python keys.
        times: Event time of each record in ms, null for a record without one; None if no record has one.

    Attributes:
        columns: As given.
        times: As given.
        taken: The distinct keys from which `take` selected these, and the position of each of these among them; None
            if this is not known.
    """

    taken: "tuple[Keys, Numbers] | None" = None

    def __init__(
        self, columns: "Sequence[pa.Array[Any]]", read: ReadKeys, times: "pa.Array[Any] | None" = None
    ) -> None:
        self.columns = tuple(columns)
        self.times = times
        self._read = read

    def __len__(self) -> int:
        return len(self.columns[0])

    @cached_property
    def codes(self) -> Numbers:
        """The number of each record's key; distinct keys are numbered in order of their first record."""
        if self.taken is not None:
            source, positions = self.taken
            codes, self.first = numbered(positions, len(source))
            return codes
        if len(self.columns) == 1 and (close := _close_together(self.columns[0])) is not None:
            codes, self.first = numbered(*close)
            return codes
        codes = _codes(self.columns[0])
        for column in self.columns[1:]:
            column_codes = _codes(column)
            size = int(column_codes.max(initial=-1)) + 1
            codes, _ = numbered(codes * size + column_codes, (int(codes.max(initial=-1)) + 1) * size)
        return codes

    @cached_property
    def first(self) -> Numbers:
        """The position of the first record of each distinct key."""
        return _first(self.codes, self._count)

    @cached_property
    def last(self) -> Numbers:
        """The position of the last record of each distinct key."""
        last = np.empty(self._count, np.int64)
        last[self.codes] = np.arange(len(self))
        return last

    @property
    def distinct(self) -> "Keys":
        """Each key once, in order of first records; the time of a key is that of its last record."""
        return self if self._count == len(self) else self._distinct

    @cached_property
    def _distinct(self) -> "Keys":
        distinct = self.take(self.first)
        distinct.times = None if self.times is None else self.times.take(indices(self.last))
        distinct.codes = np.arange(self._count)
        return distinct

    @cached_property
    def entries(self) -> list[Any]:
        """The distinct keys as Python values, as row functions get them."""
        distinct = self.distinct
        return self._read(distinct.columns)

    def take(self, positions: Numbers) -> "Keys":
        """Returns the keys of the records at these positions, in the order of the positions.

        Raises:
            TypeError: The positions are not integers.
        """
        positions = integers(positions)
        selection = indices(positions)
        times = None if self.times is None else self.times.take(selection)
        keys = Keys([column.take(selection) for column in self.columns], self._read, times)
        if self.taken is not None:
            keys.taken = self.taken[0], self.taken[1][positions]
        elif "codes" in self.__dict__ and self._count == len(self):
            keys.taken = self, positions
        return keys

    @property
    def latest_times(self) -> "pa.Array[Any] | None":
        """The latest event time of the records of each distinct key; null if none of them has one."""
        if self.times is None or self.distinct is self:
            return self.times
        times: pa.Array[Any] = latest_of(self.codes, self.times, self._count)
        return times

    def counts(self) -> Numbers:
        """Returns the number of records of each distinct key."""
        return self._counts.copy()

    def running_counts(self) -> Numbers:
        """Returns for each record the number of records of its key up to and including this one."""
        order, starts = self._by_key
        ordered = np.arange(1, len(self) + 1)
        ordered -= np.repeat(starts, self._counts)
        counts = np.empty(len(self), np.int64)
        counts[order] = ordered
        return counts

    def sums(self, values: Any) -> NDArray[Any]:
        """Returns the sum of each distinct key's values: int64 for integers, else double; null counts as 0.

        Raises:
            OverflowError: A sum of integers does not fit into 64 bits.
            TypeError: The column holds neither integers nor floating-point numbers.
            ValueError: The column does not have one value per record.
        """
        numbers = _numbers(values, len(self))
        if numbers.dtype == np.float64:
            return np.bincount(self.codes, numbers, self._count)
        order, starts = self._by_key
        return _narrowed(np.add.reduceat(numbers[order], starts)) if len(self) else numbers

    def running_sums(self, values: Any) -> NDArray[Any]:
        """Returns for each record the sum of its key's values up to and including this record; otherwise as `sums`."""
        numbers = _numbers(values, len(self))
        order, starts = self._by_key
        ordered = numbers[order]
        result = np.empty_like(ordered)
        if numbers.dtype == np.float64:
            result[order] = self._running_doubles(ordered)
            return result
        sums = np.cumsum(ordered)
        result[order] = sums - np.repeat(sums[starts] - ordered[starts], self._counts)
        return _narrowed(result)

    def _running_doubles(self, ordered: NDArray[Any]) -> NDArray[Any]:
        """Adds from left to right, record by record, so that no key's sum is rounded because of another key."""
        sums, counts, starts = ordered.copy(), self._counts, self._by_key[1]
        is_long = counts > _ROUNDS
        for start, count in zip(starts[is_long].tolist(), counts[is_long].tolist(), strict=True):
            sums[start : start + count] = np.cumsum(ordered[start : start + count])
        for n in range(1, int(counts[~is_long].max(initial=0))):
            positions = starts[~is_long & (counts > n)] + n
            sums[positions] += sums[positions - 1]
        return sums

    @cached_property
    def _count(self) -> int:
        return int(self.codes.max(initial=-1)) + 1

    @cached_property
    def _by_key(self) -> tuple[Numbers, Numbers]:
        """The records' positions, grouped by key and in order within a key, and where each distinct key begins."""
        return order_of(self.codes), np.cumsum(self._counts) - self._counts

    @cached_property
    def _counts(self) -> Numbers:
        return np.bincount(self.codes, minlength=self._count).astype(np.int64, copy=False)


def are_integers(column: Any) -> bool:
    """Returns whether a column holds signed integers, and no null."""
    return pa.types.is_signed_integer(column.type) and not column.null_count


def _close_together(column: Any) -> tuple[Numbers, int] | None:
    """Returns an integer column shifted to start at 0, and the size of its range; None if it has nulls or is sparse."""
    if not are_integers(column) or not len(column):
        return None
    ends = pc.min_max(column)
    least = ends["min"].as_py()
    size = ends["max"].as_py() - least + 1
    if size > _DENSE * len(column):
        return None
    return np.asarray(column).astype(np.int64) - least, size


def _codes(column: Any) -> Numbers:
    if pa.types.is_nested(column.type):
        return np.arange(len(column))  # Arrow cannot encode nested values: each row counts as a different one
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_floating(column.type):
        column = one_spelling(column)
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    codes: Numbers = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _numbers(values: Any, count: int) -> NDArray[Any]:
    """Returns a column as int64 or double; as Python integers if their sum may not fit into 64 bits."""
    array = values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values)
    kinds = pa.types
    if not (kinds.is_integer(array.type) or kinds.is_floating(array.type) or kinds.is_null(array.type)):
        raise TypeError(f"cannot sum a column of {array.type}; give integers or doubles")
    if len(array) != count:
        raise ValueError(f"{len(array)} values for {count} keys")
    if kinds.is_floating(array.type):
        return _filled(array.cast(pa.float64()), 0)
    numbers = _filled(array.cast(pa.int64()), 0)
    largest = max(int(numbers.max(initial=0)), -int(numbers.min(initial=0)))
    return numbers if largest * count <= _LARGEST else numbers.astype(object)


def _narrowed(sums: NDArray[Any]) -> NDArray[Any]:
    """Returns exact sums as int64, or raises OverflowError."""
    if sums.dtype == object and any(not -_LARGEST - 1 <= one <= _LARGEST for one in sums.tolist()):
        raise OverflowError("a sum of integers does not fit into 64 bits; cast the column to doubles, or to decimals")
    return sums.astype(np.int64)


def _filled(array: Any, value: int) -> NDArray[Any]:
    return np.asarray(pc.fill_null(array, value))


def integers(positions: Any) -> Numbers:
    """Returns positions, given as any sequence or array, as a new array.

    Raises:
        TypeError: They are not integers, but a mask, for example.
    """
    array = np.array(positions)
    if len(array) and array.dtype.kind not in "iu":
        raise TypeError(f"positions must be integers, not {array.dtype}; np.flatnonzero gives the positions of a mask")
    return array.astype(np.int64)


def _first(codes: Numbers, count: int) -> Numbers:
    """Returns the first position of each code."""
    first = np.empty(count, np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return first


def numbered(numbers: Numbers, size: int) -> tuple[Numbers, Numbers]:
    """Renumbers integers in order of first occurrence. Dense integers take a third of the time that hashing takes.

    Args:
        numbers: Not negative.
        size: All numbers are below it.

    Returns:
        The new number of each integer, and the first position of each new number.
    """
    count = len(numbers)
    if size > _DENSE * count:
        codes = _codes(indices(numbers))
        return codes, _first(codes, int(codes.max(initial=-1)) + 1)
    places = np.full(size, count)
    places[numbers[::-1]] = np.arange(count - 1, -1, -1)
    is_first = np.zeros(count, bool)
    is_first[places[places < count]] = True
    first = np.flatnonzero(is_first)
    places[numbers[first]] = np.arange(len(first))
    return places[numbers], first


def latest_of(codes: Numbers, times: Any, count: int) -> Any:
    """Returns the latest time of each code from 0 to `count - 1`; null for a code without a time."""
    latest = np.full(count, _NEVER)
    np.maximum.at(latest, codes, _filled(times, _NEVER))
    return pa.array(latest, mask=latest == _NEVER)


def order_of(*numbers: Numbers) -> Numbers:
    """Returns the positions that sort integers in ascending order; the sort is stable.

    With several arrays the last one is the primary sort key, as in NumPy's `lexsort`, which takes several times as
    long.
    """
    order = _ascending(numbers[0])
    for column in numbers[1:]:
        order = order[_ascending(column[order])]
    return order


def _ascending(numbers: Numbers) -> Numbers:
    """Sorts 16 bits at a time, which NumPy does by radix: a stable `argsort` of 64 bits takes 4 to 7 times as long."""
    numbers = numbers.astype(np.int64, copy=False)
    if (numbers[1:] >= numbers[:-1]).all():
        return np.arange(len(numbers))
    offsets = numbers.view(np.uint64) - numbers.min().view(np.uint64)  # wraps around: all 64 bits may be used
    order = np.argsort(offsets.astype(np.uint16), kind="stable")
    for shift in range(16, int(offsets.max()).bit_length(), 16):
        digits = (offsets >> np.uint64(shift)).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
    return order


def by_number(numbers: Numbers) -> Iterator[tuple[int, Numbers]]:
    """Yields each distinct number, in ascending order, with its positions."""
    order = order_of(numbers)
    ordered = numbers[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    for start, end in pairwise([*starts.tolist(), len(numbers)]):
        yield int(ordered[start]), order[start:end]


def indices(numbers: Numbers) -> Any:
    """Returns numbers as an Arrow array, which `take` needs."""
    return pa.array(numbers)


__all__ = ["Keys", "Numbers", "are_integers", "by_number", "indices", "integers", "latest_of", "numbered", "order_of"]
