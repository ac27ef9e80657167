"""Values of keys in namespaces, as columns, where nearly each key has namespaces of its own: aggregates of sessions."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from state_engine.api.keys import Keys, Numbers, indices, order_of
from state_engine.api.types import TypeInformation
from state_engine.backends.key_numbers import KeyNumbers, last_of_each
from state_engine.backends.list_runs import Flags
from state_engine.backends.namespaced import NamespacedValueTable
from state_engine.backends.namespaced_keys import Part
from state_engine.backends.places import NamespaceNumbers, PlacedTable, keys_of
from state_engine.backends.tables import LogRows
from state_engine.backends.value_runs import Run

_ANY = 1 << 62
"""Places are below it, and lie far apart."""
_KNOWN = "_known_places"
"""Where keys remember their places, for the next state that is asked with them."""


class PlacedValueTable(PlacedTable, NamespacedValueTable):
    """Values by place, all of them in the runs of one namespace.

    Args:
        value: Type of a value.
        numbers: Of the keys.
        namespaces: Their numbers.
    """

    def __init__(self, value: TypeInformation, numbers: KeyNumbers, namespaces: NamespaceNumbers) -> None:
        super().__init__(value, numbers)
        self.namespaces = namespaces

    def parts(self, keys: Keys) -> list[Part]:
        distinct = keys.distinct
        by = self.numbers, self.numbers.generation, self.namespaces, self.namespaces.generation
        known = distinct.__dict__.get(_KNOWN)
        if known is None or known[0] != by:
            places = self.places_of(distinct)
            order = order_of(places)
            known = distinct.__dict__[_KNOWN] = by, [Part(None, order, places[order])]
        parts: list[Part] = known[1]
        return parts

    def _part_of(self, entry: Any) -> Part:
        return Part(None, np.array([0]), self.places_of_entries([entry]))

    def _runs(self, numbers: Numbers, namespaces: Any, values: Any) -> Iterable[tuple[str | None, Run]]:
        places = self.places_of_columns(numbers, namespaces)
        at = last_of_each(places, _ANY)
        yield None, Run(places[at], values.take(indices(at)))

    def _numbered_rows(
        self, numbers: Sequence[Numbers], lengths: Sequence[int], ops: Any, values: Sequence[Any], user_keys: Any = None
    ) -> LogRows:
        [places], [array] = numbers, values
        return LogRows([], ops, array, numbers=keys_of(places), namespaces=self.named(places))

    def drop_keys(self, gone: Flags) -> None:
        self._keep_numbers(lambda places: ~gone[keys_of(places)])

    def places(self) -> Iterable[Numbers]:
        return NamespacedValueTable.used(self)

    def replace(self, new: Callable[[Numbers], Numbers]) -> None:
        self._put_numbers(new)


__all__ = ["PlacedValueTable"]
