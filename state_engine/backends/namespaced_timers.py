"""Timers of windows that are declared, as columns: of each time and namespace the numbers of the keys.

Such windows end together, so a few columns hold all their timers; a timer is no object, neither while it waits nor when
it fires. What the log gets is what a `TimerTable` gives it.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from state_engine.api.keys import Keys, Numbers, by_number, indices
from state_engine.backends.key_numbers import last_of_each, positions_of
from state_engine.backends.keys import join_entries, split_entries
from state_engine.backends.list_runs import distinct
from state_engine.backends.namespaced_keys import NamespacedKeys, by_position, parts_of
from state_engine.backends.namespaced_tables import by_namespace, repeated
from state_engine.backends.tables import LogRows
from state_engine.backends.timer_columns import TimerColumns, timer_rows
from state_engine.log.ops import Op

_NONE = np.empty(0, np.int64)


class Place(NamedTuple):
    """Where timers lie that end together."""

    time: int
    namespace: str | None


class Sets:
    """Sets of keys, a set of each place; numbers are ascending, and no set is empty."""

    def __init__(self) -> None:
        self.times: dict[int, dict[str | None, Numbers]] = {}

    def __contains__(self, time: object) -> bool:
        return time in self.times

    def add(self, place: Place, numbers: Numbers) -> Numbers:
        """Adds keys; returns those that were not there."""
        if not len(numbers):
            return numbers
        of_time = self.times.setdefault(place.time, {})
        there = of_time.get(place.namespace, _NONE)
        new = numbers[positions_of(numbers, there) < 0]
        if len(new):
            of_time[place.namespace] = np.insert(there, np.searchsorted(there, new), new) if len(there) else new
        return new

    def remove(self, place: Place, numbers: Numbers) -> Numbers:
        """Removes keys; returns those that were not there."""
        there = self.times.get(place.time, {}).get(place.namespace, _NONE)
        found = positions_of(numbers, there)
        strange = numbers[found < 0]
        if len(strange) < len(numbers):
            left = np.delete(there, found[found >= 0])
            if len(left):
                self.times[place.time][place.namespace] = left
            else:
                self.pop(place)
        return strange

    def pop(self, place: Place) -> Numbers:
        """Removes all keys of a place, and returns them."""
        of_time = self.times[place.time]
        numbers = of_time.pop(place.namespace)
        if not of_time:
            del self.times[place.time]
        return numbers

    def places(self) -> list[tuple[Place, Numbers]]:
        """Returns all sets."""
        return [(Place(time, name), own) for time, of_time in self.times.items() for name, own in of_time.items()]

    def replace(self, place: Place, numbers: Numbers) -> None:
        """Puts other keys to a place."""
        self.times[place.time][place.namespace] = numbers


class _Changes:
    """What an epoch did: a timer that came and went, or went and came, is in neither."""

    def __init__(self) -> None:
        self.came, self.went = Sets(), Sets()
        self.rows = 0  # so many more there are, once it is frozen


class NamespacedTimerTable(TimerColumns):
    """The timers of one clock, by time and namespace."""

    def empty(self) -> None:
        super().empty()
        self._sets, self._now, self._frozen = Sets(), _Changes(), _Changes()
        self._old: Any = self._sets.times  # what is asked for the earliest time

    # Many timers at once ----------------------------------------------------------------------------------------------

    def register_keys(self, keys: Keys, times: Numbers) -> None:
        """Adds timers, unless they are there.

        Args:
            keys: Any of them several times.
            times: One for each.
        """
        if not len(keys):
            return
        parts = parts_of(keys, self.numbers)
        if keys.distinct is keys:
            for namespace, positions, numbers in parts:
                self._register_at(namespace, numbers, times[positions])
            return
        of_each, spaces = by_position(parts)
        for space, at in by_number(spaces[keys.codes]):
            own = of_each[keys.codes[at]]
            order = np.argsort(own)
            self._register_at(parts[space].namespace, own[order], times[at][order])

    def _register_at(self, namespace: str | None, numbers: Numbers, times: Numbers) -> None:
        """Adds timers of ascending keys of one namespace; two of one key and time may stand side by side."""
        if (times == times[0]).all():
            self._register(Place(int(times[0]), namespace), distinct(numbers))
            return
        for time, at in by_number(times):
            self._register(Place(time, namespace), distinct(numbers[at]))

    def due_keys(self, limit: int, *, in_turn: bool = True) -> Keys | None:
        if in_turn:
            return super().due_keys(limit)
        found: list[tuple[Place, Numbers]] = []
        while (time := self.earliest()) is not None and time <= limit:
            for namespace in list(self._sets.times[time]):
                place = Place(time, namespace)
                found.append((place, numbers := self._sets.pop(place)))
                self._note_gone(place, numbers)
        if not found:
            return None
        namespaces: dict[str | None, int] = {}
        spaces = [namespaces.setdefault(place.namespace, len(namespaces)) for place, _ in found]
        lengths = [len(numbers) for _, numbers in found]
        every, positions = np.unique(np.concatenate([numbers for _, numbers in found]), return_inverse=True)
        own = self.numbers.each(every)
        times = pa.array(np.repeat([place.time for place, _ in found], lengths))
        columns = [indices(column) for column in (positions, np.repeat(spaces, lengths))]
        return NamespacedKeys(columns, own, list(namespaces), times)

    # One by one -------------------------------------------------------------------------------------------------------

    def register_all(self, entries: list[Any], time: int) -> None:
        for place, numbers in self._placed(entries, time):
            self._register(place, numbers)

    def all_due(self, limit: int, *, in_turn: bool = True) -> Iterator[tuple[int, list[Any]]]:
        while (time := self.earliest()) is not None and time <= limit:
            entries = self._entries(time)
            for namespace in list(self._sets.times[time]):
                place = Place(time, namespace)
                self._note_gone(place, self._sets.pop(place))
            yield time, sorted(entries, key=repr) if in_turn else entries

    def _delete(self, entry: Any, time: int) -> bool:
        [(place, numbers)] = self._placed([entry], time)
        if len(self._sets.remove(place, numbers)):
            return False
        self._note_gone(place, numbers)
        return True

    def _entries(self, time: int) -> list[Any]:
        found: list[Any] = []
        for namespace, numbers in self._sets.times[time].items():
            keys = [self.numbers.entries[number] for number in numbers.tolist()]
            found += join_entries(keys, [namespace] * len(keys))
        return found

    def _placed(self, entries: list[Any], time: int) -> Iterator[tuple[Place, Numbers]]:
        keys, namespaces = split_entries(entries)
        numbers = self.numbers.of(keys)
        for namespace, at in by_namespace(pa.array(namespaces or [None] * len(keys), pa.string())):
            yield Place(time, namespace), np.sort(numbers[at])

    def _register(self, place: Place, numbers: Numbers) -> None:
        new = self._add(place, numbers)
        self._now.came.add(place, self._now.went.remove(place, new))

    def _note_gone(self, place: Place, numbers: Numbers) -> None:
        self._now.went.add(place, self._now.came.remove(place, numbers))

    def _add(self, place: Any, numbers: Any) -> Any:
        if place.time not in self._sets:
            self._expect(place.time)
        return self._sets.add(place, numbers)

    # Epochs -----------------------------------------------------------------------------------------------------------

    def freeze(self) -> LogRows | None:
        changes = self._now
        came, went = changes.came.places(), changes.went.places()
        if not came and not went:
            return None
        self._now, self._frozen = _Changes(), changes
        rows = [sum(len(numbers) for _, numbers in places) for places in (came, went)]
        changes.rows = rows[0] - rows[1]
        lengths = [len(numbers) for _, numbers in came + went]
        return timer_rows(
            np.repeat([place.time for place, _ in came + went], lengths),
            rows[0],
            np.concatenate([numbers for _, numbers in came + went]),
            repeated([place.namespace for place, _ in came + went], lengths),
        )

    def settle(self) -> None:
        self.rows += self._frozen.rows
        self._frozen = _Changes()

    def forget(self) -> None:
        for changes in self._now, self._frozen:
            for place, numbers in changes.came.places():
                self._sets.remove(place, numbers)
            for place, numbers in changes.went.places():
                self._add(place, numbers)
        self._now, self._frozen = _Changes(), _Changes()

    def apply_numbers(self, numbers: Numbers, namespaces: Any, ops: Any, values: Any, user_keys: Any) -> None:
        start = 0
        for at in [*np.flatnonzero(ops == Op.CLEAR).tolist(), len(ops)]:
            rows = slice(start, at)
            self._apply(numbers[rows], namespaces[rows], ops[rows], np.asarray(user_keys[rows]))
            if at < len(ops):
                self._clear(int(numbers[at]), namespaces[at].as_py())
            start = at + 1

    def _apply(self, numbers: Numbers, namespaces: Any, ops: Any, times: Numbers) -> None:
        for namespace, positions in by_namespace(namespaces):
            for time, within in by_number(times[positions]):
                at = positions[within]
                at = at[last_of_each(numbers[at], len(self.numbers))]
                came = ops[at] == Op.PUT
                place = Place(time, namespace)
                self.rows += len(self._add(place, numbers[at[came]]))
                gone = numbers[at[~came]]
                self.rows -= len(gone) - len(self._sets.remove(place, gone))

    def _clear(self, number: int, namespace: str | None) -> None:
        for place, _ in self._sets.places():
            if place.namespace == namespace:
                self.rows -= 1 - len(self._sets.remove(place, np.array([number])))

    def drop_keys(self, gone: Any) -> None:
        for place, numbers in self._sets.places():
            dropped = numbers[gone[numbers]]
            self._sets.remove(place, dropped)
            self.rows -= len(dropped)

    def used(self) -> Iterable[Numbers]:
        return (numbers for sets in self._every() for _, numbers in sets.places())

    def renumber(self, new: Numbers) -> None:
        for sets in self._every():
            for place, numbers in sets.places():
                sets.replace(place, new[numbers])

    def _every(self) -> list[Sets]:
        return [self._sets, *(sets for changes in (self._now, self._frozen) for sets in (changes.came, changes.went))]


__all__ = ["NamespacedTimerTable"]
