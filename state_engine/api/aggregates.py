"""Declared aggregations of the records of a key: what `KeyedStream.aggregate` keeps and gives, by name.

The meaning is SQL's: null is no value. A sum, an average or an extreme of no value is null, a count of none is 0, a
list of none is empty.
"""

from dataclasses import dataclass
from typing import Literal

from state_engine.errors import JobDefinitionError

AggregateKind = Literal[
    "count",
    "sum",
    "min",
    "max",
    "avg",
    "stddev",
    "first",
    "last",
    "collect",
    "approx_count_distinct",
    "approx_quantile",
]


@dataclass(frozen=True)
class Aggregate:
    """One aggregation; made by the methods that have the names of SQL's functions.

    Attributes:
        kind: The function.
        column: Of which column's values; None for `count()` of records.
        q: Of a quantile, which one, 0 to 1; None of the others.
    """

    kind: AggregateKind
    column: str | None = None
    q: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) and not (self.kind == "count" and self.column is None):
            raise JobDefinitionError(f"Aggregate.{self.kind}() got {self.column!r}.", action="Give a column's name.")
        if not (_is_share(self.q) if self.kind == "approx_quantile" else self.q is None):
            raise JobDefinitionError(
                f"Aggregate.{self.kind}({self.column!r}) got q={self.q!r}.",
                action="Give approx_quantile, and no other, a number from 0 to 1: 0.5 for the median.",
            )

    @classmethod
    def count(cls, column: str | None = None) -> "Aggregate":
        """Counts records, or those whose value is not null."""
        return cls("count", column)

    @classmethod
    def sum(cls, column: str) -> "Aggregate":
        """Adds: integers to a `bigint`, decimals to 38 digits, others to a `double`. One that is too large fails."""
        return cls("sum", column)

    @classmethod
    def min(cls, column: str) -> "Aggregate":
        """Gives the least value; NaN is larger than every number."""
        return cls("min", column)

    @classmethod
    def max(cls, column: str) -> "Aggregate":
        """Gives the largest value; NaN is larger than every number."""
        return cls("max", column)

    @classmethod
    def avg(cls, column: str) -> "Aggregate":
        """Gives the mean, a `double`; of integers it is that of the exact sum."""
        return cls("avg", column)

    @classmethod
    def stddev(cls, column: str) -> "Aggregate":
        """Gives the standard deviation of a sample (SQL's `STDDEV_SAMP`), a `double`; null of fewer than two values."""
        return cls("stddev", column)

    @classmethod
    def first(cls, column: str) -> "Aggregate":
        """Gives the value that came first. The order within an epoch is that of `key_by(order_by=...)`."""
        return cls("first", column)

    @classmethod
    def last(cls, column: str) -> "Aggregate":
        """Gives the value that came last. The order within an epoch is that of `key_by(order_by=...)`."""
        return cls("last", column)

    @classmethod
    def collect(cls, column: str) -> "Aggregate":
        """Gives all values as a list, in the order in which they came, an empty one of none; it only grows."""
        return cls("collect", column)

    @classmethod
    def approx_count_distinct(cls, column: str) -> "Aggregate":
        """Estimates how many different values there are, a `bigint`, by HyperLogLog with a standard error of 1.3 %.

        Up to 384 values it is exact, but for fewer than one case in a thousand. The empty string is no value, as in
        Spark's `hll_sketch_agg`; both zeros are one value, and so is every NaN.

        Args:
            column: Atoms but `binary`, or decimals.
        """
        return cls("approx_count_distinct", column)

    @classmethod
    def approx_quantile(cls, column: str, q: float) -> "Aggregate":
        """Gives a number of the column, a `double`, at or below which about the share `q` of its numbers lies.

        Of up to 200 numbers it is exact (SQL's `PERCENTILE_DISC`). Of more, the share misses `q` by at most 1.33
        percentage points with 99 % confidence; the least and the largest number (`q` 0 and 1) stay exact.

        Args:
            column: Integers, `float`, `double` or decimals.
            q: 0 to 1.
        """
        return cls("approx_quantile", column, q)


def _is_share(q: object) -> bool:
    return isinstance(q, (int, float)) and not isinstance(q, bool) and 0 <= q <= 1


__all__ = ["Aggregate", "AggregateKind"]
