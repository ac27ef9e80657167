"""Operations on state, and the columns of the rows that carry them.

```
key_group int32 │ key columns … │ namespace │ [user_key] │ value │ op int8 │ seq int64 │ last_access int64
```

In Delta tables `op` is its name in lower case, and `position` (the epoch) comes before `seq`. Rows of a state are
ordered by (position, seq).
"""

from collections.abc import Callable
from enum import IntEnum
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from state_engine.errors import DamagedFileError, UnsupportedTypeError
from state_engine.log.records import StateSchema


class Op(IntEnum):
    """What a row does to its state.

    PUT replaces a value or a map entry; APPEND adds an element to a list; DELETE removes a value or a map entry;
    CLEAR empties a list or map of one key and namespace; RESET_GROUP drops everything before it in its key group.
    """

    PUT = 1
    APPEND = 2
    DELETE = 3
    CLEAR = 4
    RESET_GROUP = 5


KEY_GROUP = "key_group"
NAMESPACE = "namespace"
USER_KEY = "user_key"
VALUE = "value"
OP = "op"
POSITION = "position"
SEQ = "seq"
LAST_ACCESS = "last_access"

RESERVED = frozenset({KEY_GROUP, NAMESPACE, USER_KEY, VALUE, OP, POSITION, SEQ, LAST_ACCESS})

_NAMES = {op: op.name.lower() for op in Op}


def log_schema(schema: StateSchema, ddl_to_arrow: Callable[[str], pa.DataType], *, position: bool = False) -> pa.Schema:
    """Returns the Arrow schema of a state's rows in change files; with `position`, that of rows for `fold`.

    Raises:
        UnsupportedTypeError: a key column has the name of one of the columns of the log.
    """
    for column in schema.key:
        if column.name.lower() in RESERVED:
            raise UnsupportedTypeError(
                f"The key column {column.name!r} of operator {schema.uid!r} has a name that state tables use.",
                action=f"Rename it, for instance to {column.name + '_key'!r}; reserved are {sorted(RESERVED)}.",
            )
    fields: list[pa.Field[Any]] = [pa.field(KEY_GROUP, pa.int32(), nullable=False)]
    fields += [pa.field(column.name, ddl_to_arrow(column.type)) for column in schema.key]
    namespace = pa.string() if schema.namespace is None else ddl_to_arrow(schema.namespace)
    fields.append(pa.field(NAMESPACE, namespace))
    if schema.user_key is not None:
        fields.append(pa.field(USER_KEY, ddl_to_arrow(schema.user_key)))
    fields.append(pa.field(VALUE, ddl_to_arrow(schema.value)))
    fields.append(pa.field(OP, pa.int8(), nullable=False))
    if position:
        fields.append(pa.field(POSITION, pa.int64(), nullable=False))
    fields.append(pa.field(SEQ, pa.int64(), nullable=False))
    fields.append(pa.field(LAST_ACCESS, pa.int64()))
    return pa.schema(fields)


def table_schema(schema: StateSchema, ddl_to_arrow: Callable[[str], pa.DataType]) -> pa.Schema:
    """Returns the Arrow schema of a state's Delta table: `op` by name, `position` before `seq`."""
    fields = log_schema(schema, ddl_to_arrow, position=True)
    return fields.set(fields.get_field_index(OP), pa.field(OP, pa.string(), nullable=False))


def with_position(table: pa.Table, epoch: int) -> pa.Table:
    """Returns rows of a change file with the column `position`, before `seq`."""
    column = pa.repeat(pa.scalar(epoch, pa.int64()), table.num_rows)
    return table.add_column(table.schema.get_field_index(SEQ), pa.field(POSITION, pa.int64(), nullable=False), column)


@cache
def _index() -> pa.StringArray:
    """Returns the names, indexed by code. Not a constant: pyarrow loads pandas, for a second, with its first array."""
    return pa.array([None, *(_NAMES[op] for op in sorted(Op))], pa.string())


def ops_to_dictionary(table: pa.Table) -> pa.Table:
    """Returns the rows with `op` by name, dictionary-encoded: `encode_parquet` then writes the same, but faster."""
    index = table.schema.get_field_index(OP)
    if not pa.types.is_integer(table.schema.field(index).type):
        return table
    names, one, kind = _index().slice(1), pa.scalar(1, pa.int8()), pa.dictionary(pa.int8(), pa.string())
    chunks: list[Any] = [
        pa.DictionaryArray.from_arrays(pc.subtract(chunk, one), names) for chunk in table.column(index).chunks
    ]
    named: Any = pa.chunked_array(chunks, kind)  # type: ignore[call-overload]
    return table.set_column(index, pa.field(OP, kind, nullable=False), named)


def ops_to_names(table: pa.Table) -> pa.Table:
    """Returns the rows with `op` by name, as Delta tables hold it."""
    index = table.schema.get_field_index(OP)
    if not pa.types.is_integer(table.schema.field(index).type):
        return table
    names = pa.chunked_array([pc.take(_index(), chunk) for chunk in table.column(index).chunks], pa.string())
    return table.set_column(index, pa.field(OP, pa.string(), nullable=False), names)


def ops_to_codes(table: pa.Table) -> pa.Table:
    """Returns the rows with `op` as int8, as change files and `fold` need it.

    Raises:
        DamagedFileError: an op has a name that `Op` does not have.
    """
    index = table.schema.get_field_index(OP)
    if pa.types.is_int8(table.schema.field(index).type):
        return table
    codes = pc.index_in(table.column(index).cast(pa.string()), value_set=_index().slice(1))
    if codes.null_count:
        known = sorted(_NAMES.values())
        raise DamagedFileError(
            f"Rows of a state table have an op that is none of {known}.", action="Validate the table."
        )
    return table.set_column(index, pa.field(OP, pa.int8(), nullable=False), pc.add(codes, 1).cast(pa.int8()))


__all__ = [
    "KEY_GROUP",
    "LAST_ACCESS",
    "NAMESPACE",
    "OP",
    "POSITION",
    "RESERVED",
    "SEQ",
    "USER_KEY",
    "VALUE",
    "Op",
    "log_schema",
    "ops_to_codes",
    "ops_to_dictionary",
    "ops_to_names",
    "table_schema",
    "with_position",
]
