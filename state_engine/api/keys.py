"""The keys of a batch's records, as columns: what a vectorised function asks states with.

Nothing here makes a Python object per record. Keys are numbered once per batch, by Arrow; states are asked by the
distinct keys, and what they give is spread over the records by number.
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
"""Numbers below so many times as many as there are of them have a place each in a table; others are hashed."""
_ROUNDS = 64
"""Up to so many records of a key are added key by key at once; of more of them, each key by itself."""


class Keys:
    """The keys of some records, in their order.

    Args:
        columns: The key columns, one value per record each.
        read: Makes Python keys of such columns.
        times: Event time of each record in ms, null where it has none; None where no record has one.

    Attributes:
        columns: As given.
        times: As given.
        taken: The keys, each there once, that these were taken from, and the position of each among them; None where
            that is not known.
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
        """The number of each record's key among the distinct ones; these are numbered as they come."""
        if self.taken is not None:
            source, positions = self.taken
            codes, self.first = numbered(positions, len(source))
            return codes
        if len(self.columns) == 1 and (close := _close_together(self.columns[0])) is not None:
            codes, self.first = numbered(*close)
            return codes
        codes = _codes(self.columns[0])
        for column in self.columns[1:]:
            further = _codes(column)
            size = int(further.max(initial=-1)) + 1
            codes, _ = numbered(codes * size + further, (int(codes.max(initial=-1)) + 1) * size)
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
        """Each key once, in the order of its first record; its time is that of its last one."""
        return self if self._count == len(self) else self._distinct

    @cached_property
    def _distinct(self) -> "Keys":
        distinct = self.take(self.first)
        distinct.times = None if self.times is None else self.times.take(indices(self.last))
        distinct.codes = np.arange(self._count)
        return distinct

    @cached_property
    def entries(self) -> list[Any]:
        """The distinct keys as Python values: what rows of this key have as theirs."""
        distinct = self.distinct
        return self._read(distinct.columns)

    def take(self, positions: Numbers) -> "Keys":
        """Returns the keys of the records at these positions, in their order.

        Raises:
            TypeError: They are no integers.
        """
        positions = integers(positions)
        taken = indices(positions)
        times = None if self.times is None else self.times.take(taken)
        keys = Keys([column.take(taken) for column in self.columns], self._read, times)
        if self.taken is not None:
            keys.taken = self.taken[0], self.taken[1][positions]
        elif "codes" in self.__dict__ and self._count == len(self):
            keys.taken = self, positions
        return keys

    @property
    def latest_times(self) -> "pa.Array[Any] | None":
        """The latest event time among the records of each distinct key, null where none has one."""
        if self.times is None or self.distinct is self:
            return self.times
        times: pa.Array[Any] = latest_of(self.codes, self.times, self._count)
        return times

    def counts(self) -> Numbers:
        """Returns how many records each distinct key has."""
        return self._counts.copy()

    def running_counts(self) -> Numbers:
        """Returns of each record how many of its key there are up to it, itself among them."""
        order, starts = self._by_key
        ordered = np.arange(1, len(self) + 1)
        ordered -= np.repeat(starts, self._counts)
        counts = np.empty(len(self), np.int64)
        counts[order] = ordered
        return counts

    def sums(self, values: Any) -> NDArray[Any]:
        """Returns the sum of a column's values of each distinct key: int64 of integers, else double; null is 0.

        Raises:
            OverflowError: A sum of integers has no room in 64 bits.
            TypeError: The column holds no integers and no floating-point numbers.
            ValueError: It has another length.
        """
        numbers = _numbers(values, len(self))
        if numbers.dtype == np.float64:
            return np.bincount(self.codes, numbers, self._count)
        order, starts = self._by_key
        return _narrowed(np.add.reduceat(numbers[order], starts)) if len(self) else numbers

    def running_sums(self, values: Any) -> NDArray[Any]:
        """Returns of each record the sum of a column's values of its key, up to it and with it; otherwise as `sums`."""
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
        """Adds from left to right, as one record after the other would: no key's sum is rounded by another's."""
        sums, counts, starts = ordered.copy(), self._counts, self._by_key[1]
        many = counts > _ROUNDS
        for start, count in zip(starts[many].tolist(), counts[many].tolist(), strict=True):
            sums[start : start + count] = np.cumsum(ordered[start : start + count])
        for n in range(1, int(counts[~many].max(initial=0))):
            at = starts[~many & (counts > n)] + n
            sums[at] += sums[at - 1]
        return sums

    @cached_property
    def _count(self) -> int:
        return int(self.codes.max(initial=-1)) + 1

    @cached_property
    def _by_key(self) -> tuple[Numbers, Numbers]:
        """The records' positions, those of a key side by side in their order, and where each distinct key begins."""
        return order_of(self.codes), np.cumsum(self._counts) - self._counts

    @cached_property
    def _counts(self) -> Numbers:
        return np.bincount(self.codes, minlength=self._count).astype(np.int64, copy=False)


