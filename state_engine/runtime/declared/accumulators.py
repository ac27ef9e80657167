"""Accumulators: what an aggregation keeps per key, and how it folds a batch's values into that.

A fold puts the stored value of each key before the batch's values, as if it were one more value, and groups both with
Arrow. So the result does not depend on where batches are cut, except for the last digits of sums of doubles.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.descriptors import ListStateDescriptor, StateDescriptor, ValueStateDescriptor
from state_engine.api.keys import Keys, indices, order_of
from state_engine.api.types import KEY_ATOMS, AtomicType, DecimalType, ListType, TypeInformation
from state_engine.runtime.declared.local import Partial

LONG = AtomicType("bigint")


class Accumulator(ABC):
    """One aggregation of one column.

    Args:
        column: Type of the column.

    Attributes:
        parts: The parts that are stored per key: name and type of each.
        result: Type of the result.
    """

    parts: dict[str, TypeInformation]
    result: TypeInformation

    @abstractmethod
    def descriptor(self, name: str, part: str) -> StateDescriptor:
        """Returns the state descriptor of a part, with the given name."""

    @abstractmethod
    def add(self, keys: Keys, states: list[Any], values: Any) -> list[Any] | None:
        """Adds a batch's values to the states of the parts.

        Args:
            keys: Keys of the records.
            states: One per part.
            values: One per record; None if records are aggregated, not values.

        Returns:
            The parts of each distinct key; None if they are not in memory and must be read.

        Raises:
            OverflowError: A sum outgrew its type.
        """

    def partials(self, column: str | None) -> list[Partial] | None:
        """Returns the partials that Spark may make of a group of records, for `merge`; None if `add` would differ."""
        return None

    def merge(self, keys: Keys, states: list[Any], partials: list[Any]) -> list[Any] | None:
        """Adds partials as `add` adds values; by default a partial is treated as a value.

        Args:
            keys: Keys of the partials.
            states: One per part.
            partials: The columns of `partials`.
        """
        return self.add(keys, states, partials[0])

    def read(self, each: Keys, states: list[Any]) -> list[Any]:
        """Returns the parts of distinct keys, as the argument of `given`."""
        return [state.get_many(each) for state in states]

    def given(self, parts: list[Any]) -> Any:
        """Returns the result of each distinct key."""
        return parts[0]


class Combinable(Accumulator):
    """An aggregation that can merge the parts of several groups of records."""

    @abstractmethod
    def combined(self, keys: Keys, parts: list[Any]) -> list[Any]:
        """Returns the parts of each distinct key, merged from the parts of several groups of records.

        Args:
            keys: Keys of the groups; the groups of a key are in the order in which their records came.
            parts: For each part of the accumulator, one value per group; null where a group has none.

        Raises:
            OverflowError: A sum outgrew its type.
        """


class Folded(Combinable):
    """An aggregation that keeps a value for each part, into which a batch's values are folded."""

    def descriptor(self, name: str, part: str) -> StateDescriptor:
        return ValueStateDescriptor(name, self.parts[part])

    def add(self, keys: Keys, states: list[Any], values: Any) -> list[Any]:
        return _updated(keys.distinct, states, lambda stored: self.folded(keys, stored, values))

    def merge(self, keys: Keys, states: list[Any], partials: list[Any]) -> list[Any]:
        return _updated(keys.distinct, states, lambda stored: self.merged(keys, stored, partials))

    @abstractmethod
    def folded(self, keys: Keys, stored: list[Any], values: Any) -> list[Any]:
        """Returns the parts of each distinct key, with the batch's values folded in.

        Args:
            keys: Keys of the records.
            stored: The parts of each distinct key so far; null where there are none.
            values: One per record.

        Raises:
            OverflowError: A sum outgrew its type.
        """

    def merged(self, keys: Keys, stored: list[Any], partials: list[Any]) -> list[Any]:
        """As `folded`, for partials; by default a partial is treated as a value."""
        return self.folded(keys, stored, partials[0])

    def combined(self, keys: Keys, parts: list[Any]) -> list[Any]:
        """See `Combinable`; by default the part of a group is treated as a value."""
        return self.folded(keys, [pa.nulls(len(keys.distinct), part.type) for part in parts], parts[0])


class Count(Folded):
    """The number of values."""

    result = LONG

    def __init__(self) -> None:
        self.parts = {"count": LONG}

    def folded(self, keys: Keys, stored: list[Any], values: Any) -> list[Any]:
        return [pa.array(longs(stored[0]) + _counts(keys, values))]

    def partials(self, column: str | None) -> list[Partial]:
        return [Partial(LONG, "count(1)" if column is None else "count({})", column)]

    def merged(self, keys: Keys, stored: list[Any], partials: list[Any]) -> list[Any]:
        return [pa.array(longs(stored[0]) + keys.sums(partials[0]))]

    def combined(self, keys: Keys, parts: list[Any]) -> list[Any]:
        return [pa.array(keys.sums(parts[0]))]

    def given(self, parts: list[Any]) -> Any:
        return pc.fill_null(parts[0], 0)  # null if a key's other aggregates are older than this one


