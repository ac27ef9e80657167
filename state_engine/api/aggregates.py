"""Aggregations that `KeyedStream.aggregate` computes over the records of a key, declared by name.

They work as in SQL: nulls are not counted as values. Without values, a sum, average, minimum or maximum is null, a
count is 0, and a list is empty.
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
    """One aggregation; create it with the methods that are named after SQL's functions.

    Attributes:
        kind: The function.
        column: The column with the values; None for `count()` of records.
        q: Which quantile, 0 to 1; None for the other functions.
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
        """Counts records, or with a column the records with a value that is not null."""
        return cls("count", column)

    @classmethod
    def sum(cls, column: str) -> "Aggregate":
        """Sums integers as `bigint`, decimals with 38 digits, others as `double`. A sum that is too large fails."""
        return cls("sum", column)

    @classmethod
    def min(cls, column: str) -> "Aggregate":
        """Returns the least value; NaN is larger than every number."""
        return cls("min", column)

    @classmethod
    def max(cls, column: str) -> "Aggregate":
        """Returns the largest value; NaN is larger than every number."""
        return cls("max", column)

    @classmethod
    def avg(cls, column: str) -> "Aggregate":
        """Returns the mean, a `double`; for integers it is computed from the exact sum."""
        return cls("avg", column)

    @classmethod
    def stddev(cls, column: str) -> "Aggregate":
        """Returns the sample standard deviation (SQL's `STDDEV_SAMP`), a `double`; null for fewer than two values."""
        return cls("stddev", column)

    @classmethod
    def first(cls, column: str) -> "Aggregate":
        """Returns the value that came first. The order within an epoch is that of `key_by(order_by=...)`."""
        return cls("first", column)

    @classmethod
    def last(cls, column: str) -> "Aggregate":
        """Returns the value that came last. The order within an epoch is that of `key_by(order_by=...)`."""
        return cls("last", column)

    @classmethod
    def collect(cls, column: str) -> "Aggregate":
        """Returns all values as a list in order of arrival; an empty list without values. The list only grows."""
        return cls("collect", column)

    @classmethod
    def approx_count_distinct(cls, column: str) -> "Aggregate":
        """Estimates the number of distinct values, a `bigint`, by HyperLogLog with a standard error of 1.3 %.

        Up to 384 values it is exact, except in fewer than one case in a thousand. The empty string is not counted, as
        in Spark's `hll_sketch_agg`. Both zeros count as one value, and all NaNs count as one value.

        Args:
            column: Of an atomic type other than `binary`, or decimals.
        """
        return cls("approx_count_distinct", column)

    @classmethod
    def approx_quantile(cls, column: str, q: float) -> "Aggregate":
        """Returns a number of the column, a `double`: about the share `q` of the numbers is at or below it.

        For up to 200 numbers it is exact (SQL's `PERCENTILE_DISC`). For more, the share differs from `q` by at most
        1.33 percentage points with 99 % confidence. The least and the largest number (`q` 0 and 1) are always exact.

        Args:
            column: Integers, `float`, `double` or decimals.
            q: 0 to 1.
        """
        return cls("approx_quantile", column, q)


def _is_share(q: object) -> bool:
    return isinstance(q, (int, float)) and not isinstance(q, bool) and 0 <= q <= 1


__all__ = ["Aggregate", "AggregateKind"]
