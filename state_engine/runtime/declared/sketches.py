"""Aggregations that estimate with a sketch per key: the number of distinct values, and quantiles of numbers.

A sketch is a short summary of many values, kept as the bytes that Apache DataSketches writes. Other engines that have
the library can read them, among them Spark SQL (docs/formats/sketches.md).

Arrow and NumPy sort a batch by key; then each key's sketch is updated in turn. For distinct counts the library takes
one value per call, so duplicates are removed first.
"""

from abc import abstractmethod
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.keys import Keys, Numbers, indices, order_of
from state_engine.api.types import AtomicType
from state_engine.extras import from_extra
from state_engine.runtime.declared.accumulators import LONG, Folded
from state_engine.runtime.declared.numeric import DOUBLE, as_doubles

with from_extra("sketches"):
    from datasketches import hll_sketch, hll_union, kll_doubles_sketch, tgt_hll_type

BINARY = AtomicType("binary")
_LG_K = 12  # and HLL_8: what Spark's hll_sketch_agg makes by default
_K = 200  # what Spark's kll_sketch_agg_double makes by default


class Sketched(Folded):
    """An aggregation that keeps a sketch for each key that has had a value."""

    def __init__(self) -> None:
        self.parts = {"sketch": BINARY}

    def folded(self, keys: Keys, stored: list[Any], values: Any) -> list[Any]:
        sketches = stored[0].to_pylist()
        for code, key_values in self.by_key(keys.codes, values):
            sketches[code] = self.updated(sketches[code], key_values)
        return [pa.array(sketches, pa.binary())]

    def combined(self, keys: Keys, parts: list[Any]) -> list[Any]:
        """Returns the parts of each distinct key, merged from the parts of several groups of records.

        Args:
            keys: Keys of the groups.
            parts: The parts of each group, in the order of `keys`; null where it had no values.
        """
        filled = np.flatnonzero(np.asarray(pc.is_valid(parts[0])))
        order, runs = _runs(keys.codes[filled])
        united: list[bytes | None] = [None] * len(keys.distinct)
        sketches = parts[0].take(indices(filled[order])).to_pylist()
        for code, start, end in runs:
            united[code] = sketches[start] if end - start == 1 else self.united(sketches[start:end])
        return [pa.array(united, pa.binary())]

    @abstractmethod
    def by_key(self, codes: Numbers, values: Any) -> Iterator[tuple[int, Any]]:
        """Yields the number of each key that has values, and its values in the form that `updated` takes.

        Args:
            codes: The number of each record's key.
            values: One per record.
        """

    @abstractmethod
    def updated(self, stored: bytes | None, values: Any) -> bytes:
        """Returns a sketch with the values added; a new sketch if nothing was stored."""

    @abstractmethod
    def united(self, sketches: list[bytes]) -> bytes:
        """Returns a sketch of the values of several sketches."""


class DistinctCount(Sketched):
    """The estimated number of distinct values, by HyperLogLog.

    Values are hashed as Spark's `hll_sketch_agg` does: integers of all sizes as 64 bits, strings as UTF-8. Also
    supported: booleans as 0 and 1, dates as days and timestamps as microseconds since 1970, floating-point numbers as
    doubles (both zeros are one value, and all NaNs are one), and decimals as text with all decimal places.
    """

    result = LONG

    def by_key(self, codes: Numbers, values: Any) -> Iterator[tuple[int, Any]]:
        valid = np.flatnonzero(np.asarray(pc.is_valid(values)))
        codes, values = codes[valid], values.drop_null()
        # In order of first records: the estimate depends on the order, and this order does not depend on batches.
        first = np.sort(Keys([indices(codes), values], lambda _: []).first)
        order, runs = _runs(codes[first])
        hashed = _hashed(values.take(indices(first[order])))
        return ((code, hashed[start:end]) for code, start, end in runs)

    def updated(self, stored: bytes | None, values: list[int] | list[float] | list[str]) -> bytes:
        sketch = hll_sketch(_LG_K, tgt_hll_type.HLL_8) if stored is None else hll_sketch.deserialize(stored)
        update = sketch.update
        for value in values:
            update(value)
        return bytes(sketch.serialize_compact())

    def united(self, sketches: list[bytes]) -> bytes:
        union = hll_union(_LG_K)
        for sketch in sketches:
            union.update(hll_sketch.deserialize(sketch))
        return bytes(union.get_result(tgt_hll_type.HLL_8).serialize_compact())

    def given(self, parts: list[Any]) -> Any:
        return pa.array([0 if one is None else _estimate(one) for one in parts[0].to_pylist()], pa.int64())


class Quantile(Sketched):
    """The number at or below which a given share of all numbers is, estimated by KLL; NaN is ignored.

    Args:
        q: The share, 0 to 1. The sketch does not depend on it.
    """

    result = DOUBLE

    def __init__(self, q: float) -> None:
        super().__init__()
        self._q = q

    def by_key(self, codes: Numbers, values: Any) -> Iterator[tuple[int, Any]]:
        valid = np.asarray(pc.is_valid(values))
        codes, numbers = codes[valid], np.asarray(as_doubles(values.drop_null()))
        real = ~np.isnan(numbers)  # NaN alone would make an empty sketch, which Spark refuses
        codes, numbers = codes[real], numbers[real]
        order, runs = _runs(codes)
        ordered = numbers[order]
        return ((code, ordered[start:end]) for code, start, end in runs)

    def updated(self, stored: bytes | None, values: Any) -> bytes:
        sketch = kll_doubles_sketch(_K) if stored is None else kll_doubles_sketch.deserialize(stored)
        sketch.update(values)
        return bytes(sketch.serialize())

    def united(self, sketches: list[bytes]) -> bytes:
        first, *others = map(kll_doubles_sketch.deserialize, sketches)
        for sketch in others:
            first.merge(sketch)
        return bytes(first.serialize())

    def given(self, parts: list[Any]) -> Any:
        return pa.array([None if one is None else self._of(one) for one in parts[0].to_pylist()], pa.float64())

    def _of(self, stored: bytes) -> float:
        sketch = kll_doubles_sketch.deserialize(stored)
        if self._q in (0, 1):  # the sketch has the exact minimum and maximum besides its samples
            return float(sketch.get_min_value() if self._q == 0 else sketch.get_max_value())
        return float(sketch.get_quantile(self._q, True))


def _runs(codes: Numbers) -> tuple[Numbers, list[tuple[int, int, int]]]:
    """Returns a stable order by number, and for each number where it begins and ends in that order."""
    order = order_of(codes)
    ordered = codes[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    bounds = pairwise([*starts.tolist(), len(codes)])
    return order, [(code, *bound) for code, bound in zip(ordered[starts].tolist(), bounds, strict=True)]


def _hashed(values: Any) -> list[Any]:
    """Returns values in the form that the library hashes: 64-bit integers, doubles, or text."""
    type_ = values.type
    if pa.types.is_decimal(type_):
        return [format(one, "f") for one in values.to_pylist()]
    if pa.types.is_temporal(type_):
        values = values.cast(pa.int32() if pa.types.is_date32(type_) else pa.int64())
    elif pa.types.is_boolean(type_):
        values = values.cast(pa.int8())
    hashed: list[Any] = values.to_numpy(zero_copy_only=False).tolist()
    return hashed


def _estimate(sketch: bytes) -> int:
    return int(hll_sketch.deserialize(sketch).get_estimate() + 0.5)  # rounds as hll_sketch_estimate does


__all__ = ["DistinctCount", "Quantile", "Sketched"]
