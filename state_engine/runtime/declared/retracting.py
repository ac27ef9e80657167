"""Aggregations that can take back what came: those of a changelog, whose records come and go.

Only what is exact comes to the same however it was reached, so there are counts, sums and means of integers and
decimals, and the least and the largest of values that are told apart. A record is handed to them as a partial of its
own, negative where it goes.
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
    """An aggregation to whose records there are signs."""

    @abstractmethod
    def signed(self, signs: Numbers, values: Any) -> list[Any]:
        """Returns the columns that `merge` takes, a row per record.

        Args:
            signs: 1 of a record that comes, -1 of one that goes.
            values: One per record; None where records are aggregated, not values.
        """


class RetractingCount(Count, Retracting):
    """How many values there are."""

    def signed(self, signs: Numbers, values: Any) -> list[Any]:
        return [_counted(signs, values)]


class RetractingMean(Mean, Retracting):
    """The sum and the number of the values."""

    def __init__(self, column: TypeInformation) -> None:
        super().__init__(column)
        self._wide = to_arrow(Sum(column).result)

    def signed(self, signs: Numbers, values: Any) -> list[Any]:
        goes = pa.array(signs < 0)
        wide = values.cast(self._wide)
        # The least integer of 64 bits has no negative one there; its halves have.
        parts = halves(wide) if pa.types.is_integer(wide.type) else [wide]
        return [*(pc.if_else(goes, pc.negate(part), part) for part in parts), _counted(signs, values)]


class RetractingSum(RetractingMean):
    """The sum of the values; none is left of it when none of them is."""

    def __init__(self, column: TypeInformation) -> None:
        super().__init__(column)
        self.result = Sum(column).result

    def given(self, parts: list[Any]) -> Any:
        return pc.if_else(pa.array(longs(parts[1]) > 0), parts[0], None)


class RetractingExtreme(Retracting):
    """The least or the largest value; when it goes, that is looked for among all that its key has left.

    How often each of them is there is a map: as in Flink, an epoch costs what it changes, and all values of the keys
    that lose theirs. Of a value that goes and never came there are fewer than none, until it comes.
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
        """As of `Accumulator`; of the parts it returns the first alone, as `read` does."""
        extreme, counts = states
        each = keys.distinct
        codes, values, now = _recounted(keys, counts, *partials)
        stored = extreme.get_many(each)
        lost = np.zeros(len(each), bool)
        lost[codes[same(values, stored.take(indices(codes))) & (now <= 0)]] = True
        left_of, left = _left(each, counts, np.flatnonzero(lost))
        there = np.flatnonzero(now > 0)
        found = grouped(
            np.concatenate([np.arange(len(each)), codes[there], left_of]),
            pa.concat_arrays([pc.if_else(pa.array(lost), None, stored), values.take(indices(there)), left]),
            self._kind,
        )
        changed = np.flatnonzero(~same(stored, found))  # most keys keep theirs: nothing is logged of these
        extreme.put_many(each.take(changed), found.take(indices(changed)))
        return [found]

    def read(self, each: Keys, states: list[Any]) -> list[Any]:
        return [states[0].get_many(each)]


def _recounted(keys: Keys, counts: Any, values: Any, more: Any) -> tuple[Numbers, Any, Numbers]:
    """Counts values that come and go.

    Args:
        keys: Of the records.
        counts: How often each value of a key is there.
        values: One per record.
        more: How many more there are of it, 0 of null.

    Returns:
        Of each value of a key whose count changes: number of the key, value, and how often it is there now.
    """
    there = np.flatnonzero(longs(more))
    pairs = Keys([indices(keys.codes[there]), values.take(indices(there))], lambda _: [])
    net = pairs.sums(more.take(indices(there)))
    at, net = there[pairs.first[net != 0]], net[net != 0]
    own, values = keys.take(at), values.take(indices(at))
    now = longs(counts.get_many(own, values)) + net
    stays, goes = np.flatnonzero(now), np.flatnonzero(now == 0)
    counts.put_many(own.take(stays), values.take(indices(stays)), now[stays])
    counts.remove_many(own.take(goes), values.take(indices(goes)))
    return keys.codes[at], values, now


def _left(each: Keys, counts: Any, at: Numbers) -> tuple[Numbers, Any]:
    """Returns all values that some of the keys have, and of each the number of its key."""
    entries = counts.items_many(each.take(at))
    values, count = entries.flatten().flatten()
    there = np.flatnonzero(longs(count) > 0)
    return at[np.asarray(pc.list_parent_indices(entries))[there]], values.take(indices(there))


def retracting(kind: str, column: TypeInformation | None) -> Retracting | None:
    """Returns what does an aggregation of a changelog; None if what came cannot be taken back from it.

    Args:
        kind: As of `Aggregate`.
        column: Type of what is aggregated, numbers where it is a sum or a mean; None for records.
    """
    if kind == "count":
        return RetractingCount()
    if column is not None and kind in ("min", "max"):
        told_apart = isinstance(column, DecimalType) or column.ddl() in KEY_ATOMS
        return RetractingExtreme(column, kind) if told_apart else None
    if column is None or kind not in ("sum", "avg") or Sum(column).result == DOUBLE:
        return None
    return RetractingSum(column) if kind == "sum" else RetractingMean(column)


def _counted(signs: Numbers, values: Any) -> Any:
    return pa.array(signs if values is None else np.where(np.asarray(pc.is_valid(values)), signs, 0))


__all__ = ["Retracting", "RetractingCount", "RetractingExtreme", "RetractingMean", "RetractingSum", "retracting"]
