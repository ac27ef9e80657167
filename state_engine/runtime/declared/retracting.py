"""Aggregations of a changelog, which can retract records.

Only exact results are independent of the order of additions and retractions. So there are counts, sums and means of
integers and decimals, and smallest and largest values of types whose values can be told apart. Each record is passed to
them as a partial of its own, which is negative for a retraction.
"""

from abc import abstractmethod
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.descriptors import MapStateDescriptor, StateDescriptor, ValueStateDescriptor
from state_engine.api.keys import Keys, Numbers, indices
from state_engine.api.types import KEY_ATOMS, DecimalType, TypeInformation
from state_engine.runtime.declared.accumulators import LONG, Accumulator, Count, grouped, longs
from state_engine.runtime.declared.comparison import same
from state_engine.runtime.declared.numeric import DOUBLE, Mean, Sum, halves
from state_engine.serialization.types import to_arrow

_COUNTS = "counts"


class Retracting(Accumulator):
    """An aggregation of records that have signs."""

    @abstractmethod
    def signed(self, signs: Numbers, values: Any) -> list[Any]:
        """Returns the columns for `merge`, one row per record.

        Args:
            signs: 1 for an added record, -1 for a retracted one.
            values: One per record; None if records are aggregated, not values.
        """


class RetractingCount(Count, Retracting):
    """The number of values."""

    def signed(self, signs: Numbers, values: Any) -> list[Any]:
        return [_counted(signs, values)]


class RetractingMean(Mean, Retracting):
    """The mean: keeps the sum and the count of the values."""

    def __init__(self, column: TypeInformation) -> None:
        super().__init__(column)
        self._wide = to_arrow(Sum(column).result)

    def signed(self, signs: Numbers, values: Any) -> list[Any]:
        goes = pa.array(signs < 0)
        wide = values.cast(self._wide)
        # The smallest 64-bit integer cannot be negated in 64 bits; its halves can.
        parts = halves(wide) if pa.types.is_integer(wide.type) else [wide]
        return [*(pc.if_else(goes, pc.negate(part), part) for part in parts), _counted(signs, values)]


class RetractingSum(RetractingMean):
    """The sum of the values; null when there are no values any more."""

    def __init__(self, column: TypeInformation) -> None:
        super().__init__(column)
        self.result = Sum(column).result

    def given(self, parts: list[Any]) -> Any:
        return pc.if_else(pa.array(longs(parts[1]) > 0), parts[0], None)


class RetractingExtreme(Retracting):
    """The smallest or the largest value; when it is retracted, the new one is searched among the key's other values.

    A map state has the count of each value. As in Flink, the cost of an epoch is that of its changes, plus that of all
    values of the keys that lose their extreme. A value that is retracted and never came has a negative count, until it
    comes.
    """

    def __init__(self, column: TypeInformation, kind: str) -> None:
        self.result = column
        self.parts = {kind: column, _COUNTS: LONG}
        self._kind = kind

    def descriptor(self, name: str, part: str) -> StateDescriptor:
        if part == _COUNTS:
            return MapStateDescriptor(name, self.result, self.parts[part])
        return ValueStateDescriptor(name, self.parts[part])

    def signed(self, signs: Numbers, values: Any) -> list[Any]:
        return [values, _counted(signs, values)]

    def add(self, keys: Keys, states: list[Any], values: Any) -> list[Any]:
        return self.merge(keys, states, self.signed(np.ones(len(keys), np.int64), values))

    def merge(self, keys: Keys, states: list[Any], partials: list[Any]) -> list[Any]:
        """See `Accumulator`; as `read`, it returns only the first part."""
        extreme, counts = states
        each = keys.distinct
        codes, values, now = _recounted(keys, counts, *partials)
        stored = extreme.get_many(each)
        lost = np.zeros(len(each), bool)
        lost[codes[same(values, stored.take(indices(codes))) & (now <= 0)]] = True
        rest_codes, rest = _left(each, counts, np.flatnonzero(lost))
        present = np.flatnonzero(now > 0)
        extremes = grouped(
            np.concatenate([np.arange(len(each)), codes[present], rest_codes]),
            pa.concat_arrays([pc.if_else(pa.array(lost), None, stored), values.take(indices(present)), rest]),
            self._kind,
        )
        changed = np.flatnonzero(~same(stored, extremes))  # most keys keep their extreme: nothing is logged for them
        extreme.put_many(each.take(changed), extremes.take(indices(changed)))
        return [extremes]

    def read(self, each: Keys, states: list[Any]) -> list[Any]:
        return [states[0].get_many(each)]


def _recounted(keys: Keys, counts: Any, values: Any, more: Any) -> tuple[Numbers, Any, Numbers]:
    """Updates the counts of values that are added or retracted.

    Args:
        keys: Keys of the records.
        counts: The state with the count of each value of a key.
        values: One per record.
        more: The change of the value's count by each record; 0 for null.

    Returns:
        For each value of a key with a changed count: the number of the key, the value, and its new count.
    """
    relevant = np.flatnonzero(longs(more))
    pairs = Keys([indices(keys.codes[relevant]), values.take(indices(relevant))], lambda _: [])
    net = pairs.sums(more.take(indices(relevant)))
    positions, net = relevant[pairs.first[net != 0]], net[net != 0]
    value_keys, values = keys.take(positions), values.take(indices(positions))
    new_counts = longs(counts.get_many(value_keys, values)) + net
    kept, removed = np.flatnonzero(new_counts), np.flatnonzero(new_counts == 0)
    counts.put_many(value_keys.take(kept), values.take(indices(kept)), new_counts[kept])
    counts.remove_many(value_keys.take(removed), values.take(indices(removed)))
    return keys.codes[positions], values, new_counts


def _left(each: Keys, counts: Any, at: Numbers) -> tuple[Numbers, Any]:
    """Returns all values of some keys, and the number of each value's key."""
    entries = counts.items_many(each.take(at))
    values, count = entries.flatten().flatten()
    present = np.flatnonzero(longs(count) > 0)
    return at[np.asarray(pc.list_parent_indices(entries))[present]], values.take(indices(present))


def retracting(kind: str, column: TypeInformation | None) -> Retracting | None:
    """Returns the accumulator of an aggregation of a changelog; None if the aggregation cannot retract records.

    Args:
        kind: The kind of the `Aggregate`.
        column: Type of the column, which has numbers for a sum or a mean; None if records are aggregated.
    """
    if kind == "count":
        return RetractingCount()
    if column is not None and kind in ("min", "max"):
        distinguishable = isinstance(column, DecimalType) or column.ddl() in KEY_ATOMS
        return RetractingExtreme(column, kind) if distinguishable else None
    if column is None or kind not in ("sum", "avg") or Sum(column).result == DOUBLE:
        return None
    return RetractingSum(column) if kind == "sum" else RetractingMean(column)


def _counted(signs: Numbers, values: Any) -> Any:
    return pa.array(signs if values is None else np.where(np.asarray(pc.is_valid(values)), signs, 0))


__all__ = ["Retracting", "RetractingCount", "RetractingExtreme", "RetractingMean", "RetractingSum", "retracting"]
