"""The keys of a batch's records, as columns: what a vectorised function asks states with.

Nothing here makes a Python object per record. Keys are numbered once per batch, by Arrow; states are asked by the
distinct keys, and what they give is spread over the records by number.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
ReadKeys = Callable[[Sequence["pa.Array[Any]"]], list[Any]]


_NEVER = np.iinfo(np.int64).min


class Keys:
    """The keys of some records, in their order.

    Args:
        columns: The key columns, one value per record each.
        read: Makes Python keys of such columns.
        times: Event time of each record in ms, null where it has none; None where no record has one.

    Attributes:
        columns: As given.
        times: As given.
    """

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
        codes = _codes(self.columns[0])
        for column in self.columns[1:]:
            further = _codes(column)
            codes = _codes(pa.array(codes * (int(further.max(initial=0)) + 1) + further))
        return codes

    @cached_property
    def first(self) -> Numbers:
        """The position of the first record of each distinct key."""
        count = len(self)
        first = np.empty(self._count, np.int64)
        first[self.codes[::-1]] = np.arange(count - 1, -1, -1)
        return first

    @cached_property
    def last(self) -> Numbers:
        """The position of the last record of each distinct key."""
        last = np.empty(self._count, np.int64)
        last[self.codes] = np.arange(len(self))
        return last

    @cached_property
    def distinct(self) -> "Keys":
        """Each key once, in the order of its first record; its time is that of its last one."""
        if self._count == len(self):
            return self
        columns = [column.take(indices(self.first)) for column in self.columns]
        times = None if self.times is None else self.times.take(indices(self.last))
        distinct = Keys(columns, self._read, times)
        distinct.codes = np.arange(self._count)
        return distinct

    @cached_property
    def entries(self) -> list[Any]:
        """The distinct keys as Python values: what rows of this key have as theirs."""
        distinct = self.distinct
        return self._read(distinct.columns)

    @property
    def latest_times(self) -> "pa.Array[Any] | None":
        """The latest event time among the records of each distinct key, null where none has one."""
        if self.times is None or self.distinct is self:
            return self.times
        latest = np.full(self._count, _NEVER)
        np.maximum.at(latest, self.codes, _filled(self.times, _NEVER))
        times: pa.Array[Any] = pa.array(latest, mask=latest == _NEVER)
        return times

    def counts(self) -> Numbers:
        """Returns how many records each distinct key has."""
        return np.bincount(self.codes, minlength=self._count).astype(np.int64)

    def running_counts(self) -> Numbers:
        """Returns of each record how many of its key there are up to it, itself among them."""
        order, starts = self._by_key
        counts = np.empty(len(self), np.int64)
        counts[order] = np.arange(len(self)) - np.repeat(starts, self.counts()) + 1
        return counts

    def sums(self, values: Any) -> NDArray[Any]:
        """Returns the sum of a column's values of each distinct key: int64 of integers, else double; null is 0."""
        numbers = _numbers(values)
        if numbers.dtype == np.float64:
            return np.bincount(self.codes, numbers, self._count)
        order, starts = self._by_key
        return np.add.reduceat(numbers[order], starts) if len(self) else numbers

    def running_sums(self, values: Any) -> NDArray[Any]:
        """Returns of each record the sum of a column's values of its key, up to it and with it."""
        numbers = _numbers(values)
        if numbers.dtype == np.float64:
            import pandas as pd  # costs half a second, which programs that only name this class would pay

            return pd.Series(numbers).groupby(self.codes).cumsum().to_numpy()  # no key's sum is rounded by another's
        order, starts = self._by_key
        sums = np.cumsum(numbers[order])
        result = np.empty_like(sums)
        result[order] = sums - np.repeat(sums[starts] - numbers[order][starts], self.counts())
        return result

    @property
    def _count(self) -> int:
        return int(self.codes.max(initial=-1)) + 1

    @cached_property
    def _by_key(self) -> tuple[Numbers, Numbers]:
        """The records' positions, those of a key side by side in their order, and where each distinct key begins."""
        order = np.argsort(self.codes, kind="stable")
        return order, np.concatenate([[0], np.cumsum(self.counts())[:-1]]).astype(np.int64)[: self._count]


def _codes(column: Any) -> Numbers:
    if pa.types.is_nested(column.type):
        return np.arange(len(column))  # Arrow numbers no rows: each is taken for another one
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    codes: Numbers = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _numbers(values: Any) -> NDArray[Any]:
    array = pa.array(values) if isinstance(values, np.ndarray) else values
    wide = pa.int64() if pa.types.is_integer(array.type) else pa.float64()
    return _filled(array.cast(wide), 0)


def _filled(array: Any, value: int) -> NDArray[Any]:
    return np.asarray(pc.fill_null(array, value))


def indices(numbers: Numbers) -> Any:
    """Returns numbers as what `take` of an Arrow array takes."""
    return pa.array(numbers)


__all__ = ["Keys", "Numbers", "indices"]
