"""Timers of functions over batches, as columns, however many times they have.

A timer is no object, neither while it waits nor when it fires. What the log gets is what a `TimerTable` gives it.
"""

from collections.abc import Iterable, Iterator
from itertools import compress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.keys import Keys, Numbers, indices, order_of
from state_engine.backends.keys import join_entries, split_entries
from state_engine.backends.namespaced_keys import EntryKeys, NamespacedKeys
from state_engine.backends.tables import LogRows
from state_engine.backends.timer_columns import TimerColumns, timer_rows
from state_engine.backends.timer_runs import TimerRuns, Timers
from state_engine.backends.timers import NEVER
from state_engine.log.ops import Op

_BITS = 32
"""Behind the number of the key a place has that of the namespace."""
_FEW = 1000
"""So many namespaces are known, beside twice as many as there are timers, before somebody looks who needs them."""


class ColumnTimerTable(TimerColumns):
    """The timers of one clock, in the order of their times."""

    def empty(self) -> None:
        super().empty()
        self._timers = TimerRuns()
        self._names: dict[str | None, int] = {None: 0}

    def earliest(self) -> int | None:
        earliest = self._timers.earliest()
        self.first = NEVER if earliest is None else earliest
        return earliest

    # Many timers at once ----------------------------------------------------------------------------------------------

    def register_keys(self, keys: Keys, times: Numbers) -> None:
        self._register(Timers(times, self._places_of(keys)))

    def delete_keys(self, keys: Keys, times: Numbers) -> None:
        self._timers.remove(Timers(times, self._places_of(keys)))

    def due_keys(self, limit: int, *, in_turn: bool = True) -> Keys | None:
        timers = self._timers.due(limit)
        if not len(timers.times):
            return None
        timers = timers.take(order_of(timers.times))
        own, positions = self.numbers.among(timers.places >> _BITS)
        spaces, times = timers.places & ((1 << _BITS) - 1), pa.array(timers.times)
        if spaces.any():
            columns = [indices(positions), indices(spaces)]
            keys: Keys = NamespacedKeys(columns, own, list(self._names), times)
        else:
            keys = own.take(positions)
            keys.times = times
        if not in_turn:
            return keys
        names = pa.array(list(self._names), pa.string()).take(indices(spaces))
        return keys.take(_in_turn(timers.times, own, positions, names))

    def _register(self, timers: Timers) -> None:
        if len(timers.times):
            self._timers.add(timers)
            self.first = min(self.first, int(timers.times.min()))

    def _places_of(self, keys: Keys) -> Numbers:
        """Returns the place of each record's key and namespace."""
        if isinstance(keys, EntryKeys):
            return self._places(*split_entries(keys.each))
        if isinstance(keys, NamespacedKeys):
            names = np.array([self._named(name) for name in keys.namespaces], np.int64)
            return (self.numbers.of_taken(keys.own.distinct, keys.of_own) << _BITS) | names[keys.spaces]
        return self.numbers.of_each(keys)[keys.codes] << _BITS

    def _places(self, keys: list[Any], namespaces: "list[str | None] | None") -> Numbers:
        places = self.numbers.of(keys) << _BITS
        return places if namespaces is None else places | np.array([*map(self._named, namespaces)], np.int64)

    def _named(self, namespace: str | None) -> int:
        return self._names.setdefault(namespace, len(self._names))

    # One by one -------------------------------------------------------------------------------------------------------

    def register_all(self, entries: list[Any], time: int) -> None:
        self._register(self._of_time(entries, time))

    def all_due(self, limit: int, *, in_turn: bool = True) -> Iterator[tuple[int, list[Any]]]:
        while (time := self.earliest()) is not None and time <= limit:
            entries = self._entries(time)
            self._timers.due(time)
            yield time, sorted(entries, key=repr) if in_turn else entries

    def _delete(self, entry: Any, time: int) -> bool:
        timer = self._of_time([entry], time)
        there = self._timers.has(timer)[0]
        self._timers.remove(timer)
        return bool(there)

    def _entries(self, time: int) -> list[Any]:
        places = self._timers.at(time).places
        known, names = self.numbers.entries, list(self._names)
        keys = [known[number] for number in (places >> _BITS).tolist()]
        return join_entries(keys, [names[at] for at in (places & ((1 << _BITS) - 1)).tolist()])

    def _of_time(self, entries: list[Any], time: int) -> Timers:
        places = self._places(*split_entries(entries))
        return Timers(np.full(len(places), time, np.int64), places)

    # Epochs -----------------------------------------------------------------------------------------------------------

    def freeze(self) -> LogRows | None:
        came, went = self._timers.changes()
        if not len(came.times) and not len(went.times):
            return None
        times, places = (np.concatenate(pair) for pair in zip(came, went, strict=True))
        spaces: Any = pa.array((places & ((1 << _BITS) - 1)).astype(np.int32))
        namespaces = pa.DictionaryArray.from_arrays(spaces, pa.array(list(self._names), pa.string()))
        return timer_rows(times, len(came.times), places >> _BITS, namespaces)

    def settle(self) -> None:
        self._end(sealed=True)

    def forget(self) -> None:
        self._end(sealed=False)

    def _end(self, *, sealed: bool) -> None:
        self._timers.end(sealed=sealed)
        self.rows = self._timers.rows
        self.earliest()
        if len(self._names) > 2 * self.rows + _FEW:
            self._forget_names()

    def _forget_names(self) -> None:
        """Namespaces come and go: those that no timer has any more lose their numbers."""
        places, used = self._timers.places, np.zeros(len(self._names), bool)
        used[places & ((1 << _BITS) - 1)] = True
        used[0] = True
        kept = compress(self._names, used.tolist())
        self._names = {name: n for n, name in enumerate(kept)}
        new = np.cumsum(used) - 1
        self._timers.renumber((places >> _BITS << _BITS) | new[places & ((1 << _BITS) - 1)])

    def apply_numbers(self, numbers: Numbers, namespaces: Any, ops: Any, values: Any, user_keys: Any) -> None:
        encoded = namespaces.dictionary_encode("encode")
        names = np.array([self._named(name) for name in encoded.dictionary.to_pylist()], np.int64)
        places, times = (numbers << _BITS) | names[np.asarray(encoded.indices)], user_keys
        start = 0
        for at in [*np.flatnonzero(ops == Op.CLEAR).tolist(), len(ops)]:
            rows = slice(start, at)
            self._apply(Timers(np.asarray(times[rows]), places[rows]), ops[rows])
            if at < len(ops):
                self._timers.keep(self._timers.places != places[at])
            start = at + 1
        self._end(sealed=True)

    def _apply(self, timers: Timers, ops: Any) -> None:
        """Does what rows say without a `clear` among them; of a timer the last one counts."""
        order = order_of(timers.places, timers.times)
        ordered = timers.take(order)
        same = (np.diff(ordered.times) == 0) & (np.diff(ordered.places) == 0)
        last = order[np.append(~same, True)[: len(order)]]
        timers, came = timers.take(last), ops[last] == Op.PUT
        self._register(timers.take(np.flatnonzero(came)))
        self._timers.remove(timers.take(np.flatnonzero(~came)))
        self._timers.end(sealed=True)

    def drop_keys(self, gone: Any) -> None:
        self._timers.keep(~gone[self._timers.places >> _BITS])
        self._end(sealed=True)

    def used(self) -> Iterable[Numbers]:
        return [self._timers.places >> _BITS]

    def renumber(self, new: Numbers) -> None:
        places = self._timers.places
        self._timers.renumber((new[places >> _BITS] << _BITS) | (places & ((1 << _BITS) - 1)))


