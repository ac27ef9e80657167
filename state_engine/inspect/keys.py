"""Reads the rows of one key; only its key group is read."""

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from state_engine.errors import LakestateError
from state_engine.inspect.read import History, last_group
from state_engine.inspect.scan import scan_state
from state_engine.key_groups import KeyGroupRange, key_group_of
from state_engine.log.records import StateSchema
from state_engine.serialization.types import ddl_to_arrow
from state_engine.storage.state_reader import empty_rows

Key = tuple[Any, ...]


def parse_key(schema: StateSchema, text: str) -> Key:
    """Parses a key that a user has typed.

    Args:
        schema: The state, with the key's columns.
        text: The value of the only column, or a JSON array with a value for each (null is a key like any other).

    Raises:
        LakestateError: The text is no key of this state; the error names the columns.
    """
    columns = " and ".join(f"{column.name} {column.type}" for column in schema.key)
    expected = f"The key of {schema.uid}/{schema.name} is {columns or 'empty'}"
    try:
        values = json.loads(text, parse_float=str) if text.startswith("[") else [text]
        if len(values) != len(schema.key):
            raise ValueError(f"{len(values)} values")
        return tuple(_value(one, column.type) for one, column in zip(values, schema.key, strict=True))
    except (ValueError, pa.ArrowException) as error:
        raise LakestateError(
            f"{expected}; {text!r} is none: {error}.",
            action='Give the value of a single column as it is, and otherwise a JSON array, such as ["UA", 2013].',
        ) from error


def rows_of_key(root: str, job: str, history: History, schema: StateSchema, key: Key) -> pa.Table:
    """Returns the live rows of one key, as `read_state` returns them.

    Raises:
        CorruptionError: A file is gone or damaged.
    """
    groups = last_group(history, schema.uid) + 1
    group = key_group_of(key, [column.type for column in schema.key], groups)
    tables = [
        _only(rows, schema, key) for rows in scan_state(root, job, history, schema, within=KeyGroupRange(group, group))
    ]
    return pa.concat_tables(tables) if tables else empty_state(schema)


def empty_state(schema: StateSchema) -> pa.Table:
    """Returns an empty table of a state, with the columns of `read_state`."""
    return empty_rows(schema).drop_columns(["op"])


def _only(rows: pa.Table, schema: StateSchema, key: Key) -> pa.Table:
    for column, value in zip(schema.key, key, strict=True):
        values = rows[column.name]
        rows = rows.filter(pc.is_null(values) if value is None else pc.equal(values, pa.scalar(value, values.type)))
    return rows


def _value(value: Any, ddl: str) -> Any:
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value)
    return pa.scalar(text).cast(ddl_to_arrow(ddl)).as_py()


__all__ = ["empty_state", "parse_key", "rows_of_key"]
