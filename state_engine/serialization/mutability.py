"""How values cross the border of a state: as copies where they can change, and always as a load would give them.

A tuple put into a state of rows, a NumPy array put into a list: what an epoch reads back of its own writes must not
differ from what the next one reads, or results would depend on where epochs are cut.
"""

import copy
import datetime
import decimal
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from state_engine.api.row import row_class
from state_engine.api.types import (
    INTEGERS,
    AtomicType,
    CodecType,
    DecimalType,
    ListType,
    MapType,
    StructType,
    TypeInformation,
)
from state_engine.serialization.convert import ValueTypeError, as_tuple, row_maker

Conform = Callable[[Any], Any]

_PLAIN: dict[str, type] = {
    **dict.fromkeys(INTEGERS, int),
    "boolean": bool,
    "float": float,
    "double": float,
    "string": str,
    "date": datetime.date,
}


def is_immutable(type_info: TypeInformation) -> bool:
    """Says whether values that `conformer` let in cannot change once they were handed out."""
    match type_info:
        case AtomicType() | DecimalType():
            return True
        case StructType(_, types, carrier):
            return carrier in (None, tuple) and all(map(is_immutable, types))
    return False


def plain_type(type_info: TypeInformation) -> type | None:
    """Returns the class whose values are read back from Arrow as they were written; None where there is none.

    (An IntEnum or a NumPy scalar put into an integer is not. Floats are those that `conformer` let in.)
    """
    return _PLAIN.get(type_info.name) if isinstance(type_info, AtomicType) else None


def finished_type(type_info: TypeInformation) -> type | None:
    """Returns the class whose instances need no conforming at all; None where there is none."""
    if not isinstance(type_info, StructType) or not is_immutable(type_info) or any(map(conformer, type_info.types)):
        return None
    return tuple if type_info.carrier is tuple else row_class(type_info.names)


def holds_atoms(type_info: TypeInformation) -> bool:
    """Says whether values are lists or maps of what needs no conforming: they may grow in place and still conform."""
    match type_info:
        case ListType(element):
            return conformer(element) is None
        case MapType(key, value):
            return conformer(key) is None and conformer(value) is None
    return False


def copier(type_info: TypeInformation) -> Conform | None:
    """Returns what copies a value before it is handed out, or None where that is not needed."""
    return None if is_immutable(type_info) else conformer(type_info)


def conformer(type_info: TypeInformation) -> Conform | None:
    """Returns what makes a value that an author put the object that a load would give, sharing nothing that can change.

    A value that does not fit its type is copied as it is: the writer refuses it by name when the epoch ends. None
    where there is nothing to do, which is so for whole numbers, strings, booleans and dates.
    """
    match type_info:
        case AtomicType(name):
            return _ATOMS.get(name)
        case DecimalType(_, scale):
            return _decimal_conformer(scale)
        case ListType(element):
            return _list_conformer(conformer(element))
        case MapType(key, value):
            from state_engine.serialization.equality import key_conformer  # which conforms by what is here

            return _map_conformer(key_conformer(key), conformer(value))
        case StructType():
            return _struct_conformer(type_info)
        case CodecType():
            return _codec_conformer(type_info)
    return None


def _codec_conformer(type_info: CodecType) -> Conform:
    codec, conform_stored = type_info.codec, conformer(type_info.stored)

    def conform_by_codec(value: Any) -> Any:
        if value is None:
            return None
        try:
            stored = codec.encode(value)
        except Exception:
            return copy.deepcopy(value)
        return codec.decode(stored if conform_stored is None else conform_stored(stored), codec.version)

    return conform_by_codec


def _conform_binary(value: Any) -> Any:
    return bytes(value) if isinstance(value, (bytearray, memoryview)) else value


def _conform_double(value: Any) -> Any:
    return float(value) if type(value) is int or isinstance(value, np.floating) else value


def _conform_float(value: Any) -> Any:
    """32 bits; what they cannot hold is left for the writer to refuse."""
    if type(value) is not float and type(value) is not int and not isinstance(value, np.floating):
        return value
    try:
        return _SINGLE.unpack(_SINGLE.pack(value))[0]
    except (OverflowError, struct.error):
        return value


def _conform_timestamp(value: Any) -> Any:
    if not isinstance(value, datetime.datetime) or value.tzinfo is None or value.tzinfo is datetime.UTC:
        return value
    return value.astimezone(datetime.UTC)


def _decimal_conformer(scale: int) -> Conform:
    unit = decimal.Decimal(1).scaleb(-scale)

    def conform_decimal(value: Any) -> Any:
        if type(value) is not decimal.Decimal and type(value) is not int:
            return value
        try:
            conformed = _DIGITS.quantize(decimal.Decimal(value), unit)
        except decimal.InvalidOperation:
            return value
        return conformed if conformed == value else value  # the writer refuses what would have to be rounded

    return conform_decimal


_SINGLE = struct.Struct("<f")
_DIGITS = decimal.Context(prec=77)
_ATOMS: dict[str, Conform] = {
    "binary": _conform_binary,
    "double": _conform_double,
    "float": _conform_float,
    "timestamp": _conform_timestamp,
}


def _list_conformer(conform: Conform | None) -> Conform:
    def conform_list(value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.ndim == 1:
            value = value.tolist()
        elif not isinstance(value, (list, tuple)):
            return copy.deepcopy(value)
        return list(value) if conform is None else [conform(element) for element in value]

    return conform_list


def _map_conformer(conform_key: Conform | None, conform_value: Conform | None) -> Conform:
    def conform_map(value: Any) -> Any:
        if not isinstance(value, dict):
            return copy.deepcopy(value)
        if conform_key is None and conform_value is None:
            return dict(value)
        key, item = conform_key or _same, conform_value or _same
        return {key(k): item(v) for k, v in value.items()}

    return conform_map


def _same(value: Any) -> Any:
    return value


def _struct_conformer(struct: StructType) -> Conform:
    make = row_maker(struct)
    fields = [conformer(t) for t in struct.types]
    finished = finished_type(struct)

    def conform_row(value: Any) -> Any:
        if value is None or type(value) is finished:
            return value
        try:
            values = as_tuple(value, struct)
        except ValueTypeError:
            return copy.deepcopy(value)
        if len(values) != len(fields):
            return copy.deepcopy(value)
        return make(*(v if conform is None else conform(v) for conform, v in zip(fields, values, strict=True)))

    return conform_row


__all__ = ["Conform", "conformer", "copier", "finished_type", "holds_atoms", "is_immutable", "plain_type"]
