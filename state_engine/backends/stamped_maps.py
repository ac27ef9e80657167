"""Maps whose entries have a time to live, as columns: what functions over batches keep of them on the heap."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from state_engine.api.keys import Keys, Numbers, indices
from state_engine.api.types import TypeInformation
from state_engine.backends.key_numbers import KeyNumbers
from state_engine.backends.list_runs import Flags
from state_engine.backends.map_runs import Entries, keys_of
from state_engine.backends.map_states import NamespacedMapColumns
from state_engine.backends.namespaced_maps import Asked, NamespacedMapTable
from state_engine.backends.stamped_tables import (
    StampedState,
    StampedTable,
    after_reads,
    at_most,
    earliest,
    stamps_of,
    without,
)
from state_engine.backends.stamps import split_stamps, stamp_each, stamped_type
from state_engine.backends.ttl import TtlMapState


class StampedMapTable(StampedTable, NamespacedMapTable):
    """Namespace to maps of stamped values.

    Args:
        user_key: Type of a user key.
        value: Type of a value.
        numbers: Of the keys.
    """

    def __init__(self, user_key: TypeInformation, value: TypeInformation, numbers: KeyNumbers) -> None:
        super().__init__(user_key, stamped_type(value), numbers)

    def written(self, namespace: str | None) -> int:
        found = self.overlay.get(namespace)
        return 0 if found is None else len(found)

    def _keep(self, runs: Any, kept: Callable[[Any], Flags]) -> None:
        runs.keep_values(lambda values: kept(split_stamps(values)[1]))

    def clean(self, namespace: str | None, numbers: Numbers, expiry: float, seen: int | None) -> float:
        self._join()
        runs, written = self.base.get(namespace), self.overlay.get(namespace)
        if runs is None:
            return math.inf
        entries = runs.entries(numbers)
        if written is not None:
            busy = written.cleared.has(keys_of(entries.numbers))
            for positions, _, _ in written.find(entries.numbers):
                busy[positions] = True
            entries = entries.where(~busy)
        values, times = split_stamps(entries.values)
        old, unknown = at_most(times, expiry), np.asarray(times.is_null()) & (seen is not None)
        changed = old | unknown
        if changed.any():
            places = self.next_places(len(old)) + np.argsort(np.argsort(entries.places))
            stamped = without(stamp_each(values, seen), old)
            self._written_in(namespace).put(Entries(entries.numbers, stamped, places, old).where(changed))
        return earliest(times, ~old)


class StampedMapState(StampedState, TtlMapState):
    """A map per key and namespace, row by row; the original is a `NamespacedMapState`."""

    __slots__ = ()


class StampedMapColumns(NamespacedMapColumns):
    """Of such states. The clean-up hears of an access behind it: what has expired may be read once, if at all."""

    state: Any

    def get_many(self, keys: Keys, user_keys: Any) -> Any:
        asked = self._entries(keys, user_keys)
        seen = [without(values, ~visible) for values, visible in self._read(keys, asked)]
        return self.state.table.spread(asked, seen)

    def contains_many(self, keys: Keys, user_keys: Any) -> Any:
        asked = self._entries(keys, user_keys)
        return self.state.table.spread(asked, [pa.array(visible) for _, visible in self._read(keys, asked)])

    def _items(self, keys: Keys) -> tuple[Numbers, Any, Any]:
        of_keys, user_keys, _ = super()._items(keys)
        pairs, times = keys.distinct.take(of_keys), keys.latest_times
        pairs.times = None if times is None else times.take(indices(of_keys))
        table = self.state.table
        asked = table.asked(pairs, user_keys)
        values, visible = zip(*self._read(pairs, asked), strict=True)
        at = np.flatnonzero(np.asarray(table.spread(asked, [pa.array(of_part) for of_part in visible])))
        return of_keys[at], user_keys.take(indices(at)), table.spread(asked, values).take(indices(at))

    def remove_many(self, keys: Keys, user_keys: Any = None) -> None:
        super().remove_many(keys, user_keys)
        if user_keys is None:
            self.state.touch(len(keys.distinct))

    def _put(self, asked: list[Asked], values: Any) -> None:
        super()._put(asked, values)
        self.state.touch(_count(asked))

    def _kept(self, values: Any, times: Any) -> Any:
        return stamp_each(values, stamps_of(self.state.rules, times))

    def _read(self, keys: Keys, asked: Sequence[Asked]) -> list[tuple[Any, Flags]]:
        """Reads entries, and does what a read does to them; returns their values, and which may be seen."""
        table, rules = self.state.table, self.state.rules
        found, stored = [], table.of(asked)
        first = table.next_places(sum(len(part.records) for part in asked))
        for part, stamped in zip(asked, stored, strict=True):
            there = np.asarray(stamped.is_valid())
            values, times = split_stamps(stamped)
            old = at_most(times, rules.expiry())
            after, renewed = after_reads(rules, times, part.latest(keys.times))
            changed = old | (renewed & there)
            if changed.any():
                table.lay(part, first, without(stamp_each(values, after), old), old, changed)
            found.append((values, there if rules.returns_expired else there & ~old))
        self.state.touch(_count(asked))
        return found


def _count(asked: Sequence[Asked]) -> int:
    return sum(len(part.numbers) for part in asked)


__all__ = ["StampedMapColumns", "StampedMapState", "StampedMapTable"]
