"""Lists whose elements have a time to live, as columns: what functions over batches keep of them on the heap."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.keys import Keys, Numbers, indices
from state_engine.api.types import TypeInformation
from state_engine.backends.key_numbers import KeyNumbers
from state_engine.backends.list_runs import Elements, Flags, joined
from state_engine.backends.namespaced_keys import Part, parts_of
from state_engine.backends.namespaced_lists import NamespacedListColumns, NamespacedListTable, lists_of
from state_engine.backends.stamped_tables import (
    StampedState,
    StampedTable,
    after_reads,
    at_most,
    earliest,
    stamps_of,
)
from state_engine.backends.stamps import split_stamps, stamp_each, stamped_type
from state_engine.backends.ttl import TtlListState
from state_engine.backends.ttl_rules import is_worth_it


class StampedListTable(StampedTable, NamespacedListTable):
    """Namespace to lists of stamped elements.

    Args:
        value: Type of an element.
        numbers: Of the keys.
    """

    def __init__(self, value: TypeInformation, numbers: KeyNumbers) -> None:
        super().__init__(stamped_type(value), numbers)

    def _keep(self, runs: Any, kept: Callable[[Any], Flags]) -> None:
        runs.keep_elements(lambda elements: kept(split_stamps(elements)[1]))

    def clean(self, namespace: str | None, numbers: Numbers, expiry: float, seen: int | None) -> float:
        self._join()
        # What this epoch emptied is not in it.
        whole = joined([*self._stored([Part(namespace, np.arange(len(numbers)), numbers)])] or [self._nothing])
        values, times = split_stamps(whole.values)
        old, unknown = at_most(times, expiry), np.asarray(times.is_null()) & (seen is not None)
        counts = [np.bincount(of_some, minlength=len(numbers)) for of_some in (whole.numbers[old], whole.numbers)]
        changed = some_of(whole.numbers, unknown, len(numbers)) | is_worth_it(*counts)
        if changed.any():
            stamped = stamp_each(values, times if seen is None else times.fill_null(seen))
            kept = Elements(whole.numbers, stamped).where(changed[whole.numbers] & ~old)
            into = self._written_in(namespace)
            added = [one.where(changed[one.numbers]) for one in into.added.of(numbers)]
            into.clear(numbers[changed], len(self.numbers))
            anew = joined([kept, *added])  # what this epoch added stays behind what is left
            into.added.append(Elements(numbers[anew.numbers], anew.values))
        return earliest(times, ~(old & changed[whole.numbers]))  # a later round looks again at what stays


class StampedListState(StampedState, TtlListState):
    """A list per key and namespace, row by row; the original is a `NamespacedListState`."""

    __slots__ = ()


class StampedListColumns(NamespacedListColumns):
    """Of such states. The clean-up hears of an access behind it: what has expired may be read once, if at all."""

    state: Any

    def get_many(self, keys: Keys) -> Any:
        distinct, table, rules = keys.distinct, self.state.table, self.state.rules
        whole, count = table.of(parts_of(distinct, table.numbers)), len(keys.distinct)
        values, times = split_stamps(whole.values)
        latest, old = keys.latest_times, at_most(times, rules.expiry())
        read_at = None if latest is None else latest.take(indices(whole.numbers))
        after, renewed = after_reads(rules, times, read_at)
        left = some_of(whole.numbers, ~old, count)
        changed = some_of(whole.numbers, renewed & ~old, count) | (some_of(whole.numbers, old, count) & ~left)
        if changed.any():
            kept = Elements(whole.numbers, stamp_each(values, after)).where(changed[whole.numbers] & ~old)
            self._replace(distinct, np.flatnonzero(changed), kept)
        self.state.touch(count)
        shown = Elements(whole.numbers, values)
        lists = lists_of(shown if rules.returns_expired else shown.where(~old), count)
        return self._spread(lists.cast(self._lists.type), keys)

    def contains_many(self, keys: Keys) -> Any:
        return pa.array(np.asarray(pc.list_value_length(self.get_many(keys))) > 0)

    def add_many(self, keys: Keys, values: Any) -> None:
        super().add_many(keys, values)
        self.state.touch(len(keys.distinct))

    def put_many(self, keys: Keys, values: Any) -> None:
        super().put_many(keys, values)
        self.state.touch(len(keys.distinct))

    def remove_many(self, keys: Keys) -> None:
        super().remove_many(keys)
        self.state.touch(len(keys.distinct))

    def _kept(self, elements: Any, times: Any) -> Any:
        return stamp_each(elements, stamps_of(self.state.rules, times))

    def _replace(self, distinct: Keys, changed: Numbers, elements: Elements) -> None:
        """Replaces the lists of some keys, given by their positions, as those of their elements are."""
        table, keys = self.state.table, distinct.take(changed)
        parts = parts_of(keys, table.numbers)
        table.clear(parts)
        table.add(parts, np.searchsorted(changed, elements.numbers), elements.values)


def some_of(numbers: Numbers, flags: Flags, count: int) -> Flags:
    """Returns of which of so many lists an element is flagged, by the numbers of the elements."""
    found = np.zeros(count, bool)
    found[numbers[flags]] = True
    return found


__all__ = ["StampedListColumns", "StampedListState", "StampedListTable", "some_of"]
