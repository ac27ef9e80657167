"""Aggregations that can take back what came: those of a changelog, whose records come and go.

Only what is exact comes to the same however it was reached, so there are counts, and sums and means of integers and
decimals. A record is handed to them as a partial of its own, negative where it goes.
"""

from abc import abstractmethod
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.keys import Numbers
from state_engine.api.types import TypeInformation
from state_engine.runtime.declared.accumulators import Accumulator, Count, longs
from state_engine.runtime.declared.numeric import DOUBLE, Mean, Sum, halves
from state_engine.serialization.types import to_arrow


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


def retracting(kind: str, column: TypeInformation | None) -> Retracting | None:
    """Returns what does an aggregation of a changelog; None if what came cannot be taken back from it.

    Args:
        kind: As of `Aggregate`.
        column: Type of what is aggregated, numbers where it is a sum or a mean; None for records.
    """
    if kind == "count":
        return RetractingCount()
    if column is None or kind not in ("sum", "avg") or Sum(column).result == DOUBLE:
        return None
    return RetractingSum(column) if kind == "sum" else RetractingMean(column)


def _counted(signs: Numbers, values: Any) -> Any:
    return pa.array(signs if values is None else np.where(np.asarray(pc.is_valid(values)), signs, 0))


__all__ = ["Retracting", "RetractingCount", "RetractingMean", "RetractingSum", "retracting"]
