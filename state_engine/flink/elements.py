"""Elements: their types if the author did not declare them, and how they are printed and returned."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from state_engine.api.pyflink_types import Types
from state_engine.api.row import InputRow, Row, row_class
from state_engine.api.type_hints import type_information
from state_engine.api.types import Bare, ListType, MapType, StructType, TypeInformation
from state_engine.errors import JobDefinitionError, UnsupportedTypeError
from state_engine.serialization.convert import field_readers
from state_engine.serialization.rows import row_maker

_DECLARE = "Declare it: from_collection(values, type_info=Types.TUPLE([Types.STRING(), Types.LONG()]))."


def type_of_values(values: Sequence[Any]) -> TypeInformation:
    """Returns the common type of all values of a collection.

    Raises:
        UnsupportedTypeError: There are no values, their types differ, or a type cannot be stored.
    """
    type_ = _common(values)
    if type_ is None:
        raise UnsupportedTypeError("The type of the collection is unknown: it has no values.", action=_DECLARE)
    return type_


def _common(values: Iterable[Any]) -> TypeInformation | None:
    """Returns the common type of values; None if all are null."""
    common: TypeInformation | None = None
    for value in values:
        common = _merged(common, _type_of(value))
    return _without_gaps(common)


@dataclasses.dataclass(frozen=True)
class _Unknown(TypeInformation):
    """The type of a null, or of an element of an empty list."""

    def ddl(self) -> str:
        return "null"


def _type_of(value: Any) -> TypeInformation:
    if value is None:
        return _Unknown()
    if isinstance(value, InputRow):
        return StructType(value.field_names(), tuple(map(_type_of, value)))
    if isinstance(value, tuple):
        carrier = None if isinstance(value, Row) else tuple
        return StructType(tuple(f"f{n}" for n in range(len(value))), tuple(map(_type_of, value)), carrier)
    if isinstance(value, list):
        return ListType(_all_of(value))
    if isinstance(value, dict):
        return MapType(_all_of(value), _all_of(value.values())) if value else _Unknown()
    try:
        return type_information(type(value))
    except UnsupportedTypeError as error:
        raise UnsupportedTypeError(
            f"from_collection() got {value!r}, a {type(value).__name__}: nothing is pickled here.", action=_DECLARE
        ) from error


def _all_of(values: Iterable[Any]) -> TypeInformation:
    common: TypeInformation = _Unknown()
    for value in values:
        common = _merged(common, _type_of(value))
    return common


def _merged(one: TypeInformation | None, other: TypeInformation) -> TypeInformation:
    """Returns the common type of two values; raises UnsupportedTypeError if their types differ."""
    if one is None or isinstance(one, _Unknown):
        return other
    if isinstance(other, _Unknown):
        return one
    match one, other:
        case ListType(a), ListType(b):
            return ListType(_merged(a, b))
        case MapType(k1, v1), MapType(k2, v2):
            return MapType(_merged(k1, k2), _merged(v1, v2))
        case StructType(), StructType() if one.names == other.names and one.carrier is other.carrier:
            merged = tuple(_merged(a, b) for a, b in zip(one.types, other.types, strict=True))
            return StructType(one.names, merged, one.carrier)
    if one != other or getattr(one, "carrier", None) is not getattr(other, "carrier", None):
        raise UnsupportedTypeError(f"The collection mixes {one} and {other}.", action=_DECLARE)
    return one


def _without_gaps(found: TypeInformation | None) -> TypeInformation | None:
    if found is None or isinstance(found, _Unknown):
        return None
    if not _has_gaps(found):
        return found
    raise UnsupportedTypeError(
        f"A part of the collection's type is unknown, since all its values are null or empty: {found}.",
        action=_DECLARE,
    )


def _has_gaps(found: TypeInformation) -> bool:
    match found:
        case ListType(element):
            return _has_gaps(element)
        case MapType(key, value):
            return _has_gaps(key) or _has_gaps(value)
        case StructType(_, types):
            return any(map(_has_gaps, types))
    return isinstance(found, _Unknown)


def output_type_of(output_type: Any) -> TypeInformation | None:
    """Returns a declared output type; None if it is not declared."""
    return None if output_type is None else type_information(output_type)


def project_type(columns: StructType, indexes: Sequence[int]) -> TypeInformation:
    """Returns the type of tuples of some fields.

    Raises:
        JobDefinitionError: There is no such field.
    """
    if not indexes or any(type(n) is not int or not 0 <= n < len(columns.names) for n in indexes):
        raise JobDefinitionError(
            f"project{tuple(indexes)} of a stream with {len(columns.names)} fields.",
            action="Give positions of fields, from 0.",
        )
    return Types.TUPLE([columns.types[n] for n in indexes])


# Elements in the driver ---------------------------------------------------------------------------------------------


def elements_of(table: pa.Table, columns: StructType) -> list[Any]:
    """Returns a table's rows as PyFlink returns elements: bare values, tuples, dataclasses, or `Row`s."""
    if not table.num_rows:
        return []
    fields = [read(table.column(n)) for n, read in enumerate(field_readers(columns))]
    return list(map(_collected(columns), *fields))


def _collected(columns: StructType) -> Callable[..., Any]:
    unnamed = tuple(f"f{n}" for n in range(len(columns.names)))
    if columns.carrier is None:
        return Row if columns.names == unnamed else row_class(columns.names)
    return row_maker(columns)


def lines_of(table: pa.Table, columns: StructType) -> list[str]:
    """Returns a table's rows as Flink prints them: `+I[a, 1]` for rows, `(a,1)` for tuples."""
    if not table.num_rows:
        return []
    fields = [read(table.column(n)) for n, read in enumerate(field_readers(columns))]
    if isinstance(columns.carrier, Bare):
        return [_shown(value) for value in fields[0]]
    if columns.carrier is tuple:
        return [f"({','.join([_shown(value) for value in values])})" for values in zip(*fields, strict=True)]
    if columns.carrier is None:
        return [f"+I[{', '.join([_shown(value) for value in values])}]" for values in zip(*fields, strict=True)]
    return [str(record) for record in map(row_maker(columns), *fields)]


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, InputRow):
        return f"+I[{', '.join([_shown(part) for part in value])}]"
    if isinstance(value, tuple):
        return f"({','.join([_shown(part) for part in value])})"
    if isinstance(value, list):
        return f"[{', '.join([_shown(part) for part in value])}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_shown(k)}={_shown(v)}" for k, v in value.items()) + "}"
    return str(value)


__all__ = ["elements_of", "lines_of", "output_type_of", "project_type", "type_of_values"]
