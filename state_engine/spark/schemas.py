"""Column types between Spark's classes and ours, by way of DDL."""

from pyspark.sql import types as spark_types

from state_engine.api.type_hints import parse_ddl
from state_engine.api.types import StructType, quote
from state_engine.errors import UnsupportedTypeError


def struct_of(schema: spark_types.StructType, what: str) -> StructType:
    """Returns the columns of a DataFrame.

    Raises:
        UnsupportedTypeError: A column has a type that an operator cannot take; cast or drop it.
    """
    names, types = [], []
    for field in schema.fields:
        try:
            types.append(parse_ddl(field.dataType.simpleString()))
        except UnsupportedTypeError as error:
            raise UnsupportedTypeError(
                f"Column {field.name!r} of {what} has the type {field.dataType.simpleString()}.",
                action="Cast it, or leave it out with select(...), in front of the operator.",
            ) from error
        names.append(field.name)
    return StructType(tuple(names), tuple(types))


def ddl_of(struct: StructType) -> str:
    """Returns columns as Spark's schema strings spell them."""
    return ", ".join(f"{quote(n)} {t.ddl()}" for n, t in zip(struct.names, struct.types, strict=True))


__all__ = ["ddl_of", "struct_of"]
