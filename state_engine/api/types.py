"""Type information: the type of a key, a state or an output.

A `TypeInformation` is a small tree. Its canonical form is Spark DDL (`bigint`, `struct<a:int,b:string>`), which durable
formats also record; `serialization` maps it to Arrow and Delta. Two types are equal if they are stored in the same way,
whatever Python class holds the values.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from state_engine.errors import UnsupportedTypeError

INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
ATOMS = INTEGERS | {"boolean", "float", "double", "string", "binary", "date", "timestamp", "timestamp_ntz"}
KEY_ATOMS = INTEGERS | {"boolean", "string", "binary", "date", "timestamp", "timestamp_ntz"}


@dataclass(frozen=True)
class TypeInformation:
    """Base of all types; PyFlink's class of the same name."""

    def ddl(self) -> str:
        """Returns the canonical Spark DDL of this type."""
        raise UnsupportedTypeError(f"{type(self).__name__} has no stored form.", action="Use one of Types.*.")

    def __str__(self) -> str:
        return self.ddl()


@dataclass(frozen=True)
class AtomicType(TypeInformation):
    """A type without parts; `name` is one of `ATOMS`."""

    name: str

    def ddl(self) -> str:
        return self.name


@dataclass(frozen=True)
class DecimalType(TypeInformation):
    """An exact number with at most `precision` digits, `scale` of them after the decimal point."""

    precision: int = 38
    scale: int = 18

    def __post_init__(self) -> None:
        if not (1 <= self.precision <= 38 and 0 <= self.scale <= self.precision):
            raise UnsupportedTypeError(
                f"decimal({self.precision},{self.scale}) does not exist.",
                action="Use 1 to 38 digits, scale within them.",
            )

    def ddl(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True)
class ListType(TypeInformation):
    """A Python list with elements of one type."""

    element: TypeInformation

    def ddl(self) -> str:
        return f"array<{self.element.ddl()}>"


@dataclass(frozen=True)
class MapType(TypeInformation):
    """A Python dict with keys of one type and values of one type."""

    key: TypeInformation
    value: TypeInformation

    def __post_init__(self) -> None:
        if not is_hashable(self.key):
            raise UnsupportedTypeError(
                f"A map cannot have keys of type {self.key}: a Python dict cannot look them up.",
                action="Use atomic types, decimals, or rows and tuples of these as keys.",
            )

    def ddl(self) -> str:
        return f"map<{self.key.ddl()},{self.value.ddl()}>"


class Carrier(ABC):
    """Holds the fields of a stream's records if this is not a class with one attribute per field."""

    @abstractmethod
    def maker(self) -> Callable[..., Any]:
        """Returns a function that creates a record from its field values."""

    @abstractmethod
    def values(self, record: Any) -> tuple[Any, ...]:
        """Returns the field values of a record."""


class Bare(Carrier):
    """For records of one field: a record is the bare value, without a row around it."""

    def maker(self) -> Callable[..., Any]:
        return _itself

    def values(self, record: Any) -> tuple[Any, ...]:
        return (record,)


def _itself(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class StructType(TypeInformation):
    """Named fields.

    `carrier` is the Python class that holds them: None (a row), `tuple`, or a dataclass. Columns of a stream may also
    have a `Carrier`; states never have one, since a state with one field has the type of that field.
    """

    names: tuple[str, ...]
    types: tuple[TypeInformation, ...]
    carrier: type | Carrier | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if len(self.names) != len(self.types):
            raise UnsupportedTypeError(
                f"{len(self.names)} field names for {len(self.types)} types.", action="Name each field once."
            )
        if not self.names:
            raise UnsupportedTypeError("A row without fields has no stored form.", action="Give it at least one field.")
        folded = [name.lower() for name in self.names]
        twice = sorted({name for name in folded if folded.count(name) > 1})
        if twice or not all(self.names):
            raise UnsupportedTypeError(
                f"Field names {list(self.names)} are empty or not unique (Spark ignores case).",
                action="Rename " + ", ".join(twice or ["the empty ones"]) + ".",
            )

    def ddl(self) -> str:
        return "struct<" + ",".join(f"{quote(n)}:{t.ddl()}" for n, t in zip(self.names, self.types, strict=True)) + ">"


@dataclass(frozen=True)
class CodecType(TypeInformation):
    """Values of an author's class, stored by a codec (`api.codecs.TypeCodec`): its version and the encoded value."""

    stored: TypeInformation
    codec: Any

    @property
    def columns(self) -> StructType:
        """Returns the stored struct."""
        return StructType(("codec_version", "value"), (AtomicType("int"), self.stored), carrier=tuple)

    def ddl(self) -> str:
        return self.columns.ddl()


def columns_of_type(type_info: TypeInformation) -> StructType:
    """Returns the columns of a stream with records of this type: a struct's fields, or one column `f0`."""
    return type_info if isinstance(type_info, StructType) else StructType(("f0",), (type_info,), carrier=Bare())


def type_of_columns(columns: StructType) -> TypeInformation:
    """Returns the type of a stream's records, in the form that a state with such records declares."""
    return columns.types[0] if isinstance(columns.carrier, Bare) else columns


def is_hashable(type_info: TypeInformation) -> bool:
    """Returns whether values of this type can be keys of a dict: user keys of map state, keys of a map value."""
    match type_info:
        case AtomicType() | DecimalType():
            return True
        case StructType(_, types, carrier):
            return carrier in (None, tuple) and all(map(is_hashable, types))
    return False


def holds_codec(type_info: TypeInformation) -> bool:
    """Returns whether values of this type use an author's codec, as a whole or in part."""
    match type_info:
        case CodecType():
            return True
        case ListType(element):
            return holds_codec(element)
        case MapType(key, value):
            return holds_codec(key) or holds_codec(value)
        case StructType(_, types, _):
            return any(map(holds_codec, types))
    return False


def quote(name: str) -> str:
    """Returns a field name in DDL: bare if it is a plain identifier, else in back-ticks."""
    plain = name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()
    return name if plain else "`" + name.replace("`", "``") + "`"


__all__ = [
    "AtomicType",
    "Bare",
    "Carrier",
    "CodecType",
    "DecimalType",
    "ListType",
    "MapType",
    "StructType",
    "TypeInformation",
    "columns_of_type",
    "holds_codec",
    "is_hashable",
    "quote",
    "type_of_columns",
]
