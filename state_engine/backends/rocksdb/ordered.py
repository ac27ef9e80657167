"""Encodes keys as self-delimiting bytes that sort as the keys do: keys of cells, user keys of maps.

```
null            00
anything else   01, then
  integers      8 bytes, big endian, 2**63 added
  boolean       00 or 01
  float, double 8 bytes, big endian; the sign bit flipped, of negative numbers all bits
  date          as an integer: the proleptic ordinal of the day
  timestamp     as an integer: microseconds since 1970
  decimal       16 bytes, big endian, 2**127 added to the digits without the point
  string        UTF-8, 00 written as 00 FF, closed by 00
  binary        likewise
  struct        its fields, one after the other
```

What follows a key never begins with FF, so a closed string is no prefix of a longer one. Numbers that are equal in
Python (1, 1.0, True; 0.0 and -0.0) have the same bytes, since a dict would find one by the other. All NaNs also have
the same bytes (`serialization/equality.py`). Decoding returns one spelling for all equal values.
"""

import datetime
import decimal
import math
import struct
from collections.abc import Callable
from operator import index
from typing import Any, NamedTuple

from state_engine.api.row import InputRow
from state_engine.api.types import INTEGERS, AtomicType, DecimalType, StructType, TypeInformation
from state_engine.floats import one_float
from state_engine.serialization.rows import row_maker

MISFIT = (TypeError, ValueError, KeyError, AttributeError, ArithmeticError, struct.error)
"""What `encode` raises for a value that is not of the type: nothing can be stored under it."""

_NULL, _SOME = b"\x00", b"\x01"
_UNSIGNED = struct.Struct(">Q")
_DOUBLE = struct.Struct(">d")
_BIAS = 1 << 63
_ALL = (1 << 64) - 1
_WIDE = 1 << 127
_DIGITS = decimal.Context(prec=80)
_MICROSECOND = datetime.timedelta(microseconds=1)
_AWARE = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_NAIVE = datetime.datetime(1970, 1, 1)
_BOOLEANS = {False: b"\x00", True: b"\x01"}

Encode = Callable[[Any], bytes]
Decode = Callable[[bytes, int], tuple[Any, int]]


class OrderedCodec(NamedTuple):
    """Encodes a value to bytes; decodes bytes from an offset to the value and the offset after it."""

    encode: Encode
    decode: Decode


def ordered_codec(type_info: TypeInformation) -> OrderedCodec:
    """Returns the codec of a key's type, null included."""
    encode, decode = _codec(type_info)

    def encode_nullable(value: Any) -> bytes:
        return _NULL if value is None else _SOME + encode(value)

    def decode_nullable(data: bytes, at: int) -> tuple[Any, int]:
        return (None, at + 1) if data[at] == 0 else decode(data, at + 1)

    return OrderedCodec(encode_nullable, decode_nullable)


def _codec(type_info: TypeInformation) -> OrderedCodec:
    match type_info:
        case AtomicType(name) if name in INTEGERS:
            return OrderedCodec(encode_integer, decode_integer)
        case AtomicType(name):
            return _ATOMS[name]
        case DecimalType(_, scale):
            return _decimal_codec(scale)
        case StructType():
            return _struct_codec(type_info)
    raise AssertionError(type_info)  # no type that can be looked up is left


def encode_integer(value: Any) -> bytes:
    """Encodes an integer that is not null."""
    try:
        return _UNSIGNED.pack(index(value) + _BIAS)
    except TypeError:
        whole = int(value)
        if whole != value:
            raise
        return _UNSIGNED.pack(whole + _BIAS)


def decode_integer(data: bytes, at: int) -> tuple[int, int]:
    """Decodes what `encode_integer` made."""
    return _UNSIGNED.unpack_from(data, at)[0] - _BIAS, at + 8


def _decode_boolean(data: bytes, at: int) -> tuple[bool, int]:
    return data[at] == 1, at + 1


def _encode_double(value: Any) -> bytes:
    number = float(value)
    if number != value and not math.isnan(number):
        raise ValueError(value)
    bits = _UNSIGNED.unpack(_DOUBLE.pack(math.nan if math.isnan(number) else number + 0.0))[0]
    return _UNSIGNED.pack(bits ^ (_ALL if bits & _BIAS else _BIAS))


