"""Values as bytes: msgpack of plain data, by the declared type.

Dates are ordinals, timestamps microseconds since 1970, decimals text, and rows the list of their fields. Values of a
codec are its version and its output. A map without converted keys and values is a map; any other is a list of keys and
values in turn, because a key may be a row. Decoding returns what a load from the log would return.
"""

import datetime
import decimal
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import astuple

from state_engine.api.row import InputRow
from state_engine.api.types import (
    AtomicType,
    Carrier,
    CodecType,
    DecimalType,
    ListType,
    MapType,
    StructType,
    TypeInformation,
)
from state_engine.iterating import never_ending
from state_engine.serialization.equality import holds_floats
from state_engine.serialization.made_code import Code
from state_engine.serialization.mutability import key_conformer
from state_engine.serialization.rows import as_tuple, row_maker

Convert = Callable[[Any], Any]

_MICROSECOND = datetime.timedelta(microseconds=1)
_AWARE = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_NAIVE = datetime.datetime(1970, 1, 1)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


class ValueCodec(NamedTuple):
    """Values of one type to bytes and back; None is a value."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


def value_codec(type_info: TypeInformation) -> ValueCodec:
    """Returns the codec of a type."""
    to_plain, from_plain = _nullable(_plain(type_info))
    encode = _encode if to_plain is None else lambda value: _encode(to_plain(value))
    decode = _decode if from_plain is None else lambda data: from_plain(_decode(data))
    return ValueCodec(encode, decode)


def list_codec(type_info: TypeInformation) -> ValueCodec:
    """Returns the codec of lists of a type."""
    return value_codec(ListType(type_info))


def spelled_codec(user_key: TypeInformation, value: TypeInformation) -> ValueCodec:
    """Returns the codec of pairs of a user key, as it is spelled, and its value."""
    pairs = value_codec(StructType(("user_key", "value"), (user_key, value), carrier=tuple))
    conform = key_conformer(user_key)

    def decode(data: bytes) -> Any:
        key, held = pairs.decode(data)
        return conform(key), held

    return ValueCodec(pairs.encode, decode)


_Pair = tuple[Convert | None, Convert | None]
_AS_IT_IS: _Pair = (None, None)


def _nullable(pair: _Pair) -> _Pair:
    to_plain, from_plain = pair
    if to_plain is None or from_plain is None:
        return _AS_IT_IS
    return (
        lambda value: None if value is None else to_plain(value),
        lambda value: None if value is None else from_plain(value),
    )


def _plain(type_info: TypeInformation) -> _Pair:
    match type_info:
        case AtomicType("date"):
            return lambda value: value.toordinal(), datetime.date.fromordinal
        case AtomicType("timestamp"):
            return _timestamps(_AWARE)
        case AtomicType("timestamp_ntz"):
            return _timestamps(_NAIVE)
        case DecimalType():
            return str, decimal.Decimal
        case ListType(element):
            return _lists(_nullable(_plain(element)))
        case MapType(key, value):
            return _maps(_key(key), _nullable(_plain(value)))
        case StructType():
            return _structs(type_info)
        case CodecType():
            return _coded(type_info)
    return _AS_IT_IS


def _key(type_info: TypeInformation) -> _Pair:
    """Returns the conversions of keys of maps: a decoded key can be found in a dict."""
    pair = _nullable(_plain(type_info))
    if not holds_floats(type_info):
        return pair
    conform, from_plain = key_conformer(type_info), pair[1] or _same
    return pair[0] or _same, lambda plain: conform(from_plain(plain))


def _coded(type_info: CodecType) -> _Pair:
    codec, (to_plain, from_plain) = type_info.codec, _nullable(_plain(type_info.stored))
    to_plain, from_plain = to_plain or _same, from_plain or _same
    encode, decode = never_ending(codec.encode), never_ending(codec.decode)
    return (
        lambda value: (codec.version, to_plain(encode(value))),
        lambda plain: decode(from_plain(plain[1]), plain[0]),
    )


def _timestamps(epoch: datetime.datetime) -> _Pair:
    return (
        lambda value: (value - epoch) // _MICROSECOND,
        lambda value: epoch + datetime.timedelta(microseconds=value),
    )


def _lists(element: _Pair) -> _Pair:
    to_plain, from_plain = element
    if to_plain is None or from_plain is None:
        return _AS_IT_IS
    return lambda value: list(map(to_plain, value)), lambda value: list(map(from_plain, value))


def _same(value: Any) -> Any:
    return value


def _maps(key: _Pair, value: _Pair) -> _Pair:
    if key is _AS_IT_IS and value is _AS_IT_IS:
        return _AS_IT_IS
    key_to, key_from = key[0] or _same, key[1] or _same
    value_to, value_from = value[0] or _same, value[1] or _same

    def to_plain(given: Any) -> list[Any]:
        return [part for k, v in given.items() for part in (key_to(k), value_to(v))]

    def from_plain(plain: list[Any]) -> dict[Any, Any]:
        return dict(zip(map(key_from, plain[::2]), map(value_from, plain[1::2]), strict=True))

    return to_plain, from_plain


def _structs(struct: StructType) -> _Pair:
    """Returns the conversions of rows; their source is made for the fields."""
    make, fields = row_maker(struct), _fields_of(struct)
    if all(_plain(field) is _AS_IT_IS for field in struct.types):
        return fields, lambda plain: make(*plain)
    code = Code()
    values = [f"v{n}" for n in range(len(struct.types))]
    pairs = [_sources(code, field, value) for field, value in zip(struct.types, values, strict=True)]
    to_plains, from_plains = ", ".join([to for to, _ in pairs]), ", ".join([back for _, back in pairs])
    targets = f"({', '.join(values)},)"
    return (
        code.function("def to_plain(row):", f"    {targets} = {code.name(fields)}(row)", f"    return ({to_plains},)"),
        code.function(
            "def from_plain(plain):", f"    {targets} = plain", f"    return {code.name(make)}({from_plains})"
        ),
    )


def _fields_of(struct: StructType) -> Convert:
    if isinstance(struct.carrier, Carrier):
        return struct.carrier.values

    def fields(row: Any) -> tuple[Any, ...]:
        kind = type(row)
        if kind is tuple:
            return row  # type: ignore[no-any-return]
        return astuple(row) if issubclass(kind, InputRow) else as_tuple(row, struct)

    return fields


def _sources(code: Code, type_info: TypeInformation, value: str) -> tuple[str, str]:
    """Returns the source of a field's conversions to plain data and back."""
    to_plain, from_plain = _plain(type_info)
    if to_plain is None or from_plain is None:
        return value, value
    to, back = f"{code.name(to_plain)}({value})", f"{code.name(from_plain)}({value})"
    match type_info:
        case AtomicType("timestamp" | "timestamp_ntz"):
            epoch = code.name(_AWARE if type_info.name == "timestamp" else _NAIVE)
            to = f"({value} - {epoch}) // {code.name(_MICROSECOND)}"
            back = f"{epoch} + {code.name(datetime.timedelta)}(0, 0, {value})"
    return f"None if {value} is None else {to}", f"None if {value} is None else {back}"


__all__ = ["ValueCodec", "list_codec", "spelled_codec", "value_codec"]