class Extreme(Folded):
    """The smallest or the largest value."""

    def __init__(self, column: TypeInformation, kind: str) -> None:
        self.result = column
        self.parts = {kind: column}
        self._kind = kind

    def folded(self, keys: Keys, stored: list[Any], values: Any) -> list[Any]:
        codes, column = stored_then_values(keys, stored[0], values)
        extremes = grouped(codes, column, self._kind)
        if self._kind == "max" and pa.types.is_floating(column.type):  # Arrow ignores NaN
            nan = np.zeros(len(extremes), bool)
            nan[codes[np.asarray(pc.fill_null(pc.is_nan(column), False))]] = True
            extremes = pc.if_else(pa.array(nan), pa.scalar(float("nan"), column.type), extremes)
        return [extremes]

    def partials(self, column: str | None) -> list[Partial] | None:
        # Doubles have two zeros. For text and bytes Spark would sort all records.
        fits = isinstance(self.result, DecimalType) or self.result.ddl() in KEY_ATOMS - {"string", "binary"}
        return [Partial(self.result, f"{self._kind}({{}})", column)] if fits else None


class Edge(Folded):
    """The first or the last value that came."""

    def __init__(self, column: TypeInformation, kind: str) -> None:
        self.result = column
        self.parts = {kind: column}
        self._first = kind == "first"

    def folded(self, keys: Keys, stored: list[Any], values: Any) -> list[Any]:
        codes, column = stored_then_values(keys, stored[0], values)
        positions = np.flatnonzero(np.asarray(pc.is_valid(column)))
        if self._first:
            positions = positions[::-1]
        chosen = np.full(len(keys.distinct), -1)
        chosen[codes[positions]] = positions  # for several positions the last assignment stays
        return [column.take(pa.array(chosen, mask=chosen < 0))]


class Collected(Combinable):
    """All values, in the order in which they came: a list state, to which each batch only adds."""

    def __init__(self, column: TypeInformation) -> None:
        self.result = ListType(column)
        self.parts = {"collect": column}

    def descriptor(self, name: str, part: str) -> StateDescriptor:
        return ListStateDescriptor(name, self.parts[part])

    def add(self, keys: Keys, states: list[Any], values: Any) -> None:
        [state] = states
        if values.null_count < len(values):
            valid = np.flatnonzero(np.asarray(pc.is_valid(values)))
            state.add_many(keys.take(valid) if values.null_count else keys, values.drop_null())

    def combined(self, keys: Keys, parts: list[Any]) -> list[Any]:
        """See `Combinable`: concatenates the lists."""
        lists = parts[0].take(indices(order_of(keys.codes)))
        lengths = keys.sums(pc.list_value_length(parts[0]))
        offsets: Any = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        return [pa.ListArray.from_arrays(offsets, lists.flatten(), type=parts[0].type)]


def _updated(each: Keys, states: list[Any], update: Callable[[list[Any]], list[Any]]) -> list[Any]:
    parts = update([state.get_many(each) for state in states])
    for state, part in zip(states, parts, strict=True):
        state.put_many(each, part)
    return parts


def stored_then_values(keys: Keys, stored: Any, values: Any) -> tuple[Any, Any]:
    """Concatenates stored values and record values; returns the number of each value's key, and the values."""
    return np.concatenate([np.arange(len(stored)), keys.codes]), pa.concat_arrays([stored, values])


def grouped(codes: Any, column: Any, function: str, options: Any = None) -> Any:
    """Aggregates a column's values per key number, and returns the results by number; each number must occur."""
    table = pa.table([indices(codes), column], names=["code", "value"])
    aggregation: Any = [("value", function, options)]
    groups = table.group_by("code", use_threads=False).aggregate(aggregation)
    column, numbers = groups.column(f"value_{function}").combine_chunks(), groups.column("code").to_numpy()
    # Arrow returns groups in order of their first rows, so by number; but it does not guarantee that.
    return column if (np.diff(numbers) > 0).all() else column.take(indices(np.argsort(numbers)))


def _counts(keys: Keys, values: Any) -> Any:
    if values is None or not values.null_count:
        return keys.counts()
    return np.bincount(keys.codes[np.asarray(pc.is_valid(values))], minlength=len(keys.distinct))


def longs(array: Any) -> Any:
    """Returns integers as a NumPy array, with 0 for null."""
    return np.asarray(pc.fill_null(array, 0)).astype(np.int64)


__all__ = ["Accumulator", "Collected", "Count", "Edge", "Extreme", "Folded", "grouped", "longs", "stored_then_values"]