def _decode_double(data: bytes, at: int) -> tuple[float, int]:
    bits = _UNSIGNED.unpack_from(data, at)[0]
    number: float = _DOUBLE.unpack(_UNSIGNED.pack(bits ^ (_BIAS if bits & _BIAS else _ALL)))[0]
    return one_float(number), at + 8


def encode_bytes(data: bytes) -> bytes:
    """Encodes bytes of any length, closed by 00."""
    return data.replace(b"\x00", b"\x00\xff") + b"\x00"


def decode_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    """Decodes what `encode_bytes` made."""
    end = data.index(b"\x00", at)
    while data[end + 1 : end + 2] == b"\xff":
        end = data.index(b"\x00", end + 2)
    return data[at:end].replace(b"\x00\xff", b"\x00"), end + 1


def _encode_string(value: Any) -> bytes:
    return encode_bytes(value.encode())


def _decode_string(data: bytes, at: int) -> tuple[str, int]:
    encoded, end = decode_bytes(data, at)
    return encoded.decode(), end


def _encode_binary(value: Any) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(value)
    return encode_bytes(bytes(value))


def _encode_date(value: Any) -> bytes:
    if isinstance(value, datetime.datetime):
        raise TypeError(value)
    return encode_integer(value.toordinal())


def _decode_date(data: bytes, at: int) -> tuple[datetime.date, int]:
    days, end = decode_integer(data, at)
    return datetime.date.fromordinal(days), end


def _timestamp_codec(epoch: datetime.datetime) -> OrderedCodec:
    def encode(value: Any) -> bytes:
        return encode_integer((value - epoch) // _MICROSECOND)

    def decode(data: bytes, at: int) -> tuple[datetime.datetime, int]:
        microseconds, end = decode_integer(data, at)
        return epoch + datetime.timedelta(microseconds=microseconds), end

    return OrderedCodec(encode, decode)


def _decimal_codec(scale: int) -> OrderedCodec:
    def encode(value: Any) -> bytes:
        number = decimal.Decimal(value)
        if number != value:  # text and tuples, which a dict does not find it by
            raise TypeError(value)
        scaled = _DIGITS.scaleb(number, scale)
        digits = int(scaled)
        if digits != scaled:
            raise ValueError(value)
        return (digits + _WIDE).to_bytes(16, "big")

    def decode(data: bytes, at: int) -> tuple[decimal.Decimal, int]:
        digits = int.from_bytes(data[at : at + 16], "big") - _WIDE
        return _DIGITS.scaleb(decimal.Decimal(digits), -scale), at + 16

    return OrderedCodec(encode, decode)


def _struct_codec(struct_type: StructType) -> OrderedCodec:
    fields = [ordered_codec(t) for t in struct_type.types]
    make = row_maker(struct_type)

    def encode(value: Any) -> bytes:
        values = value.as_tuple() if isinstance(value, InputRow) else value
        if not isinstance(values, tuple):
            raise TypeError(value)
        return b"".join([field.encode(v) for field, v in zip(fields, values, strict=True)])

    def decode(data: bytes, at: int) -> tuple[Any, int]:
        values = []
        for field in fields:
            value, at = field.decode(data, at)
            values.append(value)
        return make(*values), at

    return OrderedCodec(encode, decode)


_ATOMS: dict[str, OrderedCodec] = {
    "boolean": OrderedCodec(_BOOLEANS.__getitem__, _decode_boolean),
    "float": OrderedCodec(_encode_double, _decode_double),
    "double": OrderedCodec(_encode_double, _decode_double),
    "string": OrderedCodec(_encode_string, _decode_string),
    "binary": OrderedCodec(_encode_binary, decode_bytes),
    "date": OrderedCodec(_encode_date, _decode_date),
    "timestamp": _timestamp_codec(_AWARE),
    "timestamp_ntz": _timestamp_codec(_NAIVE),
}


__all__ = ["MISFIT", "OrderedCodec", "decode_bytes", "encode_bytes", "encode_integer", "ordered_codec"]
