"""Column types between Spark's classes and ours."""

from pyspark.sql import types as spark_types

from state_engine.api.pyflink_types import Types
from state_engine.api.type_hints import parse_ddl
from state_engine.api.types import DecimalType, ListType, MapType, StructType, TypeInformation, quote
from state_engine.errors import UnsupportedTypeError


def struct_of(schema: spark_types.StructType, what: str) -> StructType:
    """Returns the columns of a DataFrame.

    Raises:
        UnsupportedTypeError: A column has a type that an operator cannot take; cast or drop it.
    """
    names, types = [], []
    for field in schema.fields:
        try:
            types.append(_type_of(field.dataType))
        except UnsupportedTypeError as error:
            raise UnsupportedTypeError(
                f"Column {field.name!r} of {what} has the type {field.dataType.simpleString()}.",
                action="Cast it, or leave it out with select(...), before the operator.",
            ) from error
        names.append(field.name)
    return StructType(tuple(names), tuple(types))


def _type_of(kind: spark_types.DataType) -> TypeInformation:
    """Converts a type by its class: in Spark's text of a type, names of fields are not quoted, and may be anything."""
    match kind:
        case spark_types.ArrayType():
            return ListType(_type_of(kind.elementType))
        case spark_types.MapType():
            return MapType(_type_of(kind.keyType), _type_of(kind.valueType))
        case spark_types.StructType():
            return StructType(tuple(kind.names), tuple(_type_of(field.dataType) for field in kind.fields))
        case spark_types.DecimalType():
            return DecimalType(kind.precision, kind.scale)
        case spark_types.CharType() | spark_types.VarcharType():  # Spark reads them as strings
            return Types.STRING()
    return parse_ddl(kind.simpleString())


def ddl_of(struct: StructType) -> str:
    """Returns columns as a Spark schema string."""
    return ", ".join(f"{quote(n)} {t.ddl()}" for n, t in zip(struct.names, struct.types, strict=True))


__all__ = ["ddl_of", "struct_of"]
