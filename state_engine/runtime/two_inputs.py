"""Operators with two inputs: how the records of both share the columns of one exchange."""

from collections.abc import Sequence
from dataclasses import dataclass

from state_engine.api.pyflink_types import Types
from state_engine.api.types import StructType
from state_engine.errors import JobDefinitionError
from state_engine.runtime.shared_columns import OWN, SharedColumns

INPUT = f"{OWN}input"
"""The column with the number of the record's input: 1 or 2."""


@dataclass(frozen=True)
class TwoInputs:
    """How the records of two inputs are stored in one set of columns.

    Attributes:
        first: Columns of input 1; they come first, under their own names.
        second: Columns of input 2.
        places: Position of each column of input 2 among the shared ones.
        columns: The shared columns; the last one is `INPUT`.
        second_key: Key columns of input 2.
        second_order: Columns by which the records of input 2 are sorted.
    """

    first: StructType
    second: StructType
    places: tuple[int, ...]
    columns: StructType
    second_key: tuple[str, ...] = ()
    second_order: tuple[str, ...] = ()

    def column_of(self, input_: int, place: int) -> int | None:
        """Returns the column of an input that is at a position among the shared columns; None if there is none."""
        if input_ == 1:
            return place if place < len(self.first.names) else None
        return self.places.index(place) if place in self.places else None


@dataclass(frozen=True)
class KeyedInput:
    """One input, and how its stream was keyed; `key` is empty if it was not."""

    columns: StructType
    key: tuple[str, ...] = ()
    order_by: tuple[str, ...] = ()

    def types(self, names: Sequence[str]) -> str:
        """Returns the types of some columns, as text."""
        return ", ".join(self.columns.types[self.columns.names.index(name)].ddl() for name in names)


def two_inputs(first: KeyedInput, second: KeyedInput) -> TwoInputs:
    """Returns how two inputs share columns: key with key, order with order, other columns by type.

    Raises:
        JobDefinitionError: The keys differ in their types, or the orders do, or a key has a column twice.
    """
    for one in (first, second):
        if len(set(one.key)) < len(one.key):
            raise JobDefinitionError(f"The key {', '.join(one.key)} has a column twice.", action="Name it once.")
    if first.types(first.key) != second.types(second.key):
        raise JobDefinitionError(
            f"Input 1 is keyed by {_named(first, first.key)}, input 2 by {_named(second, second.key)}.",
            action="Give both keys the same types. Cast before key_by(): with_column(name, 'cast(... as bigint)').",
        )
    if first.order_by and second.order_by and first.types(first.order_by) != second.types(second.order_by):
        raise JobDefinitionError(
            f"Input 1 is ordered by {_named(first, first.order_by)}, input 2 by {_named(second, second.order_by)}: "
            "their records have no common order.",
            action="Order both by columns of the same types, or only one of them.",
        )
    shared = SharedColumns(first.columns)
    fixed: dict[str, int] = {}
    for left, right in (*zip(first.key, second.key, strict=True), *zip(first.order_by, second.order_by, strict=False)):
        place = first.columns.names.index(left)
        if right not in fixed and place not in fixed.values():
            fixed[right] = place
    places = shared.take(second.columns, fixed)
    shared.add(INPUT, Types.BYTE())
    return TwoInputs(first.columns, second.columns, places, shared.columns, second.key, second.order_by)


def with_broadcast(first: KeyedInput, second: StructType) -> TwoInputs:
    """Returns how a stream, keyed or not, shares columns with a broadcast stream; broadcast records have no key."""
    shared = SharedColumns(first.columns)
    places = shared.take(second)
    shared.add(INPUT, Types.BYTE())
    return TwoInputs(first.columns, second, places, shared.columns)


def _named(one: KeyedInput, names: Sequence[str]) -> str:
    return f"{', '.join(names)} ({one.types(names)})" if names else "nothing"


__all__ = ["INPUT", "KeyedInput", "TwoInputs", "two_inputs", "with_broadcast"]
