"""Values with the time of their last access: what the tables of a state with a time to live hold.

A stamped value is the tuple (value, last access in ms or None for unknown). To a table it is a value like any other,
of a type of its own; in the log the two are columns.
"""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.types import AtomicType, StructType, TypeInformation
from state_engine.log.ops import Op

_NAMES = ("value", "last_access")
LAST_ACCESS = 1
"""The field of the time."""

Stamped = tuple[Any, int | None]


def stamped_type(value: TypeInformation) -> StructType:
    """Returns the type of stamped values of a type."""
    return StructType(_NAMES, (value, AtomicType("bigint")), carrier=tuple)


def split_stamps(stamped: Any) -> "tuple[pa.Array[Any], pa.Array[Any]]":
    """Returns the values and the times of an array of stamped values; both are null where there is none."""
    values, times = stamped.flatten()
    return values, times


def join_stamps(values: Any, times: Any) -> "pa.Array[Any]":
    """The inverse of `split_stamps`, for columns of a table."""
    return pa.StructArray.from_arrays([values.combine_chunks(), times.combine_chunks()], names=list(_NAMES))


def stamp_all(values: Any, times: Any) -> "pa.Array[Any]":
    """As `stamp_each`, but null stays null, and so does its last access."""
    stamped: pa.Array[Any] = stamp_each(values, times)
    if not values.null_count:
        return stamped
    at: Any = pa.array(np.arange(len(values)), mask=np.asarray(values.is_null()))
    return stamped.take(at)


def stamp_each(values: Any, times: Any) -> "pa.Array[Any]":
    """Returns values, null ones among them, with their last accesses: an array, or one for all; None for unknown."""
    if times is None:
        times = pa.nulls(len(values), pa.int64())
    elif not isinstance(times, pa.Array):
        times = pa.array(np.full(len(values), times, np.int64))
    return pa.StructArray.from_arrays([values, times], names=list(_NAMES))


def oldest_access(times: Any, ops: "np.ndarray[Any, Any]") -> float:
    """Returns the earliest last access among log rows that write a value.

    Args:
        times: A column of last accesses, null for unknown ones, and for rows that remove something.
        ops: What each row does.

    Returns:
        Minus infinity if one is unknown, infinity if no row writes a value.
    """
    written = ops < Op.DELETE
    if not written.all():
        times = times.filter(pa.array(written))
    if times.null_count:
        return -math.inf
    oldest: int | None = pc.min(times).as_py()
    return math.inf if oldest is None else oldest


__all__ = [
    "LAST_ACCESS",
    "Stamped",
    "join_stamps",
    "oldest_access",
    "split_stamps",
    "stamp_all",
    "stamp_each",
    "stamped_type",
]