def are_integers(column: Any) -> bool:
    """Returns whether a column holds integers with a sign, and no null."""
    return pa.types.is_signed_integer(column.type) and not column.null_count


def _close_together(column: Any) -> tuple[Numbers, int] | None:
    """Returns integers without null as numbers from 0 and what they are below; None where these are too sparse."""
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
        return np.arange(len(column))  # Arrow numbers no rows: each is taken for another one
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_floating(column.type):
        column = one_spelling(column)
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    codes: Numbers = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _numbers(values: Any, count: int) -> NDArray[Any]:
    """Returns a column as int64 or double; as Python's integers where a sum of them may not fit into 64 bits."""
    array = values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values)
    kinds = pa.types
    if not (kinds.is_integer(array.type) or kinds.is_floating(array.type) or kinds.is_null(array.type)):
        raise TypeError(f"sums of a column of {array.type}; give integers or doubles")
    if len(array) != count:
        raise ValueError(f"{len(array)} values for {count} keys")
    if kinds.is_floating(array.type):
        return _filled(array.cast(pa.float64()), 0)
    numbers = _filled(array.cast(pa.int64()), 0)
    largest = max(int(numbers.max(initial=0)), -int(numbers.min(initial=0)))
    return numbers if largest * count <= _LARGEST else numbers.astype(object)


def _narrowed(sums: NDArray[Any]) -> NDArray[Any]:
    """Returns exact sums as int64."""
    if sums.dtype == object and any(not -_LARGEST - 1 <= one <= _LARGEST for one in sums.tolist()):
        raise OverflowError("a sum of integers has no room in 64 bits; cast the column to doubles, or to decimals")
    return sums.astype(np.int64)


def _filled(array: Any, value: int) -> NDArray[Any]:
    return np.asarray(pc.fill_null(array, value))


def integers(positions: Any) -> Numbers:
    """Returns positions, whatever has them, as an array that nobody else has.

    Raises:
        TypeError: They are no integers: a mask, say.
    """
    found = np.array(positions)
    if len(found) and found.dtype.kind not in "iu":
        raise TypeError(f"positions are integers, not {found.dtype}; np.flatnonzero gives those of a mask")
    return found.astype(np.int64)


def _first(codes: Numbers, count: int) -> Numbers:
    """Returns the position of the first one of each code."""
    first = np.empty(count, np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
    return first


def numbered(numbers: Numbers, size: int) -> tuple[Numbers, Numbers]:
    """Numbers numbers anew, as they come; where they are not too sparse in a third of the time that hashing takes.

    Args:
        numbers: Not negative.
        size: What they are below.

    Returns:
        The new number of each, and the position of the first one of each.
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
    """Returns the latest of the times of each code below a count, null where it has none."""
    latest = np.full(count, _NEVER)
    np.maximum.at(latest, codes, _filled(times, _NEVER))
    return pa.array(latest, mask=latest == _NEVER)


def order_of(*numbers: Numbers) -> Numbers:
    """Returns the positions of integers in ascending order, of equal ones in the order in which they stand.

    Of several the last counts most, as in NumPy's `lexsort`, which takes several times as long.
    """
    order = _ascending(numbers[0])
    for further in numbers[1:]:
        order = order[_ascending(further[order])]
    return order


def _ascending(numbers: Numbers) -> Numbers:
    """NumPy sorts 16 bits by radix: a stable `argsort` of all 64 takes four to seven times as long."""
    numbers = numbers.astype(np.int64, copy=False)
    if (numbers[1:] >= numbers[:-1]).all():
        return np.arange(len(numbers))
    above = numbers.view(np.uint64) - numbers.min().view(np.uint64)  # wraps around: all 64 bits may be used
    order = np.argsort(above.astype(np.uint16), kind="stable")
    for shift in range(16, int(above.max()).bit_length(), 16):
        digits = (above >> np.uint64(shift)).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
    return order


def by_number(numbers: Numbers) -> Iterator[tuple[int, Numbers]]:
    """Yields each number that is there, in order, with the positions that it has."""
    order = order_of(numbers)
    ordered = numbers[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    for start, end in pairwise([*starts.tolist(), len(numbers)]):
        yield int(ordered[start]), order[start:end]


def indices(numbers: Numbers) -> Any:
    """Returns numbers as what `take` of an Arrow array takes."""
    return pa.array(numbers)


__all__ = ["Keys", "Numbers", "are_integers", "by_number", "indices", "integers", "latest_of", "numbered", "order_of"]
