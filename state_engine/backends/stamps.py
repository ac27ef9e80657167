"""Stamped values: the tables of a state with a time to live store each value with the time of its last access.

A stamped value is the tuple (value, last access in ms or None if unknown). To a table it is a value like any other, of
a type of its own. In the log the two are separate columns.

Processing time and watermark do not change while a batch is processed. So the same values have expired for all its
records, and whole columns are compared with one number. A touch also writes one number, or by event time a column.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.types import AtomicType, StructType, TypeInformation
from state_engine.backends.ascending import Flags
from state_engine.backends.ttl_rules import ProcessingTimeRules, TtlRules
from state_engine.log.ops import Op

_NAMES = ("value", "last_access")
LAST_ACCESS = 1
"""Index of the field with the time."""
_NEVER = np.iinfo(np.int64).min

Stamped = tuple[Any, int | None]


def stamped_type(value: TypeInformation) -> StructType:
    """Returns the type of stamped values of a type."""
    return StructType(_NAMES, (value, AtomicType("bigint")), carrier=tuple)


def split_stamps(stamped: Any) -> "tuple[pa.Array[Any], pa.Array[Any]]":
    """Returns the values and the times of an array of stamped values; both are null where a stamped value is null."""
    values, times = stamped.flatten()
    return values, times


def join_stamps(values: Any, times: Any) -> "pa.Array[Any]":
    """The inverse of `split_stamps`, for columns of a table."""
    return pa.StructArray.from_arrays([values.combine_chunks(), times.combine_chunks()], names=list(_NAMES))


def stamp_all(values: Any, times: Any) -> "pa.Array[Any]":
    """Does the same as `stamp_each`, but null stays null, and so does its last access."""
    stamped: pa.Array[Any] = stamp_each(values, times)
    return without(stamped, np.asarray(values.is_null())) if values.null_count else stamped


def stamp_each(values: Any, times: Any) -> "pa.Array[Any]":
    """Returns values, including nulls, with their last accesses: an array, or one time for all; None for unknown."""
    if times is None:
        times = pa.nulls(len(values), pa.int64())
    elif not isinstance(times, pa.Array):
        times = pa.array(np.full(len(values), times, np.int64))
    return pa.StructArray.from_arrays([values, times], names=list(_NAMES))


def stamps_of(rules: TtlRules, times: Any) -> Any:
    """Returns the last access that a write sets, as `TtlRules.stamp` does.

    Args:
        rules: Of the state.
        times: Event times of the current records, as an array; None if no record has one.

    Returns:
        One number for all, None for unknown; or an array, null for unknown.
    """
    if times is None or isinstance(rules, ProcessingTimeRules):
        return rules.stamp()
    now = rules.now()
    return times if now is None else times.fill_null(now)


def after_reads(rules: TtlRules, accesses: Any, times: Any) -> tuple[Any, Flags]:
    """Returns the last accesses of values that are read, as `TtlRules.after_read` does, and which of them changed.

    Args:
        rules: Of the state.
        accesses: The last accesses, as an array.
        times: For each value, the event time at which it is read, as in `stamps_of`.
    """
    if not rules.renewed_by_reads and not accesses.null_count:
        return accesses, np.zeros(len(accesses), bool)
    stamps = stamps_of(rules, times)
    if not isinstance(stamps, pa.Array):
        stamps = pa.scalar(stamps, pa.int64())
    seen = pc.max_element_wise(stamps, pa.scalar(rules.now(), pa.int64()))
    later = pc.max_element_wise(accesses, stamps) if rules.renewed_by_reads else accesses
    after: Any = pc.if_else(accesses.is_valid(), later, seen)
    return after, np.asarray(pc.fill_null(after, _NEVER)) != np.asarray(pc.fill_null(accesses, _NEVER))


def at_most(times: Any, limit: float) -> Flags:
    """Returns which last accesses are no later than a time; an unknown one never is."""
    flags: Flags = np.asarray(pc.fill_null(times, np.iinfo(np.int64).max)) <= limit
    return flags


def unexpired(times: Any, expired: Callable[[int | None], bool]) -> Flags:
    """Returns which last accesses have not expired. Each distinct time is checked once, because many share one."""
    encoded = times.dictionary_encode("encode")
    kept = np.array([not expired(time) for time in encoded.dictionary.to_pylist()], bool)
    of_each: Flags = kept[np.asarray(encoded.indices)]
    return of_each


def without(values: Any, gone: Flags) -> Any:
    """Returns values, null where `gone` is true."""
    return values.take(pa.array(np.arange(len(values)), mask=gone)) if gone.any() else values


def earliest(times: Any, kept: Flags) -> float:
    """Returns the earliest of the last accesses to keep; infinity if there are none."""
    time = pc.min(times.filter(pa.array(kept))).as_py()
    return math.inf if time is None else time


def oldest_access(times: Any, ops: "np.ndarray[Any, Any]") -> float:
    """Returns the earliest last access among log rows that write a value.

    Args:
        times: A column of last accesses, null for unknown ones, and for rows that remove something.
        ops: What each row does.

    Returns:
        The time; minus infinity if one is unknown, infinity if no row writes a value.
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
    "after_reads",
    "at_most",
    "earliest",
    "join_stamps",
    "oldest_access",
    "split_stamps",
    "stamp_all",
    "stamp_each",
    "stamped_type",
    "stamps_of",
    "unexpired",
    "without",
]
