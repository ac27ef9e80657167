"""What an aggregation keeps per key, and how a batch's values are folded into it.

A fold puts the stored value of each key in front of the batch's values, as if it were one more of them, and lets Arrow
group the two. So the result does not depend on where batches are cut, but for the last digits of sums of doubles.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.aggregates import Aggregate
from state_engine.api.keys import Keys, indices
from state_engine.api.types import INTEGERS, AtomicType, DecimalType, StructType, TypeInformation
from state_engine.errors import JobDefinitionError
from state_engine.serialization.types import to_arrow

LONG, DOUBLE = AtomicType("bigint"), AtomicType("double")
_FLOATS = {"float", "double"}
_OR_NULL = pc.ScalarAggregateOptions(min_count=1)
_EXACT_DIGITS = 76  # decimal256's; a column holds fewer than 10^19 values of 38 digits


class Accumulator(ABC):
    """One aggregation of one column.

    Args:
        column: Its type.

    Attributes:
        parts: What is stored per key: a name each, and its type.
        result: Type of what is given.
    """

    parts: dict[str, TypeInformation]
    result: TypeInformation

    @abstractmethod
    def folded(self, keys: Keys, stored: list[Any], values: Any) -> list[Any]:
        """Returns the parts of each distinct key, with the batch's values in them.

        Args:
            keys: Of the records.
            stored: The parts of each distinct key so far, null where there is none.
            values: One per record.

        Raises:
            OverflowError: A sum outgrew its type.
        """

    def given(self, parts: list[Any]) -> Any:
        """Returns the result of each distinct key."""
        return parts[0]


class Count(Accumulator):
    """How many values there were."""

    result = LONG

    def __init__(self) -> None:
        self.parts = {"count": LONG}

    def folded(self, keys: Keys, stored: list[Any], values: Any) -> list[Any]:
        return [pa.array(_longs(stored[0]) + _counts(keys, values))]


class Sum(Accumulator):
    """The sum of numbers."""

    def __init__(self, column: TypeInformation) -> None:
        self.result = _sum_type(column)
        self.parts = {"sum": self.result}

    def folded(self, keys: Keys, stored: list[Any], values: Any) -> list[Any]:
        wanted = to_arrow(self.result)
        codes, column = _behind(keys, stored[0], values.cast(wanted))
        if self.result == DOUBLE or (self.result == LONG and _is_small(column)):
            return [_grouped(codes, column, "sum", _OR_NULL)]
        sums = _grouped(codes, column.cast(pa.decimal256(_EXACT_DIGITS, _scale(self.result))), "sum", _OR_NULL)
        try:
            return [sums.cast(wanted)]
        except pa.ArrowInvalid:
            largest = pc.max(pc.abs(sums)).as_py()
            raise OverflowError(f"a sum outgrew {self.result}: {largest}; cast the column in front") from None


class Extreme(Accumulator):
    """The least or the largest value."""

    def __init__(self, column: TypeInformation, kind: str) -> None:
        self.result = column
        self.parts = {kind: column}
        self._kind = kind

    def folded(self, keys: Keys, stored: list[Any], values: Any) -> list[Any]:
        codes, column = _behind(keys, stored[0], values)
        found = _grouped(codes, column, self._kind)
        if self._kind == "max" and pa.types.is_floating(column.type):  # Arrow looks past NaN
            nan = np.zeros(len(found), bool)
            nan[codes[np.asarray(pc.fill_null(pc.is_nan(column), False))]] = True
            found = pc.if_else(pa.array(nan), pa.scalar(float("nan"), column.type), found)
        return [found]


class Edge(Accumulator):
    """The value that came first, or last."""

    def __init__(self, column: TypeInformation, kind: str) -> None:
        self.result = column
        self.parts = {kind: column}
        self._first = kind == "first"

    def folded(self, keys: Keys, stored: list[Any], values: Any) -> list[Any]:
        codes, column = _behind(keys, stored[0], values)
        positions = np.flatnonzero(np.asarray(pc.is_valid(column)))
        if self._first:
            positions = positions[::-1]
        found = np.full(len(keys.distinct), -1)
        found[codes[positions]] = positions  # of several the last one stays
        return [column.take(pa.array(found, mask=found < 0))]


class Mean(Accumulator):
    """The sum and the number of the values."""

    result = DOUBLE

    def __init__(self, column: TypeInformation) -> None:
        self._sum, self._count = Sum(column), Count()
        self.parts = {**self._sum.parts, **self._count.parts}

    def folded(self, keys: Keys, stored: list[Any], values: Any) -> list[Any]:
        total, count = stored
        return [*self._sum.folded(keys, [total], values), *self._count.folded(keys, [count], values)]

    def given(self, parts: list[Any]) -> Any:
        total, n = _doubles(parts[0].cast(pa.float64())), _longs(parts[1])
        return pa.array(total / np.maximum(n, 1), mask=n == 0)


class Deviation(Accumulator):
    """Number, mean and sum of squared distances from it: what two parts of a sample are merged by (Chan et al.)."""

    result = DOUBLE

    def __init__(self) -> None:
        self.parts = {"count": LONG, "mean": DOUBLE, "m2": DOUBLE}

    def folded(self, keys: Keys, stored: list[Any], values: Any) -> list[Any]:
        there = np.asarray(pc.is_valid(values))
        codes, numbers = keys.codes[there], np.asarray(values.drop_null().cast(pa.float64()))
        size = len(keys.distinct)
        old_n, old_mean, old_m2 = _longs(stored[0]), _doubles(stored[1]), _doubles(stored[2])
        new_n = np.bincount(codes, minlength=size)
        with np.errstate(invalid="ignore"):
            new_mean = np.bincount(codes, numbers, size) / np.maximum(new_n, 1)
            new_m2 = np.bincount(codes, (numbers - new_mean[codes]) ** 2, size)
            n, distance = old_n + new_n, new_mean - old_mean
            share = new_n / np.maximum(n, 1)
            mean = old_mean + distance * share
            m2 = old_m2 + new_m2 + distance**2 * old_n * share
        return [pa.array(n), pa.array(np.where(new_n, mean, old_mean)), pa.array(np.where(new_n, m2, old_m2))]

    def given(self, parts: list[Any]) -> Any:
        n, m2 = _longs(parts[0]), _doubles(parts[2])
        return pa.array(np.sqrt(m2 / np.maximum(n - 1, 1)), mask=n < 2)


def accumulator(name: str, aggregate: Aggregate, columns: StructType) -> Accumulator:
    """Returns what does one aggregation.

    Args:
        name: Of the result, for messages.
        aggregate: What to do.
        columns: Of the records.

    Raises:
        JobDefinitionError: There is no such column, or it cannot be aggregated so.
    """
    kind = aggregate.kind
    if aggregate.column is None:
        return Count()
    if aggregate.column not in columns.names:
        raise JobDefinitionError(
            f"{name} is the {kind} of {aggregate.column!r}; the stream has {', '.join(columns.names)}.",
            action="Check the spelling; names are case-sensitive here.",
        )
    column = columns.types[columns.names.index(aggregate.column)]
    match kind:
        case "count":
            return Count()
        case "first" | "last":
            return Edge(column, kind)
        case "min" | "max" if isinstance(column, (AtomicType, DecimalType)):
            return Extreme(column, kind)
        case "sum" if _is_number(column):
            return Sum(column)
        case "avg" if _is_number(column):
            return Mean(column)
        case "stddev" if _is_number(column):
            return Deviation()
    raise JobDefinitionError(
        f"{name} is the {kind} of {aggregate.column!r}, which is {column}.",
        action="Give a column whose values have an order." if kind in ("min", "max") else "Give a column of numbers.",
    )


def _is_number(column: TypeInformation) -> bool:
    return isinstance(column, DecimalType) or (isinstance(column, AtomicType) and column.name in INTEGERS | _FLOATS)


def _sum_type(column: TypeInformation) -> TypeInformation:
    if isinstance(column, DecimalType):
        return DecimalType(38, column.scale)
    return LONG if isinstance(column, AtomicType) and column.name in INTEGERS else DOUBLE


def _scale(sum_type: TypeInformation) -> int:
    return sum_type.scale if isinstance(sum_type, DecimalType) else 0


def _is_small(column: Any) -> bool:
    """Whether no sum of these integers can leave 64 bits."""
    found = pc.min_max(column)
    least, largest = (found[name].as_py() or 0 for name in ("min", "max"))
    return bool(max(-least, largest) * len(column) < 2**63)


def _behind(keys: Keys, stored: Any, values: Any) -> tuple[Any, Any]:
    """Returns number of the key and value: first of what is stored, then of the records."""
    return np.concatenate([np.arange(len(stored)), keys.codes]), pa.concat_arrays([stored, values])


def _grouped(codes: Any, column: Any, function: str, options: Any = None) -> Any:
    """Returns what a column's values of each number come to, by number; each must be there, the first time in order."""
    table = pa.table([indices(codes), column], names=["code", "value"])
    asked: Any = [("value", function, options)]
    return table.group_by("code", use_threads=False).aggregate(asked).column(f"value_{function}").combine_chunks()


def _counts(keys: Keys, values: Any) -> Any:
    if values is None or not values.null_count:
        return keys.counts()
    return np.bincount(keys.codes[np.asarray(pc.is_valid(values))], minlength=len(keys.distinct))


def _longs(array: Any) -> Any:
    return np.asarray(pc.fill_null(array, 0)).astype(np.int64)


def _doubles(array: Any) -> Any:
    return np.asarray(pc.fill_null(array, 0.0))


__all__ = ["Accumulator", "accumulator"]
