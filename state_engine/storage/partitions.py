"""Divides rows into those of a Delta table's partitions.

The values of the partition columns are in the table's log, as Delta's protocol spells them, and not in the files. The
folders have names for people: no reader takes a value from them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

_NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")
_LONGEST = 64
_KINDS = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_date,
    pa.types.is_string,
)


class Partition(NamedTuple):
    """The rows of one partition.

    Attributes:
        values: The value of each partition column, as the log spells it; None for null and for an empty text, which
            Delta does not tell from null.
        folder: Where its files are, relative to the table's root.
        rows: The rows, in their order, without the partition columns.
    """

    values: Mapping[str, str | None]
    folder: str
    rows: pa.Table


def can_partition(kind: pa.DataType) -> bool:
    """Returns whether a column of this type can divide a table."""
    return any(fits(kind) for fits in _KINDS)


def partitions_of(table: pa.Table, columns: Sequence[str]) -> Iterator[Partition]:
    """Yields the partitions of a table; a row is in one of them.

    Args:
        table: The rows.
        columns: The partition columns, of types that `can_partition` accepts.
    """
    spelled = {name: _spelled(table.column(name)) for name in columns}
    codes: Any = pa.array([0] * table.num_rows, pa.int64())
    for texts in spelled.values():
        encoded = texts.dictionary_encode("encode")
        codes = pc.add(pc.multiply(codes, len(encoded.dictionary)), encoded.indices.cast(pa.int64()))
    order = pc.sort_indices(codes)  # stable, so the rows of a partition keep their order
    rows = table.drop_columns(list(columns))
    for first, end in _runs(codes.take(order)):
        chosen = order.slice(first, end - first)
        values = {name: texts[chosen[0].as_py()].as_py() for name, texts in spelled.items()}
        folder = "/".join(_folder(name, value) for name, value in values.items())
        yield Partition(values, folder, rows.take(chosen))


def _runs(values: Any) -> Iterator[tuple[int, int]]:
    """Yields the first place of each run of equal values, and the place after its last one."""
    if len(values):
        changes = pc.not_equal(values.slice(1), values.slice(0, len(values) - 1))
        ends = [place + 1 for place in pc.indices_nonzero(changes).to_pylist()]
        yield from zip([0, *ends], [*ends, len(values)], strict=True)


def _spelled(column: "pa.ChunkedArray[Any]") -> Any:
    """Returns values as an array of texts: dates as 2026-11-30, booleans as true and false."""
    texts = column.cast(pa.string()).combine_chunks()
    return pc.if_else(pc.equal(texts, pa.scalar("")), pa.scalar(None, pa.string()), texts)


def _folder(column: str, value: str | None) -> str:
    shown = _NULL_FOLDER if value is None else _UNSAFE.sub("_", value)[:_LONGEST]
    return f"{_UNSAFE.sub('_', column)[:_LONGEST]}={shown}"


__all__ = ["Partition", "can_partition", "partitions_of"]
