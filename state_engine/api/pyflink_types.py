"""PyFlink's `Types`: the short names for type information."""

from collections.abc import Sequence
from typing import Any, NoReturn

from state_engine.api.type_hints import type_information
from state_engine.api.types import AtomicType, DecimalType, ListType, MapType, StructType, TypeInformation
from state_engine.errors import UnsupportedTypeError


class Types:
    """Creates type information, under the names of PyFlink's `Types`.

    `PICKLED_BYTE_ARRAY` and `JAVA` are not supported, because typed columns cannot restore such values. A value of
    `INSTANT` is an aware UTC `datetime` (`timestamp`), one of `SQL_TIMESTAMP` a naive one (`timestamp_ntz`).
    """

    @staticmethod
    def STRING() -> TypeInformation:
        return AtomicType("string")

    @staticmethod
    def BYTE() -> TypeInformation:
        return AtomicType("tinyint")

    @staticmethod
    def BOOLEAN() -> TypeInformation:
        return AtomicType("boolean")

    @staticmethod
    def SHORT() -> TypeInformation:
        return AtomicType("smallint")

    @staticmethod
    def INT() -> TypeInformation:
        return AtomicType("int")

    @staticmethod
    def LONG() -> TypeInformation:
        return AtomicType("bigint")

    @staticmethod
    def FLOAT() -> TypeInformation:
        return AtomicType("float")

    @staticmethod
    def DOUBLE() -> TypeInformation:
        return AtomicType("double")

    @staticmethod
    def CHAR() -> TypeInformation:
        return AtomicType("string")

    @staticmethod
    def BIG_INT() -> TypeInformation:
        return DecimalType(38, 0)

    @staticmethod
    def BIG_DEC(precision: int = 38, scale: int = 18) -> TypeInformation:
        return DecimalType(precision, scale)

    @staticmethod
    def SQL_DATE() -> TypeInformation:
        return AtomicType("date")

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation:
        return AtomicType("timestamp_ntz")

    @staticmethod
    def SQL_TIME() -> NoReturn:
        raise UnsupportedTypeError(
            "There is no Types.SQL_TIME here: columns have no time of day.",
            action="Use Types.INT() for its milliseconds, or Types.STRING().",
        )

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> NoReturn:
        raise UnsupportedTypeError(
            "There is no Types.PICKLED_BYTE_ARRAY here: state is never pickled.",
            action="Declare a row or a dataclass, register a TypeCodec, or use Types.PRIMITIVE_ARRAY(Types.BYTE()) for "
            "bytes that you encode yourself.",
        )

    @staticmethod
    def INSTANT() -> TypeInformation:
        return AtomicType("timestamp")

    @staticmethod
    def ROW(field_types: Sequence[Any]) -> TypeInformation:
        return StructType(tuple(f"f{i}" for i in range(len(field_types))), _all(field_types))

    @staticmethod
    def ROW_NAMED(field_names: Sequence[str], field_types: Sequence[Any]) -> TypeInformation:
        return StructType(tuple(field_names), _all(field_types))

    @staticmethod
    def TUPLE(field_types: Sequence[Any]) -> TypeInformation:
        return StructType(tuple(f"f{i}" for i in range(len(field_types))), _all(field_types), carrier=tuple)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: Any) -> TypeInformation:
        element = type_information(element_type)
        return AtomicType("binary") if element == AtomicType("tinyint") else ListType(element)

    @staticmethod
    def BASIC_ARRAY(element_type: Any) -> TypeInformation:
        return ListType(type_information(element_type))

    @staticmethod
    def OBJECT_ARRAY(element_type: Any) -> TypeInformation:
        return ListType(type_information(element_type))

    @staticmethod
    def LIST(element_type_info: Any) -> TypeInformation:
        return ListType(type_information(element_type_info))

    @staticmethod
    def MAP(key_type_info: Any, value_type_info: Any) -> TypeInformation:
        return MapType(type_information(key_type_info), type_information(value_type_info))


def _all(hints: Sequence[Any]) -> tuple[TypeInformation, ...]:
    return tuple(map(type_information, hints))


__all__ = ["Types"]
