"""Converts types between their canonical spelling (Spark DDL) and Arrow, as Spark and Delta store them."""

from functools import lru_cache

import pyarrow as pa

from state_engine.api.type_hints import parse_columns_ddl, parse_ddl
from state_engine.api.types import AtomicType, CodecType, DecimalType, ListType, MapType, StructType, TypeInformation
from state_engine.errors import UnsupportedTypeError
from state_engine.serialization.column import Column

_ATOMS: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_NAMES = {arrow: name for name, arrow in _ATOMS.items()}
_NAMES[pa.large_string()] = "string"
_NAMES[pa.large_binary()] = "binary"
_NAMES[pa.string_view()] = "string"
_NAMES[pa.binary_view()] = "binary"


def to_arrow(type_info: TypeInformation) -> pa.DataType:
    """Returns the Arrow type that values of `type_info` have in change files, state tables and outputs."""
    match type_info:
        case AtomicType(name):
            return _ATOMS[name]
        case DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case ListType(element):
            return pa.list_(pa.field("element", to_arrow(element)))
        case MapType(key, value):
            return pa.map_(to_arrow(key), to_arrow(value))
        case CodecType():
            return to_arrow(type_info.columns)
        case StructType(names, types):
            return pa.struct([pa.field(n, to_arrow(t)) for n, t in zip(names, types, strict=True)])
    raise UnsupportedTypeError(f"{type_info!r} has no Arrow form.", action="Use one of Types.*.")


def from_arrow(data_type: pa.DataType) -> TypeInformation:
    """Returns the type information of an Arrow type.

    Raises:
        UnsupportedTypeError: State cannot have this type.
    """
    if data_type in _NAMES:
        return AtomicType(_NAMES[data_type])
    if pa.types.is_timestamp(data_type):
        return AtomicType("timestamp" if data_type.tz else "timestamp_ntz")
    if pa.types.is_decimal(data_type):
        return DecimalType(data_type.precision, data_type.scale)
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        return ListType(from_arrow(data_type.value_type))
    if pa.types.is_map(data_type):
        return MapType(from_arrow(data_type.key_type), from_arrow(data_type.item_type))
    if pa.types.is_struct(data_type):
        fields = list(data_type)
        return StructType(tuple(f.name for f in fields), tuple(from_arrow(f.type) for f in fields))
    raise UnsupportedTypeError(f"Arrow's {data_type} is not a type that state can have.", action="Cast it in Spark.")


@lru_cache(maxsize=4096)
def ddl_to_arrow(ddl: str) -> pa.DataType:
    """Returns the Arrow type of one DDL type."""
    return to_arrow(parse_ddl(ddl))


def arrow_to_ddl(data_type: pa.DataType) -> str:
    """Returns the canonical DDL of an Arrow type."""
    return from_arrow(data_type).ddl()


def schema_of(struct: StructType) -> pa.Schema:
    """Returns the Arrow schema of rows."""
    return pa.schema([pa.field(n, to_arrow(t)) for n, t in zip(struct.names, struct.types, strict=True)])


def columns_of(struct: StructType) -> tuple[Column, ...]:
    """Returns the fields of a struct as columns, in the form that the records of the log have."""
    return tuple(Column(name=n, type=t.ddl()) for n, t in zip(struct.names, struct.types, strict=True))


def parse_columns(ddl: str) -> tuple[Column, ...]:
    """Returns the columns of `name type, name type, …`."""
    return columns_of(parse_columns_ddl(ddl))


def columns_to_arrow(columns: tuple[Column, ...]) -> pa.Schema:
    """Returns the Arrow schema of columns."""
    return pa.schema([pa.field(c.name, ddl_to_arrow(c.type)) for c in columns])


__all__ = [
    "arrow_to_ddl",
    "columns_of",
    "columns_to_arrow",
    "ddl_to_arrow",
    "from_arrow",
    "parse_columns",
    "schema_of",
    "to_arrow",
]
