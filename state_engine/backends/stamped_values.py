"""Values with a time to live, as columns: what functions that ask by columns keep of them on the heap.

Beside each value stands its last access. By processing time all records of an epoch have one clock, so whole columns
are compared with one number; by event time each has its own, and those states are asked key by key.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.keys import Keys, Numbers, indices
from state_engine.api.ttl import StateTtlConfig
from state_engine.api.types import TypeInformation
from state_engine.backends.key_numbers import KeyNumbers, positions_of
from state_engine.backends.namespaced import NamespacedColumns, NamespacedValueColumns, NamespacedValueTable
from state_engine.backends.namespaced_keys import parts_of
from state_engine.backends.stamps import LAST_ACCESS, split_stamps, stamp_all, stamped_type
from state_engine.backends.tables import LogRows
from state_engine.backends.ttl import TtlValueState
from state_engine.backends.ttl_rules import TtlRules
from state_engine.backends.value_runs import Run, ValueRuns
from state_engine.serialization.mutability import holds_atoms


class StampedValueTable(NamespacedValueTable):
    """Namespace to stamped values of keys.

    Args:
        value: Type of a value.
        numbers: Of the keys.

    Attributes:
        unseen: Keys that a clean-up is still to look at, by their numbers, with their namespaces.
    """

    def __init__(self, value: TypeInformation, numbers: KeyNumbers) -> None:
        super().__init__(stamped_type(value), numbers)
        self.stamped = True
        self.grows_in_place = holds_atoms(value)
        self.unseen: list[tuple[str | None, Numbers]] = []

    def freeze(self) -> LogRows | None:
        rows = super().freeze()
        if rows is not None:
            rows.values, rows.times = split_stamps(rows.values)
        return rows

    def _without_vain_deletes(self) -> dict[str | None, Run]:
        return self.overlay  # the log may have what the base has dropped already

    def drop_stamps(self, expired: Callable[[int | None], bool]) -> None:
        for namespace, runs in list(self.base.items()):
            before = runs.rows
            runs.keep(partial(_unexpired, runs, expired))
            self._counted(namespace, before)

    def renumber(self, new: Numbers) -> None:
        super().renumber(new)
        self.unseen = [(namespace, _once(new[numbers])) for namespace, numbers in self.unseen]

    def begin_round(self) -> None:
        """Makes all keys unseen that have values now."""
        self.unseen = [(namespace, part) for namespace, runs in self.base.items() for part in _each_once(runs.parts)]

    def clean(self, namespace: str | None, numbers: Numbers, expiry: float, seen: int | None) -> float:
        """Removes what has expired, and writes the time of what has none, where this epoch has not written.

        Args:
            namespace: Where to look.
            numbers: Of the keys, ascending.
            expiry: What was accessed last then, or before, has expired.
            seen: The last access of what has none; None leaves it as it is.

        Returns:
            The earliest last access that stays; infinity where there is none.
        """
        self._join()
        runs, written = self.base.get(namespace), self.overlay.get(namespace)
        if runs is None:
            return math.inf
        times = runs.of(numbers, LAST_ACCESS)
        changed = old = _at_most(times, expiry)
        if times.null_count and seen is not None:
            changed = old | (np.asarray(times.is_null()) & runs.has(numbers))
        if written is not None and changed.any():
            changed = changed & (positions_of(numbers, written.numbers) < 0)
        if changed.any():
            at = np.flatnonzero(changed)
            values, _ = split_stamps(runs.of(numbers[at]))
            self._lay(namespace, Run(numbers[at], stamp_all(_without(values, old[at]), seen)))
        kept = pc.min(times.filter(pa.array(~old))).as_py()
        return math.inf if kept is None else kept


class StampedState:
    """What states over such a table have in common, row by row, beside what all with a time to live have."""

    __slots__ = ()
    _original: Any
    _rules: TtlRules
    _accessed: Callable[..., None] | None

    @property
    def table(self) -> StampedValueTable:
        """The values."""
        table: StampedValueTable = self._original.table
        return table

    @property
    def rules(self) -> TtlRules:
        """When values expire."""
        return self._rules

    def touch(self, keys: int) -> None:
        """Tells the clean-up of an access to so many keys."""
        if self._accessed is not None:
            self._accessed(keys)


class StampedValueState(StampedState, TtlValueState):
    """One value per key and namespace, row by row; the original is a `NamespacedValueState`."""

    __slots__ = ()


class StampedColumns(NamespacedColumns):
    """Of such states. The clean-up hears of an access behind it: what has expired may be read once, if at all."""

    state: Any

    def _read(self, keys: Keys) -> Any:
        distinct, table, rules = keys.distinct, self.state.table, self.state.rules
        values, times = split_stamps(table.get(parts_of(distinct, table.numbers)))
        old, now = _at_most(times, rules.expiry()), rules.first_seen()
        renewed = np.asarray(pc.and_not(values.is_valid(), times.is_valid()))
        if rules.renewed_by_reads and now is not None:
            renewed = renewed | (_at_most(times, now - 1) & ~old)
        changed = np.flatnonzero(old | renewed)
        unexpired = _without(values, old)
        if len(changed):
            self._stamp(distinct.take(changed), unexpired.take(indices(changed)), now)
        self.state.touch(len(distinct))
        return values if rules.returns_expired else unexpired

    def _held(self, keys: Keys) -> Any:
        table, rules = self.state.table, self.state.rules
        values, times = split_stamps(table.get(parts_of(keys, table.numbers)))
        return values if rules.returns_expired else _without(values, _at_most(times, rules.expiry()))

    def _write(self, distinct: Keys, values: Any) -> None:
        self._stamp(distinct, values, self.state.rules.stamp())
        self.state.touch(len(distinct))

    def _stamp(self, distinct: Keys, values: Any, at: int | None) -> None:
        table = self.state.table
        table.put(parts_of(distinct, table.numbers), stamp_all(values, at))


class StampedValueColumns(StampedColumns, NamespacedValueColumns):
    """Of value states."""


def by_one_clock(config: StateTtlConfig | None) -> bool:
    """Returns whether all values of a state expire by processing time."""
    times = StateTtlConfig.TtlTimeCharacteristic
    return config is not None and config.get_ttl_time_characteristic() == times.ProcessingTime


def _unexpired(runs: ValueRuns, expired: Callable[[int | None], bool], numbers: Numbers) -> "np.ndarray[Any, Any]":
    """Returns which keys have no value that has expired; many were accessed last at one time."""
    encoded = runs.of(numbers, LAST_ACCESS).dictionary_encode("encode")
    kept = np.array([not expired(at) for at in encoded.dictionary.to_pylist()], bool)
    of_each: np.ndarray[Any, Any] = kept[np.asarray(encoded.indices)]
    return of_each


def _at_most(times: Any, limit: float) -> "np.ndarray[Any, Any]":
    """Returns which last accesses are no later than a time; of those that nobody knows, none is."""
    found: np.ndarray[Any, Any] = np.asarray(pc.fill_null(times, np.iinfo(np.int64).max)) <= limit
    return found


def _each_once(parts: list[Numbers]) -> Iterator[Numbers]:
    """Yields parts without the keys that are in one before; later ones are much smaller, so that costs little."""
    for n, part in enumerate(parts):
        for before in parts[:n]:
            part = part[positions_of(part, before) < 0]
        if len(part):
            yield part


def _once(numbers: Numbers) -> Numbers:
    """Returns ascending numbers each once; those of keys that are gone became those of their neighbours."""
    new = np.diff(numbers, prepend=-1) > 0
    once: Numbers = numbers[new]
    return once


def _without(values: Any, gone: "np.ndarray[Any, Any]") -> Any:
    return values.take(pa.array(np.arange(len(values)), mask=gone)) if gone.any() else values


__all__ = [
    "StampedColumns",
    "StampedState",
    "StampedValueColumns",
    "StampedValueState",
    "StampedValueTable",
    "by_one_clock",
]
