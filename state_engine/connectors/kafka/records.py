"""Rows as records of Kafka: their keys, values, headers, partitions and topics."""

from typing import Any, NamedTuple

import pyarrow as pa

from state_engine.connectors.json_columns import json_objects, json_of
from state_engine.connectors.kafka.record_columns import RecordColumns
from state_engine.errors import SinkError

Headers = list[tuple[str, bytes | str | None]]


class Records(NamedTuple):
    """The records of a batch, part by part; None where no record has this part.

    Attributes:
        keys, values: Bytes, None for a null.
        headers: Of each record.
        partitions: Numbers; -1 where the key decides.
        topics: Names; None for the sink's own.
    """

    keys: list[Any] | None
    values: list[Any]
    headers: list[Headers] | None
    partitions: list[int] | None
    topics: list[str | None] | None


def check_columns(schema: pa.Schema, columns: RecordColumns) -> None:
    """Checks the columns that a sink names.

    Raises:
        SinkError: One does not exist, or has a type that it cannot have.
    """
    if missing := [name for name in columns.named if name not in schema.names]:
        raise SinkError(
            f"The output has no column {missing[0]!r}, which the KafkaSink names.",
            action=f"Choose from its columns: {', '.join(schema.names)}.",
        )
    wanted = {
        columns.headers: ("a map from texts to texts or bytes", _are_headers),
        columns.partition: ("an integer", pa.types.is_integer),
        columns.topic: ("a text", pa.types.is_string),
    }
    for name, (what, fits) in wanted.items():
        if name is not None and not fits(schema.field(name).type):
            raise SinkError(
                f"Column {name!r} of the output is {schema.field(name).type}; the KafkaSink needs {what} there.",
                action="Cast it in the operator, or leave it out of the sink's arguments.",
            )


def records_of(batch: pa.RecordBatch, columns: RecordColumns) -> Records:
    """Returns the records of a batch of rows."""
    if columns.value is not None:
        values = _bytes(batch.column(columns.value))
    else:
        names = [name for name in batch.schema.names if name not in columns.named]
        values = json_objects(batch, names).cast(pa.binary())
    partitions = None
    if columns.partition is not None:
        partitions = [-1 if one is None else one for one in batch.column(columns.partition).to_pylist()]
    headers = None
    if columns.headers is not None:
        headers = [list(one or ()) for one in batch.column(columns.headers).to_pylist()]
    return Records(
        keys=_bytes(batch.column(columns.key)).to_pylist() if columns.key is not None else None,
        values=values.to_pylist(),
        headers=headers,
        partitions=partitions,
        topics=batch.column(columns.topic).to_pylist() if columns.topic is not None else None,
    )


def _bytes(column: "pa.Array[Any]") -> "pa.Array[Any]":
    """Returns texts and bytes as they are, other values as JSON."""
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return column.cast(pa.binary())
    return json_of(column).cast(pa.binary())


def _are_headers(data_type: pa.DataType) -> bool:
    if not pa.types.is_map(data_type) or not pa.types.is_string(data_type.key_type):
        return False
    return pa.types.is_string(data_type.item_type) or pa.types.is_binary(data_type.item_type)


__all__ = ["Headers", "Records", "check_columns", "records_of"]
