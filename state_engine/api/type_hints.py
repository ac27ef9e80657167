"""Converts what an author writes (Types.*, Spark DDL, Python hints, dataclasses) to type information."""

import dataclasses
import datetime
import decimal
import inspect
import re
import types
import typing
from typing import Any

from state_engine.api.codecs import TypeCodec, codec_type, registered
from state_engine.api.types import ATOMS, AtomicType, DecimalType, ListType, MapType, StructType, TypeInformation
from state_engine.errors import UnsupportedTypeError

_HINTS: dict[Any, TypeInformation] = {
    bool: AtomicType("boolean"),
    int: AtomicType("bigint"),
    float: AtomicType("double"),
    str: AtomicType("string"),
    bytes: AtomicType("binary"),
    bytearray: AtomicType("binary"),
    datetime.date: AtomicType("date"),
    datetime.datetime: AtomicType("timestamp"),
    decimal.Decimal: DecimalType(38, 18),
}
_ALIASES = {
    "long": "bigint",
    "integer": "int",
    "short": "smallint",
    "byte": "tinyint",
    "bool": "boolean",
    "real": "float",
    "timestamp_ltz": "timestamp",
}
_WRITTEN = "__annotations__"
_HINTS_OF_CLASS = "__lakestate_hints__"
_REMEDY = (
    "Declare it with Types.*, a Spark DDL string such as 'bigint' or 'struct<a:int>', a Python hint "
    "(int, str, list[int], dict[str, float], Optional[...]) or a dataclass of these."
)


def type_information(hint: Any) -> TypeInformation:
    """Returns the type information for a hint.

    Args:
        hint: A `TypeInformation`, a Spark DDL type, a Python type hint, a dataclass, a codec, or a class with a codec.

    Raises:
        UnsupportedTypeError: Values of this type could not be restored from typed columns.
    """
    if isinstance(hint, TypeInformation):
        return hint
    if isinstance(hint, str):
        return parse_ddl(hint)
    if hint in _HINTS if isinstance(hint, type) else False:
        return _HINTS[hint]
    if isinstance(hint, TypeCodec):
        return codec_type(hint)
    if (by_codec := registered(hint)) is not None:
        return by_codec
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _dataclass(hint)
    return _generic(hint)


def _dataclass(kind: type) -> TypeInformation:
    names = tuple(f.name for f in dataclasses.fields(kind))
    if set(inspect.signature(kind).parameters) != set(names):
        raise UnsupportedTypeError(
            f"{kind!r} cannot be created from its fields {list(names)} alone.",
            action="Let each field, and nothing else, be an argument of __init__ (no init=False, no InitVar).",
        )
    try:
        hints = _hints_of(kind)
        return StructType(names, tuple(type_information(hints[n]) for n in names), carrier=kind)
    except NameError as error:
        raise UnsupportedTypeError(
            f"The hints of {kind!r} cannot be resolved: {error}.", action="Define its types at the top of a module."
        ) from error
    except RecursionError:
        raise UnsupportedTypeError(
            f"{kind!r} contains itself, so that it has no columns.", action="Use a key into a map state instead."
        ) from None


def _hints_of(kind: type) -> dict[str, Any]:
    """Returns the hints of a class, none of them as text.

    A class of the program's main script is sent to workers by value, without its module. Workers could not resolve the
    names in hints that are text. The driver therefore resolves them, and stores the result in the class, with which it
    is sent.
    """
    stored = kind.__dict__.get(_HINTS_OF_CLASS)
    if stored is not None:
        return dict(stored)
    hints = typing.get_type_hints(kind)
    written = {name: hint for base in reversed(kind.__mro__) for name, hint in vars(base).get(_WRITTEN, {}).items()}
    if hints != written:
        setattr(kind, _HINTS_OF_CLASS, hints)
    return hints


def _generic(hint: Any) -> TypeInformation:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        rest = [a for a in args if a is not type(None)]
        if len(rest) == 1:
            return type_information(rest[0])
    if origin is list and len(args) == 1:
        return ListType(type_information(args[0]))
    if origin is dict and len(args) == 2:
        return MapType(type_information(args[0]), type_information(args[1]))
    if origin is tuple and args and Ellipsis not in args:
        names = tuple(f"f{i}" for i in range(len(args)))
        return StructType(names, tuple(type_information(a) for a in args), carrier=tuple)
    raise UnsupportedTypeError(f"{hint!r} is not a type that state, keys and rows can have.", action=_REMEDY)


