"""Numeric aggregations: sums, means and standard deviations."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.keys import Keys, Numbers
from state_engine.api.types import INTEGERS, AtomicType, DecimalType, TypeInformation
from state_engine.runtime.declared.accumulators import LONG, Count, Folded, grouped, longs, stored_then_values
from state_engine.runtime.declared.local import Partial
from state_engine.serialization.types import to_arrow

DOUBLE = AtomicType("double")
_OR_NULL = pc.ScalarAggregateOptions(min_count=1)
_EXACT_DIGITS = 76  # decimal256's; a column holds fewer than 10^19 values of 38 digits
_SUM_DIGITS = 38
_MORE_DIGITS = 10  # by which Spark's sum of decimals is wider
_EXACT_IN_DOUBLES = 2**53
_HALF = 32  # bits: sums of halves of 64-bit integers do not overflow where those of the integers would


class Sum(Folded):
    """The sum of numbers."""

    def __init__(self, column: TypeInformation) -> None:
        self._column = column
        self.result = _sum_type(column)
        self.parts = {"sum": self.result}

    def folded(self, keys: Keys, stored: list[Any], values: Any) -> list[Any]:
        return self._sums(keys, stored[0], values.cast(to_arrow(self.result)))

    def partials(self, column: str | None) -> list[Partial] | None:
        kind = self._column
        if isinstance(kind, DecimalType):
            digits = kind.precision + _MORE_DIGITS
            return [Partial(DecimalType(digits, kind.scale), "sum({})", column)] if digits <= _SUM_DIGITS else None
        if self.result == DOUBLE:
            return None  # a sum of doubles depends on their order
        if kind != LONG:
            return [Partial(LONG, "sum({})", column)]
        high, low = f"shiftright({{}}, {_HALF})", f"({{}} & {(1 << _HALF) - 1})"
        return [Partial(LONG, f"sum({half})", column) for half in (high, low)]

    def merged(self, keys: Keys, stored: list[Any], partials: list[Any]) -> list[Any]:
        if len(partials) == 1:
            return self.folded(keys, stored, partials[0])
        values = _joined(*partials)
        return self._sums(keys, stored[0].cast(values.type), values)

    def _sums(self, keys: Keys, stored: Any, values: Any) -> list[Any]:
        if pa.types.is_integer(values.type) and (sums := _exact_in_doubles(keys, stored, values)) is not None:
            return [sums]
        wanted = to_arrow(self.result)
        codes, column = stored_then_values(keys, stored, values)
        if self.result == DOUBLE or (pa.types.is_integer(column.type) and _is_small(column)):
            return [grouped(codes, column, "sum", _OR_NULL)]
        sums = grouped(codes, column.cast(pa.decimal256(_EXACT_DIGITS, _scale(self.result))), "sum", _OR_NULL)
        try:
            return [sums.cast(wanted)]
        except pa.ArrowInvalid:
            largest = pc.max(pc.abs(sums)).as_py()
            raise OverflowError(f"a sum outgrew {self.result}: {largest}; cast the column first") from None


class Mean(Folded):
    """The mean: keeps the sum and the count of the values."""

    result: TypeInformation = DOUBLE

    def __init__(self, column: TypeInformation) -> None:
        self._sum, self._count = Sum(column), Count()
        self.parts = {**self._sum.parts, **self._count.parts}

    def folded(self, keys: Keys, stored: list[Any], values: Any) -> list[Any]:
        total, count = stored
        return [*self._sum.folded(keys, [total], values), *self._count.folded(keys, [count], values)]

    def partials(self, column: str | None) -> list[Partial] | None:
        of_sum = self._sum.partials(column)
        return None if of_sum is None else [*of_sum, *self._count.partials(column)]

    def merged(self, keys: Keys, stored: list[Any], partials: list[Any]) -> list[Any]:
        total, count = stored
        *of_sum, of_count = partials
        return [*self._sum.merged(keys, [total], of_sum), *self._count.merged(keys, [count], [of_count])]

    def combined(self, keys: Keys, parts: list[Any]) -> list[Any]:
        total, count = parts
        return [*self._sum.combined(keys, [total]), *self._count.combined(keys, [count])]

    def given(self, parts: list[Any]) -> Any:
        total, n = _doubles(as_doubles(parts[0])), longs(parts[1])
        return pa.array(total / np.maximum(n, 1), mask=n <= 0)  # below 0: more values were retracted than came


class Deviation(Folded):
    """The standard deviation: keeps count, mean and sum of squared distances, which can be merged (Chan et al.)."""

    result = DOUBLE

    def __init__(self) -> None:
        self.parts = {"count": LONG, "mean": DOUBLE, "m2": DOUBLE}

    def folded(self, keys: Keys, stored: list[Any], values: Any) -> list[Any]:
        valid = np.asarray(pc.is_valid(values))
        codes, numbers = keys.codes[valid], np.asarray(as_doubles(values.drop_null()))
        size = len(keys.distinct)
        old_n, old_mean, old_m2 = longs(stored[0]), _doubles(stored[1]), _doubles(stored[2])
        new_n = np.bincount(codes, minlength=size)
        with np.errstate(invalid="ignore", over="ignore"):
            new_mean = _means(codes, numbers, 1 / new_n[codes], size)
            new_m2 = np.bincount(codes, (numbers - new_mean[codes]) ** 2, size)
            n, half = old_n + new_n, np.where(old_n, new_mean / 2 - old_mean / 2, 0)
            share = new_n / np.maximum(n, 1)
            mean = np.where(old_n, old_mean + half * share + half * share, new_mean)
            m2 = old_m2 + new_m2 + (2 * half) ** 2 * old_n * share
        return [pa.array(n), pa.array(np.where(new_n, mean, old_mean)), pa.array(np.where(new_n, m2, old_m2))]

    def combined(self, keys: Keys, parts: list[Any]) -> list[Any]:
        filled = np.flatnonzero(longs(parts[0]))
        codes, size = keys.codes[filled], len(keys.distinct)
        group_n, group_mean, group_m2 = longs(parts[0])[filled], _doubles(parts[1])[filled], _doubles(parts[2])[filled]
        n = np.bincount(codes, group_n, size).astype(np.int64)
        with np.errstate(invalid="ignore", over="ignore"):
            mean = _means(codes, group_mean, group_n / n[codes], size)
            m2 = np.bincount(codes, group_m2 + (group_mean - mean[codes]) ** 2 * group_n, size)
        return [pa.array(n), pa.array(mean), pa.array(m2)]

    def given(self, parts: list[Any]) -> Any:
        n, m2 = longs(parts[0]), _doubles(parts[2])
        return pa.array(np.sqrt(m2 / np.maximum(n - 1, 1)), mask=n < 2)


def _means(codes: Numbers, numbers: Any, shares: Any, size: int) -> Any:
    """Returns the mean of each code's numbers, weighted by their shares; 0 for a code without numbers.

    It adds up the distances from one of the numbers: equal numbers then have exactly that mean, where a rounded mean
    would give them a deviation. It adds halves, since two doubles may be further apart than the largest double.
    """
    near = np.zeros(size)
    near[codes] = numbers
    half = np.bincount(codes, (numbers / 2 - near[codes] / 2) * shares, size)
    return near + half + half


def _sum_type(column: TypeInformation) -> TypeInformation:
    if isinstance(column, DecimalType):
        return DecimalType(_SUM_DIGITS, column.scale)
    return LONG if isinstance(column, AtomicType) and column.name in INTEGERS else DOUBLE


def _scale(sum_type: TypeInformation) -> int:
    return sum_type.scale if isinstance(sum_type, DecimalType) else 0


def halves(integers: Any) -> list[Any]:
    """Splits each integer into two halves that can be summed separately, and negated."""
    whole = integers.cast(pa.int64())
    return [pc.shift_right(whole, _HALF), pc.bit_wise_and(whole, (1 << _HALF) - 1)]


def _joined(high: Any, low: Any) -> Any:
    """Returns the sums of integers from the sums of their halves: decimals if a sum does not fit into 64 bits."""
    absent, low = np.asarray(high.is_null()), longs(low)
    high, low = longs(high) + (low >> _HALF), low & ((1 << _HALF) - 1)
    if not len(high) or (high.min() >= -(1 << _HALF - 1) and high.max() < 1 << _HALF - 1):
        return pa.array((high << _HALF) | low, mask=absent)
    exact = [
        None if a else (h << _HALF) + b for a, h, b in zip(*(x.tolist() for x in (absent, high, low)), strict=True)
    ]
    return pa.array(exact, pa.decimal128(_SUM_DIGITS, 0))


def _is_small(column: Any) -> bool:
    """Returns whether every sum of these integers fits into 64 bits."""
    return _largest(column) * len(column) < 2**63


def _largest(column: Any) -> int:
    """Returns the largest absolute value of these integers."""
    bounds = pc.min_max(column)
    least, largest = (bounds[name].as_py() or 0 for name in ("min", "max"))
    return max(-least, largest)


def _exact_in_doubles(keys: Keys, stored: Any, values: Any) -> Any:
    """Adds integers as doubles, which takes a tenth of the time; returns None if a sum might be rounded."""
    largest = _largest(values) * len(values)
    if largest > _EXACT_IN_DOUBLES or largest + _largest(stored) >= 2**63:
        return None
    size, valid = len(keys.distinct), np.asarray(stored.is_valid())
    sums = np.bincount(keys.codes, longs(values), size).astype(np.int64) + longs(stored)
    if values.null_count:
        valid = valid | (np.bincount(keys.codes[np.asarray(values.is_valid())], minlength=size) > 0)
        return pa.array(sums, mask=~valid)
    return pa.array(sums)


def as_doubles(numbers: Any) -> Any:
    """Returns numbers as their nearest doubles."""
    if pa.types.is_decimal(numbers.type):  # Arrow divides by a power of ten, and rounds twice
        numbers = numbers.cast(pa.string())
    return numbers.cast(pa.float64(), safe=False)  # a safe cast refuses an integer that is equal to no double


def _doubles(array: Any) -> Any:
    return np.asarray(pc.fill_null(array, 0.0))


__all__ = ["DOUBLE", "Deviation", "Mean", "Sum", "as_doubles", "halves"]
