"""Values with the time of their last access: what the tables of a state with a time to live hold.

A stamped value is the tuple (value, last access in ms or None for unknown). To a table it is a value like any other,
of a type of its own; in the log the two are columns.
"""

from typing import Any

import pyarrow as pa

from state_engine.api.types import AtomicType, StructType, TypeInformation

_NAMES = ("value", "last_access")

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


__all__ = ["Stamped", "join_stamps", "split_stamps", "stamped_type"]
