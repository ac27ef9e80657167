"""Values with a time to live, as columns: what functions that ask by columns keep of them on the heap."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from state_engine.api.keys import Keys, Numbers, indices
from state_engine.api.types import TypeInformation
from state_engine.backends.key_numbers import KeyNumbers, positions_of
from state_engine.backends.list_runs import Flags
from state_engine.backends.namespaced import NamespacedColumns, NamespacedValueColumns, NamespacedValueTable
from state_engine.backends.namespaced_keys import parts_of
from state_engine.backends.stamped_tables import (
    StampedState,
    StampedTable,
    after_reads,
    at_most,
    earliest,
    stamps_of,
    without,
)
from state_engine.backends.stamps import LAST_ACCESS, split_stamps, stamp_all, stamped_type
from state_engine.backends.ttl import TtlValueState
from state_engine.backends.value_runs import Run
from state_engine.serialization.mutability import still_conforming


class StampedValueTable(StampedTable, NamespacedValueTable):
    """Namespace to stamped values of keys.

    Args:
        value: Type of a value.
        numbers: Of the keys.
    """

    def __init__(self, value: TypeInformation, numbers: KeyNumbers) -> None:
        super().__init__(stamped_type(value), numbers)
        self.still_conforms = still_conforming(value)

    def _drop_noop_deletes(self) -> dict[str | None, Run]:
        return self.overlay  # the log may have what the base has dropped already

    def written(self, namespace: str | None) -> int:
        found = self.overlay.get(namespace)
        return 0 if found is None else len(found.numbers)

    def _keep(self, runs: Any, kept: Callable[[Any], Flags]) -> None:
        runs.keep(lambda numbers: kept(runs.of(numbers, LAST_ACCESS)))

    def clean(self, namespace: str | None, numbers: Numbers, expiry: float, seen: int | None) -> float:
        self._join()
        runs, written = self.base.get(namespace), self.overlay.get(namespace)
        if runs is None:
            return math.inf
        times = runs.of(numbers, LAST_ACCESS)
        changed = old = at_most(times, expiry)
        if times.null_count and seen is not None:
            changed = old | (np.asarray(times.is_null()) & runs.has(numbers))
        if written is not None and changed.any():
            changed = changed & (positions_of(numbers, written.numbers) < 0)
        if changed.any():
            at = np.flatnonzero(changed)
            values, _ = split_stamps(runs.of(numbers[at]))
            self._lay(namespace, Run(numbers[at], stamp_all(without(values, old[at]), seen)))
        return earliest(times, ~old)


class StampedValueState(StampedState, TtlValueState):
    """One value per key and namespace, row by row; the original is a `NamespacedValueState`."""

    __slots__ = ()


class StampedColumns(NamespacedColumns):
    """Of such states. The clean-up hears of an access behind it: what has expired may be read once, if at all."""

    state: Any

    def _read(self, keys: Keys) -> Any:
        distinct, table, rules = keys.distinct, self.state.table, self.state.rules
        stamped = table.get(parts_of(distinct, table.numbers))
        values, times = split_stamps(stamped)
        old = at_most(times, rules.expiry())
        after, renewed = after_reads(rules, times, keys.latest_times)
        changed = np.flatnonzero(old | (renewed & np.asarray(stamped.is_valid())))
        left = without(values, old)
        if len(changed):
            at = indices(changed)
            self._stamp(distinct.take(changed), left.take(at), after.take(at))
        self.state.touch(len(distinct))
        return values if rules.returns_expired else left

    def _held(self, keys: Keys) -> Any:
        table, rules = self.state.table, self.state.rules
        values, times = split_stamps(table.get(parts_of(keys, table.numbers)))
        return values if rules.returns_expired else without(values, at_most(times, rules.expiry()))

    def _write(self, distinct: Keys, values: Any) -> None:
        self._stamp(distinct, values, stamps_of(self.state.rules, distinct.times))
        self.state.touch(len(distinct))

    def _stamp(self, distinct: Keys, values: Any, at: Any) -> None:
        table = self.state.table
        table.put(parts_of(distinct, table.numbers), stamp_all(values, at))


class StampedValueColumns(StampedColumns, NamespacedValueColumns):
    """Of value states."""


__all__ = ["StampedColumns", "StampedValueColumns", "StampedValueState", "StampedValueTable"]
