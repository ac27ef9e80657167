"""Computes Delta's statistics of one data file, as JSON for its add action: readers skip files by them."""

import datetime as dt
import json
import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_PREFIX = 32


def delta_statistics(table: pa.Table) -> str:
    """Returns `numRecords`, `minValues`, `maxValues` and `nullCount` of a table as JSON.

    Bounds are given for integers, floating point numbers (not where one is NaN), dates, timestamps (rounded outward to
    milliseconds) and strings (a long minimum is cut to 32 characters, a long maximum is left out); null counts for
    all columns that are not nested. A dictionary-encoded column counts as a column of its values.
    """
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for field, column in zip(table.schema, table.columns, strict=True):
        if pa.types.is_nested(field.type):
            continue
        nulls[field.name] = column.null_count
        kind = field.type
        if isinstance(kind, pa.DictionaryType):
            kind, column = kind.value_type, column.unique().cast(kind.value_type)
        if _has_order(kind) and column.null_count < len(column):
            minimum, maximum = _bounds(kind, column)
            low |= {} if minimum is None else {field.name: minimum}
            high |= {} if maximum is None else {field.name: maximum}
    statistics = {"numRecords": table.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}
    return json.dumps(statistics, separators=(",", ":"))


def _has_order(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_date, pa.types.is_timestamp, pa.types.is_string)
    return any(test(kind) for test in tests)


def _bounds(kind: pa.DataType, column: "pa.ChunkedArray[Any]") -> tuple[Any, Any]:
    """Returns the least and the greatest value in the form for JSON; None for a bound that cannot be given."""
    if pa.types.is_timestamp(kind):
        ticks = _min_max(column.cast(pa.timestamp("us", tz=getattr(kind, "tz", None))).cast(pa.int64()))
        utc = "" if getattr(kind, "tz", None) is None else "Z"
        return _time(ticks[0] // 1000, utc), _time(-(-ticks[1] // 1000), utc)
    if pa.types.is_date(kind):
        days = _min_max(column.cast(pa.date32()).cast(pa.int32()))
        return _day(days[0]), _day(days[1])
    low, high = _min_max(column)
    if pa.types.is_string(kind):
        return low[:_PREFIX], high if len(high) <= _PREFIX else None
    if pa.types.is_floating(kind):
        has_nan = bool(pc.call_function("any", [pc.call_function("is_nan", [column])]).as_py())
        finite = not has_nan and math.isfinite(low) and math.isfinite(high)
        return (low, high) if finite else (None, None)
    return low, high


def _min_max(column: Any) -> tuple[Any, Any]:
    bounds = pc.call_function("min_max", [column]).as_py()
    return bounds["min"], bounds["max"]


def _day(days: int) -> str | None:
    """Returns a date in ISO 8601; None outside the years that it can write."""
    try:
        return (dt.date(1970, 1, 1) + dt.timedelta(days=days)).isoformat()
    except OverflowError:
        return None


def _time(milliseconds: int, utc: str) -> str | None:
    """Returns a time in ISO 8601 with milliseconds; None outside the years that it can write."""
    try:
        time = dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None
    return time.isoformat(timespec="milliseconds") + utc


__all__ = ["delta_statistics"]
