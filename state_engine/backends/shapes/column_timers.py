"""Timers by columns: a timer is no Python object, neither while it waits nor when it fires.

The log gets the same rows as from timers by entry.
"""

from collections.abc import Callable, Iterable, Iterator
from operator import index
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.keys import Keys, Numbers, indices, order_of
from state_engine.backends.ascending import distinct_with_positions
from state_engine.backends.batch_keys import NamespacedKeys
from state_engine.backends.delta import Delta, one_array
from state_engine.backends.entry_index import ByNamespace, ByPlace, Renumber, keys_of, namespaces_of
from state_engine.backends.keys import NO_KEY, KeyContext, join_entries
from state_engine.backends.shapes.timers import NEVER, OfTimer, TimerTable, rows_that
from state_engine.backends.stores.timer_runs import TimerRuns, Timers
from state_engine.log.ops import Op

_FEW_SPACES = 64
"""Up to this many namespaces of a batch, timers are taken namespace by namespace."""


class ColumnTimers(TimerTable):
    """The timers of one clock, in the order of their times: one per place and time, which `TimerRuns` ensures.

    Args:
        addressing: Numbers the entries of this table.
        by_namespace: Numbers the entries of other tables.

    Attributes:
        addressing: As given.
    """

    def __init__(self, addressing: ByPlace, by_namespace: ByNamespace) -> None:
        self.addressing = addressing
        self._by_namespace = by_namespace
        self._index = addressing.index
        self.empty()

    def empty(self) -> None:
        self.first = NEVER
        self._timers = TimerRuns()

    @property
    def rows(self) -> int:
        return self._timers.rows

    @property
    def keys(self) -> int:
        return self._timers.rows

    def earliest(self) -> int | None:
        earliest = self._timers.earliest()
        self.first = NEVER if earliest is None else earliest
        return earliest

    # Many timers at once ----------------------------------------------------------------------------------------------

    def register_keys(self, keys: Keys, times: Numbers) -> None:
        if not len(keys):
            return
        timers = Timers(times, self._index.places(keys))
        if keys.distinct is keys and isinstance(keys, NamespacedKeys) and len(keys.namespaces) <= _FEW_SPACES:
            # Windows: their keys are already in order by namespace, because states were called with them.
            parts = [part.positions for part in self._by_namespace.parts(keys)]
            timers = timers.take(np.concatenate(sorted(parts, key=lambda positions: int(times[positions[0]]))))
        self._register(timers)

    def delete_keys(self, keys: Keys, times: Numbers) -> None:
        self._timers.remove(Timers(times, self._index.places(keys)))

    def due_keys(self, limit: int, *, in_turn: bool = True) -> Keys | None:
        timers = self._timers.due(limit)
        if not len(timers.times):
            return None
        timers = timers.take(order_of(timers.times))
        numbers, positions = distinct_with_positions(keys_of(timers.places), len(self._index.keys))
        distinct, times, spaces = self._index.keys.each(numbers), pa.array(timers.times), namespaces_of(timers.places)
        if spaces.any():
            space_numbers, of_timers = distinct_with_positions(spaces, len(self._index.namespaces))
            texts = self._index.namespaces.texts_of(space_numbers).to_pylist()
            keys: Keys = NamespacedKeys([indices(positions), indices(of_timers)], distinct, texts, times)
        else:
            keys = distinct.take(positions)
            keys.times = times
        if not in_turn:
            return keys

        def columns_at(tied: Numbers) -> list[Any]:
            names = self._index.namespaces.texts_of(spaces[tied]).cast(pa.string())
            return [*distinct.take(positions[tied]).columns, names]

        return keys.take(in_order(timers.times, columns_at))

    def _register(self, timers: Timers) -> None:
        if len(timers.times):
            self._timers.add(timers)
            self.first = min(self.first, int(timers.times.min()))

    # One by one -------------------------------------------------------------------------------------------------------

    def registering(self, keys: KeyContext) -> OfTimer:
        return lambda timestamp: self.register(keys.entry, int(index(timestamp)))

    def deleting(self, keys: KeyContext) -> OfTimer:
        return lambda timestamp: self.delete(keys.entry, int(index(timestamp)))

    def register(self, entry: Any, time: int) -> None:
        if entry is NO_KEY:
            raise entry.refused()
        self.register_all([entry], time)

    def register_all(self, entries: list[Any], time: int) -> None:
        self._register(self._at(entries, time))

    def delete(self, entry: Any, time: int) -> None:
        if entry is NO_KEY:
            raise entry.refused()
        self._timers.remove(self._at([entry], time))

    def due(self, limit: int) -> Iterator[tuple[int, Any]]:
        while (time := self.earliest()) is not None and time <= limit:
            for entry in sorted(self._entries(time), key=repr):
                timer = self._at([entry], time)
                if self._timers.has(timer)[0]:
                    self._timers.remove(timer)
                    yield time, entry

    def all_due(self, limit: int, *, in_turn: bool = True) -> Iterator[tuple[int, list[Any]]]:
        while (time := self.earliest()) is not None and time <= limit:
            entries = self._entries(time)
            self._timers.due(time)
            yield time, sorted(entries, key=repr) if in_turn else entries

    def _entries(self, time: int) -> list[Any]:
        places, key_entries = self._timers.at(time).places, self._index.keys.entries
        keys = [key_entries[number] for number in keys_of(places).tolist()]
        return join_entries(keys, self._index.names_at(places).to_pylist())

    def _at(self, entries: list[Any], time: int) -> Timers:
        return Timers(np.full(len(entries), time, np.int64), self._index.places_of_entries(entries))

    # Epochs -----------------------------------------------------------------------------------------------------------

    def freeze(self) -> Delta | None:
        added, removed = self._timers.changes()
        if not len(added.times) and not len(removed.times):
            return None
        times, places = (np.concatenate(pair) for pair in zip(added, removed, strict=True))
        ops, values = rows_that(len(added.times), len(removed.times))
        names = self._index.names_at(places)
        return Delta(ops, values, pa.array(times), numbers=keys_of(places), namespaces=names)

    def settle(self) -> None:
        self._end(sealed=True)

    def forget(self) -> None:
        self._end(sealed=False)

    def _end(self, *, sealed: bool) -> None:
        self._timers.end(sealed=sealed)
        self.earliest()

    def merge(self, delta: Delta) -> None:
        places, cleared = self._index.places_of_rows(delta), delta.ops == Op.CLEAR
        if cleared.any():
            self._timers.keep(~np.isin(self._timers.places, places[cleared]))
        timers = Timers(np.asarray(one_array(delta.user_keys)), places).take(np.flatnonzero(~cleared))
        order, new = timers.ordered()
        last = order[np.append(new[1:], True)[: len(order)]]  # of the rows of one timer
        is_put = delta.ops[~cleared][last] == Op.PUT
        timers = timers.take(last)
        self._register(timers.take(np.flatnonzero(is_put)))
        self._timers.remove(timers.take(np.flatnonzero(~is_put)))
        self._end(sealed=True)

    def drop_group(self, group: int) -> None:
        in_group = self._index.keys.groups == group
        self._timers.keep(~in_group[keys_of(self._timers.places)])
        self._end(sealed=True)

    def numbers(self) -> Iterable[Numbers]:
        """Returns all places that the table holds."""
        yield self._timers.places

    def renumber(self, new: Renumber) -> None:
        """Gives entries other places, in the same order."""
        self._timers.renumber(new(self._timers.places))


def in_order(times: Numbers, columns_at: Callable[[Numbers], list[Any]]) -> Numbers:
    """Returns the order of timers that ascend by time: timers of one time are ordered by key, then by namespace.

    Unlike the order of the keys' numbers, it does not depend on whether a cache was warm.

    Args:
        times: Of the timers.
        columns_at: Returns, for the timers at some positions, the columns of their keys, and of namespaces if any.
    """
    order, tied = np.arange(len(times)), np.zeros(len(times), bool)
    tied[1:] = times[1:] == times[:-1]
    tied[:-1] |= tied[1:]
    rows = np.flatnonzero(tied)
    if len(rows):
        some = [pa.array(times[rows]), *columns_at(rows)]
        table = pa.table(some, names=[str(n) for n in range(len(some))])
        order[rows] = rows[np.asarray(pc.sort_indices(table, [(name, "ascending") for name in table.column_names]))]
    return order


__all__ = ["ColumnTimers", "in_order"]
