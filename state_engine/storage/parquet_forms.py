"""Decides how the columns of a Parquet file are written: with dictionaries, packed, compressed, or as they are."""

from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from state_engine.log.ops import KEY_GROUP

ParquetCodec = Literal["zstd", "snappy", "lz4", "none"]

_PIECES, _PIECE = 16, 256  # rows of a sample
_LEAST_OF_PIECE = 64  # even for large rows: among fewer rows, values that repeat seem distinct
_PIECE_BYTES = 1 << 17
_HARDLY_REPEATED = 0.95  # share of distinct values in a sample of a file that has tens of thousands of values
_HARDLY_SMALLER = 0.9  # share of its bytes that a sample has after compression
_PACKED = "DELTA_BINARY_PACKED"  # differences, in as few bits as the largest one of a miniblock needs


def forms_of(table: pa.Table, codec: ParquetCodec) -> dict[str, Any]:
    """Returns, from a sample, how to write the columns, as arguments of `pyarrow.parquet.ParquetWriter`.

    If values hardly repeat, a dictionary takes twice the time to write and to read, and more bytes. To compress bytes
    that do not get smaller takes longer than all the rest. If integers hardly repeat, their differences take fewer
    bytes than compression leaves, a third of its time to write and a quarter to read, unless the integers are random
    over their whole range. The same table has the same sample. Key groups count as repeating, whatever the sample
    shows, and always have statistics: a reader finds key groups in a file by these.

    Args:
        table: Rows. With fewer than some thousands, all columns get dictionaries and are compressed.
        codec: Compression of the columns that get smaller by it.
    """
    step = table.num_rows // _PIECES
    if step < 4 * _PIECE:
        return {"compression": codec, "use_dictionary": True}
    rows = max(_LEAST_OF_PIECE, min(_PIECE, _PIECE_BYTES * table.num_rows // max(1, table.nbytes)))
    sample = pa.concat_tables([table.slice(piece * step, rows) for piece in range(_PIECES)])
    unique = {
        field.name
        for field, column in zip(sample.schema, sample.columns, strict=True)
        if field.name != KEY_GROUP
        and "." not in field.name  # as a path it may also name a field of a struct
        and _is_counted(field.type)
        and _distinct(column) > _HARDLY_REPEATED * sample.num_rows
    }
    encoded = {field.name for field in table.schema if isinstance(field.type, pa.DictionaryType)}
    packed = _packed(sample.select(sorted(unique)))
    leaves = _leaves(sample, codec, packed)
    plain = {path for path, left in leaves.items() if path in unique and left > _HARDLY_SMALLER}
    return {
        "compression": {path: "none" if path in plain else codec for path in leaves},
        "use_dictionary": [path for path in leaves if path not in unique],
        "column_encoding": packed or None,
        "write_statistics": [path for path in leaves if path in packed or path not in plain | encoded],
    }


def _is_counted(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_binary, pa.types.is_string, pa.types.is_temporal)
    return any(test(kind) for test in tests)


def _distinct(column: "pa.ChunkedArray[Any]") -> int:
    counted: int = pc.call_function("count_distinct", [column]).as_py()
    return counted


def _packed(columns: pa.Table) -> dict[str, str]:
    """Returns the columns of integers that get smaller by being packed, and the name of the encoding."""
    wide = [field.name for field in columns.schema if _is_integer(field.type)]
    if not wide:
        return {}
    sizes = [
        {one.path_in_schema: one.total_uncompressed_size for one in _written(columns.select(wide), "none", encoding)}
        for encoding in (None, dict.fromkeys(wide, _PACKED))
    ]
    return {name: _PACKED for name in wide if sizes[1][name] <= _HARDLY_SMALLER * sizes[0][name]}


def _is_integer(kind: pa.DataType) -> bool:
    """Whether Parquet stores the values as integers."""
    return pa.types.is_integer(kind) or pa.types.is_temporal(kind)


def _leaves(sample: pa.Table, codec: ParquetCodec, packed: dict[str, str]) -> dict[str, float]:
    """Returns Parquet's own columns (such as `value.list.element`), and what share of the bytes compression leaves."""
    written = _written(sample, codec, packed or None)
    return {one.path_in_schema: one.total_compressed_size / one.total_uncompressed_size for one in written}


def _written(sample: pa.Table, codec: ParquetCodec, encodings: dict[str, str] | None) -> list[Any]:
    """Returns the metadata of each column in the footer of a file with these rows."""
    sink = pa.BufferOutputStream()
    pq.write_table(sample, sink, compression=codec, use_dictionary=False, column_encoding=encodings)
    rows = pq.ParquetFile(pa.BufferReader(sink.getvalue())).metadata.row_group(0)
    return [rows.column(index) for index in range(rows.num_columns)]


__all__ = ["ParquetCodec", "forms_of"]
