"""Declared aggregations of the records of a key: what `KeyedStream.aggregate` keeps and gives, by name.

The meaning is SQL's: null is no value. A sum, an average or an extreme of no value is null, a count of none is 0, a
list of none is empty.
"""

from dataclasses import dataclass
from typing import Literal

from state_engine.errors import JobDefinitionError

AggregateKind = Literal["count", "sum", "min", "max", "avg", "stddev", "first", "last", "collect"]


@dataclass(frozen=True)
class Aggregate:
    """One aggregation; made by the methods that have the names of SQL's functions.

    Attributes:
        kind: The function.
        column: Of which column's values; None for `count()` of records.
    """

    kind: AggregateKind
    column: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) and not (self.kind == "count" and self.column is None):
            raise JobDefinitionError(f"Aggregate.{self.kind}() got {self.column!r}.", action="Give a column's name.")

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


__all__ = ["Aggregate", "AggregateKind"]