def _in_turn(times: Numbers, own: Keys, positions: Numbers, names: Any) -> Numbers:
    """Returns the order of timers that ascend by time: those of one time in the order of their keys and namespaces.

    It does not tell whether a cache was warm, as that of the keys' numbers would.

    Args:
        times: Of the timers.
        own: Keys, each there once.
        positions: Where those of the timers stand among these.
        names: The namespaces of the timers.
    """
    order, tied = np.arange(len(times)), np.zeros(len(times), bool)
    tied[1:] = times[1:] == times[:-1]
    tied[:-1] |= tied[1:]
    at = np.flatnonzero(tied)
    if not len(at):
        return order
    keys = own.take(positions[at])
    if any(pa.types.is_nested(column.type) for column in keys.columns):  # Arrow puts rows in no order
        spelt = [repr(keys.entries[code]) for code in keys.codes.tolist()]
        columns: list[Any] = [pa.array(spelt, pa.string())]
    else:
        columns = list(keys.columns)
    columns = [pa.array(times[at]), *columns, names.take(indices(at))]
    table = pa.table(columns, names=[str(n) for n in range(len(columns))])
    order[at] = at[np.asarray(pc.sort_indices(table, [(name, "ascending") for name in table.column_names]))]
    return order


__all__ = ["ColumnTimerTable"]
