"""Timers of functions over batches, as columns, however many times they have.

A timer is no object, neither while it waits nor when it fires. What the log gets is what a `TimerTable` gives it.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from state_engine.api.keys import Keys, Numbers, indices, order_of
from state_engine.backends.key_numbers import KeyNumbers
from state_engine.backends.keys import join_entries
from state_engine.backends.namespaced_keys import NamespacedKeys
from state_engine.backends.places import NamespaceNumbers, PlacedTable, keys_of, namespaces_of
from state_engine.backends.tables import LogRows
from state_engine.backends.timer_columns import TimerColumns, in_order, timer_rows
from state_engine.backends.timer_runs import TimerRuns, Timers
from state_engine.backends.timers import NEVER
from state_engine.log.ops import Op


class ColumnTimerTable(PlacedTable, TimerColumns):
    """The timers of one clock, in the order of their times.

    Args:
        numbers: Of the keys.
        namespaces: Their numbers.
    """

    def __init__(self, numbers: KeyNumbers, namespaces: NamespaceNumbers) -> None:
        super().__init__(numbers)
        self.namespaces = namespaces

    def empty(self) -> None:
        super().empty()
        self._timers = TimerRuns()

    def earliest(self) -> int | None:
        earliest = self._timers.earliest()
        self.first = NEVER if earliest is None else earliest
        return earliest

    # Many timers at once ----------------------------------------------------------------------------------------------

    def register_keys(self, keys: Keys, times: Numbers) -> None:
        self._register(Timers(times, self.places_of(keys)))

    def delete_keys(self, keys: Keys, times: Numbers) -> None:
        self._timers.remove(Timers(times, self.places_of(keys)))

    def due_keys(self, limit: int, *, in_turn: bool = True) -> Keys | None:
        timers = self._timers.due(limit)
        if not len(timers.times):
            return None
        timers = timers.take(order_of(timers.times))
        numbers, positions = np.unique(keys_of(timers.places), return_inverse=True)
        own, times, spaces = self.numbers.each(numbers), pa.array(timers.times), namespaces_of(timers.places)
        if spaces.any():
            known, of_timers = np.unique(spaces, return_inverse=True)
            texts = self.namespaces.texts_of(known).to_pylist()
            keys: Keys = NamespacedKeys([indices(positions), indices(of_timers)], own, texts, times)
        else:
            keys = own.take(positions)
            keys.times = times
        if not in_turn:
            return keys

        def columns_at(tied: Numbers) -> list[Any]:
            names = self.namespaces.texts_of(spaces[tied]).cast(pa.string())
            return [*own.take(positions[tied]).columns, names]

        return keys.take(in_order(timers.times, columns_at))

    def _register(self, timers: Timers) -> None:
        if len(timers.times):
            self._timers.add(timers)
            self.first = min(self.first, int(timers.times.min()))

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
        places, known = self._timers.at(time).places, self.numbers.entries
        keys = [known[number] for number in keys_of(places).tolist()]
        return join_entries(keys, self.named(places).to_pylist())

    def _of_time(self, entries: list[Any], time: int) -> Timers:
        return Timers(np.full(len(entries), time, np.int64), self.places_of_entries(entries))

    # Epochs -----------------------------------------------------------------------------------------------------------

    def freeze(self) -> LogRows | None:
        came, went = self._timers.changes()
        if not len(came.times) and not len(went.times):
            return None
        times, places = (np.concatenate(pair) for pair in zip(came, went, strict=True))
        return timer_rows(times, len(came.times), keys_of(places), self.named(places))

    def settle(self) -> None:
        self._end(sealed=True)

    def forget(self) -> None:
        self._end(sealed=False)

    def _end(self, *, sealed: bool) -> None:
        self._timers.end(sealed=sealed)
        self.rows = self._timers.rows
        self.earliest()

    def apply_numbers(self, numbers: Numbers, namespaces: Any, ops: Any, values: Any, user_keys: Any) -> None:
        places, times = self.places_of_columns(numbers, namespaces), user_keys
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
        order, new = timers.ordered()
        last = order[np.append(new[1:], True)[: len(order)]]
        timers, came = timers.take(last), ops[last] == Op.PUT
        self._register(timers.take(np.flatnonzero(came)))
        self._timers.remove(timers.take(np.flatnonzero(~came)))

    def drop_keys(self, gone: Any) -> None:
        self._timers.keep(~gone[keys_of(self._timers.places)])
        self._end(sealed=True)

    def places(self) -> Iterable[Numbers]:
        yield self._timers.places

    def replace(self, new: Callable[[Numbers], Numbers]) -> None:
        self._timers.renumber(new(self._timers.places))


__all__ = ["ColumnTimerTable"]
