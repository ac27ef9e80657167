"""A time to live around the table of a state that is accessed by columns: the same methods, for values without stamps.

The clean-up is called after an access: an expired value may be read once, if at all. `rows/ttl.py` has the row methods.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from state_engine.api.keys import Keys, Numbers, indices
from state_engine.backends.ascending import Flags
from state_engine.backends.shapes.lists import some_of
from state_engine.backends.shapes.maps import Asked
from state_engine.backends.stamps import after_reads, at_most, split_stamps, stamp_all, stamp_each, stamps_of, without
from state_engine.backends.stores.list_runs import Elements
from state_engine.backends.ttl_rules import TtlRules


class TtlColumns:
    """The common base of the three shapes.

    Args:
        table: Of stamped values.
        rules: When they expire.
        accessed: Called with the number of accessed keys, to clean up; None if nothing is called.
    """

    def __init__(self, table: Any, rules: TtlRules, accessed: Callable[[int], None] | None) -> None:
        self._rules = rules
        self._table = table
        self._accessed = accessed

    def _access(self, keys: int) -> None:
        if self._accessed is not None:
            self._accessed(keys)


class TtlValues(TtlColumns):
    """Values, or accumulators."""

    def get_many(self, keys: Keys) -> Any:
        """Reads the value of each distinct key, null for a key without one."""
        distinct = keys.distinct
        stamped = self._table.get_many(distinct)
        values, times = split_stamps(stamped)
        old = at_most(times, self._rules.expiry())
        after, renewed = after_reads(self._rules, times, keys.latest_times)
        changed = np.flatnonzero(old | (renewed & np.asarray(stamped.is_valid())))
        unexpired = without(values, old)
        if len(changed):
            positions = indices(changed)
            self._table.put_many(distinct.take(changed), stamp_all(unexpired.take(positions), after.take(positions)))
        self._access(len(distinct))
        return values if self._rules.returns_expired else unexpired

    def held(self, keys: Keys) -> Any:
        """Returns, for each distinct key, the value to which something is added; null for a key without one."""
        values, times = split_stamps(self._table.get_many(keys))
        return values if self._rules.returns_expired else without(values, at_most(times, self._rules.expiry()))

    def put_many(self, distinct: Keys, values: Any) -> None:
        """Sets the values of keys, each given once; null removes."""
        self._table.put_many(distinct, stamp_all(values, stamps_of(self._rules, distinct.times)))
        self._access(len(distinct))


class TtlLists(TtlColumns):
    """Lists, whose elements expire one by one."""

    def elements(self, keys: Keys) -> Elements:
        """Reads the elements of the distinct keys' lists; their numbers are the positions of the keys."""
        distinct, rules = keys.distinct, self._rules
        whole, count = self._table.elements(distinct), len(distinct)
        values, times = split_stamps(whole.values)
        latest, old = keys.latest_times, at_most(times, rules.expiry())
        read_at = None if latest is None else latest.take(indices(whole.numbers))
        after, renewed = after_reads(rules, times, read_at)
        has_unexpired = some_of(whole.numbers, ~old, count)
        changed = some_of(whole.numbers, renewed & ~old, count) | (some_of(whole.numbers, old, count) & ~has_unexpired)
        if changed.any():
            kept = Elements(whole.numbers, stamp_each(values, after)).where(changed[whole.numbers] & ~old)
            self._replace(distinct, np.flatnonzero(changed), kept)
        self._access(count)
        shown = Elements(whole.numbers, values)
        return shown if rules.returns_expired else shown.where(~old)

    def has(self, keys: Keys) -> Flags:
        """Reads which of the distinct keys have elements."""
        return np.bincount(self.elements(keys).numbers, minlength=len(keys.distinct)) > 0

    def append(self, keys: Keys, codes: Numbers, values: Any, times: Any = None) -> None:
        """Appends values to the lists of distinct keys.

        Args:
            keys: The keys.
            codes: For each value, the position of its key.
            values: The values.
            times: For each value, the event time of its record; None if no record has one.
        """
        self._table.append(keys, codes, stamp_each(values, stamps_of(self._rules, times)))
        self._access(len(keys.distinct))

    def clear(self, keys: Keys) -> None:
        """Clears the lists of the distinct keys."""
        self._table.clear(keys)
        self._access(len(keys.distinct))

    def _replace(self, distinct: Keys, changed: Numbers, elements: Elements) -> None:
        """Replaces the lists of some keys. `changed` has the positions of the keys; `elements` refers to them, too."""
        keys = distinct.take(changed)
        self._table.clear(keys)
        self._table.append(keys, np.searchsorted(changed, elements.numbers), elements.values)


class TtlMaps(TtlColumns):
    """Maps, whose entries expire one by one."""

    def asked(self, keys: Keys, user_keys: Any) -> Asked:
        """Returns the entries that records access."""
        asked: Asked = self._table.asked(keys, user_keys)
        return asked

    def get_many(self, asked: Asked) -> Any:
        """Reads the value of each entry, null if it does not exist."""
        values, seen = self._read(asked)
        return without(values, ~seen)

    def has(self, asked: Asked) -> Flags:
        """Reads which entries exist."""
        return self._read(asked)[1]

    def items(self, keys: Keys) -> tuple[Numbers, Any, Any]:
        """Reads all entries of the distinct keys' maps, map by map, each in the order in which it was put.

        Returns:
            For each entry, the position of its key, its user key, and its value.
        """
        of_keys, user_keys, _ = self._table.items(keys)
        pairs, times = keys.distinct.take(of_keys), keys.latest_times
        pairs.times = None if times is None else times.take(indices(of_keys))
        asked = self._table.asked(pairs, user_keys)
        values, seen = self._read(asked)
        positions = np.flatnonzero(seen[asked.of_record])
        return of_keys[positions], user_keys.take(indices(positions)), asked.spread(values).take(indices(positions))

    def put_many(self, asked: Asked, values: Any, gone: Flags) -> None:
        """Sets entries, each at the time of its last record, or removes them.

        Args:
            asked: The entries.
            values: One for each.
            gone: Which entries are removed.
        """
        if self._table.user_keys.spells is not None:
            self._drop_expired(asked)
        times = None if asked.times is None else asked.times.take(indices(asked.last))
        stamped = without(stamp_each(values, stamps_of(self._rules, times)), gone)
        self._table.put_many(asked, stamped, gone)
        self._access(len(asked.last))

    def clear(self, keys: Keys) -> None:
        """Clears the maps of the distinct keys."""
        self._table.clear(keys)
        self._access(len(keys.distinct))

    def _read(self, asked: Asked) -> tuple[Any, Flags]:
        """Reads entries, and changes them as a read does; returns their values, and which may be seen."""
        stamped = self._table.get_many(asked)
        exist = np.asarray(stamped.is_valid())
        values, times = split_stamps(stamped)
        old = at_most(times, self._rules.expiry())
        after, renewed = after_reads(self._rules, times, asked.latest_times)
        changed = old | (renewed & exist)
        if changed.any():
            self._table.put_many(asked, without(stamp_each(values, after), old), old, changed)
        self._access(len(asked.last))
        return values, exist if self._rules.returns_expired else exist & ~old

    def _drop_expired(self, asked: Asked) -> None:
        """Removes expired entries, so that their user keys get the spelling with which they are put next."""
        stamped = self._table.get_many(asked)
        old = at_most(split_stamps(stamped)[1], self._rules.expiry())
        if old.any():
            self._table.put_many(asked, self._table.stored.nulls(len(old)), old, old)


__all__ = ["TtlColumns", "TtlLists", "TtlMaps", "TtlValues"]
