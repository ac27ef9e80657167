"""Looks up integer keys that are close together: a table, indexed by the key, holds their numbers.

This makes no Python object of a key, and Arrow need not hash all known keys for each batch. The table takes four bytes
for each integer between the least and the largest key, and up to half as much again.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from state_engine.api.keys import Numbers, are_integers

_DENSE = 4
"""A table is worth its memory with at most this many integers per key, between the least and the largest key."""
_LARGEST = np.iinfo(np.int64).max

KnownKeys = Callable[[int], Iterable["pa.Array[Any]"]]


class IntegerKeys:
    """The numbers of some integer keys.

    Attributes:
        count: How many keys were added, whether or not a table holds them.
    """

    def __init__(self) -> None:
        self.count = 0
        self._ends: tuple[int, int] | None = None  # least and largest key
        self._least = 0
        self._table: NDArray[np.int32] | None = None
        self._placed = 0  # how many keys, the first ones, are in the table
        self._spoilt = False

    @property
    def are_close(self) -> bool:
        """Whether a table of the added keys is worth its memory; it never is if one of them is no integer."""
        return not self._spoilt and self._ends is not None and self._room <= _DENSE * self.count

    @property
    def _room(self) -> int:
        assert self._ends is not None
        return self._ends[1] - self._ends[0] + 1

    def add(self, column: "pa.Array[Any]") -> None:
        """Adds further keys, numbered from `count` on."""
        self.count += len(column)
        self._spoilt = self._spoilt or not are_integers(column)
        if self._spoilt or not len(column):
            return
        ends = pc.min_max(column)
        least, largest = ends["min"].as_py(), ends["max"].as_py()
        if self._ends is not None:
            least, largest = min(least, self._ends[0]), max(largest, self._ends[1])
        self._ends = least, largest

    def numbers_of(self, wanted: "pa.Array[Any]", known: KnownKeys) -> Numbers:
        """Returns the numbers of keys, -1 for a key without one. Call it only if the known keys `are_close`.

        Args:
            wanted: The keys, for which `are_integers` is true.
            known: Returns the added keys, from a number on.
        """
        table = self._filled(known)
        places = (np.asarray(wanted).astype(np.int64) - self._least).view(np.uint64)
        inside = places < len(table)
        if inside.all():
            return table[places.view(np.int64)].astype(np.int64)
        numbers = np.full(len(wanted), -1)
        numbers[inside] = table[places[inside].view(np.int64)]
        return numbers

    def _filled(self, known: KnownKeys) -> NDArray[np.int32]:
        assert self._ends is not None
        least, largest = self._ends
        table = self._table
        if table is None or least < self._least or largest >= self._least + len(table):
            # Spare room, so that keys that count upwards do not need a new table each time.
            room = min(self._room + self._room // 2, _LARGEST - least + 1)
            self._table = table = np.full(room, -1, np.int32)
            self._least, self._placed = least, 0
        if self._placed < self.count:
            for column in known(self._placed):
                end = self._placed + len(column)
                table[np.asarray(column).astype(np.int64) - self._least] = np.arange(self._placed, end)
                self._placed = end
        return table


__all__ = ["IntegerKeys"]
