"""Columns as JSON, for systems without Arrow's types.

Numbers and texts are converted column by column, nested values one by one. What JSON has no word for is a text, as in
PostgreSQL's `to_json`: times in ISO 8601, bytes in Base64, a float that is no number as `NaN` or `Infinity`. A decimal
keeps all its digits. A map with other keys than texts is a list of pairs.
"""

import base64
import math
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

_ENCODER = msgspec.json.Encoder(decimal_format="number")
_NEEDS_ESCAPE = r'[\x00-\x1f"\\]'


def json_of(column: "pa.Array[Any]") -> "pa.Array[Any]":
    """Returns the JSON of each value as a text; null where the value is null."""
    kind = column.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind):
        return column.cast(pa.string())
    if pa.types.is_floating(kind) and pc.all(pc.is_finite(column), min_count=0).as_py():
        return column.cast(pa.string())
    if pa.types.is_string(kind) and not pc.any(pc.match_substring_regex(column, _NEEDS_ESCAPE), min_count=0).as_py():
        return _quoted(column)
    if pa.types.is_date(kind):
        return _quoted(column.cast(pa.string()))
    encoded = [None if value is None else _ENCODER.encode(_plain(value, kind)) for value in column.to_pylist()]
    return pa.array(encoded, pa.binary()).cast(pa.string())


def json_objects(batch: pa.RecordBatch, names: Sequence[str]) -> "pa.Array[Any]":
    """Returns an object for each row.

    Args:
        batch: The rows.
        names: The columns that are the fields of the objects.
    """
    parts: list[Any] = []
    for number, name in enumerate(names):
        field = ("," if number else "{") + _ENCODER.encode(name).decode() + ":"
        parts += [field, json_of(batch.column(name))]
    if not names:
        return pa.array(["{}"] * batch.num_rows, pa.string())
    return _joined(*parts, "}", null_handling="replace", null_replacement="null")


def _quoted(column: "pa.Array[Any]") -> "pa.Array[Any]":
    return _joined('"', column, '"')


def _joined(*parts: Any, **options: Any) -> "pa.Array[Any]":
    """Joins texts and columns of texts, row by row."""
    joined: pa.Array[Any] = pc.binary_join_element_wise(*parts, "", **options)
    return joined


def _plain(value: Any, data_type: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(data_type):
        return {field.name: _plain(value[field.name], field.type) for field in data_type}
    if pa.types.is_map(data_type):
        if pa.types.is_string(data_type.key_type):
            return {key: _plain(item, data_type.item_type) for key, item in value}
        return [[_plain(key, data_type.key_type), _plain(item, data_type.item_type)] for key, item in value]
    if pa.types.is_list(data_type):
        return [_plain(item, data_type.value_type) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


__all__ = ["json_objects", "json_of"]