def parse_ddl(text: str) -> TypeInformation:
    """Parses one Spark DDL type, or a column list (`a int, b string`), which is a struct.

    Raises:
        UnsupportedTypeError: The text is not a type, or one that cannot be stored (intervals, variant, collations).
    """
    parser = _Parser(text)
    try:
        parsed = parser.type()
        if parser.done():
            return parsed
    except UnsupportedTypeError:
        if not _Parser(text).looks_like_columns():
            raise
    return parse_columns_ddl(text)


def parse_columns_ddl(text: str) -> StructType:
    """Parses `name type, name type, …`; `NOT NULL` and comments are accepted and dropped."""
    parser = _Parser(text)
    fields = parser.fields(end="")
    if not parser.done():
        raise parser.error()
    return StructType(tuple(n for n, _ in fields), tuple(t for _, t in fields))


class _Parser:
    """A recursive-descent parser for the part of Spark's type grammar that state may use."""

    _TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\w+|[<>(),:])")

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        position = 0
        while position < len(text.rstrip()):
            match = self._TOKEN.match(text, position)
            if match is None:
                raise self.error()
            self._tokens.append(match.group(1))
            position = match.end()
        self._next = 0

    def error(self) -> UnsupportedTypeError:
        return UnsupportedTypeError(f"{self._text!r} is not a Spark DDL type that state can have.", action=_REMEDY)

    def done(self) -> bool:
        return self._next == len(self._tokens)

    def looks_like_columns(self) -> bool:
        return len(self._tokens) >= 2 and self._tokens[0] not in "<>(),:" and self._tokens[1] not in "(<"

    def peek(self) -> str:
        return "" if self.done() else self._tokens[self._next]

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if not token or (expected and token.lower() != expected):
            raise self.error()
        self._next += 1
        return token

    def type(self) -> TypeInformation:
        name = self.take().lower()
        name = _ALIASES.get(name, name)
        if name in ("decimal", "dec", "numeric"):
            return self._decimal()
        if name == "array":
            self.take("<")
            element = self.type()
            self.take(">")
            return ListType(element)
        if name == "map":
            self.take("<")
            key = self.type()
            self.take(",")
            value = self.type()
            self.take(">")
            return MapType(key, value)
        if name == "struct":
            self.take("<")
            fields = self.fields(end=">")
            self.take(">")
            return StructType(tuple(n for n, _ in fields), tuple(t for _, t in fields))
        if name in ("varchar", "char") and self.peek() == "(":
            raise UnsupportedTypeError(
                f"{self._text!r} limits the length of a string, which nothing here would check.",
                action="Use string; check the length in the function, or in a where() before the sink.",
            )
        if name not in ATOMS or self.peek().lower() == "collate":
            raise self.error()
        return AtomicType(name)

    def _decimal(self) -> DecimalType:
        if self.peek() != "(":
            return DecimalType(10, 0)
        self.take("(")
        numbers = [self.take()]
        if self.peek() == ",":
            self.take(",")
            numbers.append(self.take())
        self.take(")")
        if not all(n.isdigit() for n in numbers):
            raise self.error()
        return DecimalType(int(numbers[0]), int(numbers[1]) if len(numbers) > 1 else 0)

    def fields(self, end: str) -> list[tuple[str, TypeInformation]]:
        fields: list[tuple[str, TypeInformation]] = []
        while self.peek() != end:
            name = self.take()
            name = name[1:-1].replace("``", "`") if name.startswith("`") else name
            if self.peek() == ":":
                self.take(":")
            fields.append((name, self.type()))
            if self.peek().lower() == "not":
                self.take("not"), self.take("null")
            if self.peek().lower() == "comment":
                self.take("comment"), self.take()
            if self.peek() != end:
                self.take(",")
                if self.peek() == end:
                    raise self.error()
        if not fields:
            raise self.error()
        return fields


__all__ = ["parse_columns_ddl", "parse_ddl", "type_information"]
