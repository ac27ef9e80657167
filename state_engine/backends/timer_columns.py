"""What tables of timers have in common that lie as columns, of numbered keys."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from operator import index
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.keys import Numbers
from state_engine.backends.key_numbers import KeyNumbers
from state_engine.backends.keys import NO_KEY, KeyContext
from state_engine.backends.namespaced_tables import NamespacedTable
from state_engine.backends.tables import LogRows
from state_engine.backends.timers import OfTimer, TimerTable
from state_engine.log.ops import Op


class TimerColumns(NamespacedTable, TimerTable):
    """The timers of one clock as columns. One by one they are asked for, too, but that is not what they are made for.

    Args:
        numbers: Of the keys.
    """

    def __init__(self, numbers: KeyNumbers) -> None:
        TimerTable.__init__(self)
        self.numbers = numbers

    @abstractmethod
    def _delete(self, entry: Any, time: int) -> bool:
        """Removes a timer; returns whether it was there."""

    @abstractmethod
    def _entries(self, time: int) -> list[Any]:
        """Returns the entries that stand at a time."""

    def registering(self, keys: KeyContext) -> OfTimer:
        return lambda timestamp: self.register(keys.entry, int(index(timestamp)))

    def deleting(self, keys: KeyContext) -> OfTimer:
        return lambda timestamp: self.delete(keys.entry, int(index(timestamp)))

    def register(self, entry: Any, time: int) -> None:
        if entry is NO_KEY:
            raise entry.refused()
        self.register_all([entry], time)

    def delete(self, entry: Any, time: int) -> None:
        if entry is NO_KEY:
            raise entry.refused()
        self._delete(entry, time)

    def due(self, limit: int) -> Iterator[tuple[int, Any]]:
        while (time := self.earliest()) is not None and time <= limit:
            for entry in sorted(self._entries(time), key=repr):
                if self._delete(entry, time):
                    yield time, entry


def timer_rows(times: Numbers, came: int, numbers: Numbers, namespaces: Any) -> LogRows:
    """Returns the rows of timers, of which the first ones came, and the others went.

    Args:
        times: Of the timers.
        came: How many came.
        numbers: Of their keys.
        namespaces: Of each, as a column.
    """
    ops = np.repeat(np.array([Op.PUT, Op.DELETE], np.int8), [came, len(times) - came])
    there = pa.array(ops == Op.PUT, mask=ops == Op.DELETE)
    return LogRows([], ops, there, pa.array(times), numbers=numbers, namespaces=namespaces)


def in_order(times: Numbers, columns_at: Callable[[Numbers], list[Any]]) -> Numbers:
    """Returns the order of timers that ascend by time: those of one time in that of their keys, and namespaces.

    It does not tell whether a cache was warm, as that of the keys' numbers would.

    Args:
        times: Of the timers.
        columns_at: Gives, of timers at some positions, the columns of their keys, and namespaces if there are any.
    """
    order, tied = np.arange(len(times)), np.zeros(len(times), bool)
    tied[1:] = times[1:] == times[:-1]
    tied[:-1] |= tied[1:]
    at = np.flatnonzero(tied)
    if len(at):
        some = [pa.array(times[at]), *columns_at(at)]
        table = pa.table(some, names=[str(n) for n in range(len(some))])
        order[at] = at[np.asarray(pc.sort_indices(table, [(name, "ascending") for name in table.column_names]))]
    return order


__all__ = ["TimerColumns", "in_order", "timer_rows"]
