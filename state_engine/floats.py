"""Decides which floating-point numbers are equal as keys: NaN equals NaN, and -0.0 equals 0.0, as in SQL.

Spark groups, joins and partitions by the same rule (`NormalizeFloatingNumbers`). `serialization/equality.py` applies it
to values of any type; columns are numbered by it (`api/keys.py`, `log/grouping.py`).
"""

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

NAN = math.nan
"""The NaN that keys have: a dict finds it by identity."""


def one_float(value: Any) -> Any:
    """Returns `NAN` for every NaN, and any other value as it is: Python finds 0.0 by -0.0 already."""
    return NAN if isinstance(value, float) and value != value else value


def one_spelling(column: Any) -> Any:
    """Returns an Arrow array of floating-point numbers with one spelling of NaN, and of zero.

    When Arrow makes dictionaries of numbers, it compares their bits: even one NaN may differ from another.
    """
    column = pc.add(column, pa.scalar(0.0, column.type))  # -0.0 + 0.0 is 0.0
    is_nan = pc.is_nan(column)
    if not pc.any(is_nan).as_py():
        return column
    return pc.if_else(is_nan, pa.scalar(NAN, column.type), column)


__all__ = ["NAN", "one_float", "one_spelling"]
