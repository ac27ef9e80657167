"""Converts values on their way into and out of a state: copies where they can change, always as a load returns them.

Examples are a tuple put into a state of rows, and a NumPy array put into a list. What an epoch reads back of its own
writes must not differ from what the next epoch reads: otherwise results would depend on where epochs are cut.
"""

import copy
import datetime
import decimal
import struct
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import numpy as np

from state_engine.api.types import (
    AtomicType,
    CodecType,
    DecimalType,
    ListType,
    MapType,
    StructType,
    TypeInformation,
)
from state_engine.serialization.atoms import ACCEPTED, MisfitError, plain_atom
from state_engine.serialization.equality import rule_of
from state_engine.serialization.finished import finished_key_type, finished_type, is_immutable, made_for_all
from state_engine.serialization.row_conformer import row_conformer

Conform = Callable[[Any], Any]

_NONE = type(None)


def still_conforming(type_info: TypeInformation) -> Callable[[Any], bool] | None:
    """Returns a check of whether a list or map of atoms that its owner changed in place needs no conforming.

    It checks all parts of a short one, and the last parts of a long one: a growing list must not cost more the longer
    it is. (So a NumPy number that is put into the middle of a long one becomes a plain number with the next copy.)
    Returns None if parts may need conforming whatever their class.
    """
    match type_info:
        case ListType(element) if (kind := finished_type(element)) is not None:
            fit = frozenset({kind, _NONE}).issuperset
            return lambda value: type(value) is list and fit(map(type, value[-_LOOKED_AT:]))
        case MapType(key, part) if finished_key_type(key) is not None and (kind := finished_type(part)) is not None:
            fit_key, fit_part = frozenset({finished_key_type(key)}).issuperset, frozenset({kind, _NONE}).issuperset
            return lambda value: (
                type(value) is dict
                and fit_key(map(type, islice(reversed(value), _LOOKED_AT)))
                and fit_part(map(type, islice(reversed(value.values()), _LOOKED_AT)))
            )
    return None


_LOOKED_AT = 64


def copier(type_info: TypeInformation) -> Conform | None:
    """Returns a function that copies a value before it is handed out, or None if that is not needed."""
    return None if is_immutable(type_info) else conformer(type_info)


def conformer(type_info: TypeInformation) -> Conform:
    """Returns a function that makes a value of an author the object that a load would return.

    The object shares nothing that can change with the value. A value that does not fit its type is copied as it is: the
    writer refuses it by name when the epoch ends. Values of `finished_type` need not go through this function.
    """
    match type_info:
        case AtomicType(name):
            return _ATOMS[name]
        case DecimalType(_, scale):
            return _decimal_conformer(scale)
        case ListType(element):
            return _list_conformer(element)
        case MapType(key, value):
            return _map_conformer(key, value)
        case StructType():
            return row_conformer(type_info, [conformer(field) for field in type_info.types])
        case CodecType():
            return _codec_conformer(type_info)
    raise AssertionError(type_info)


def _codec_conformer(type_info: CodecType) -> Conform:
    codec, conform_stored = type_info.codec, conformer(type_info.stored)

    def conform_by_codec(value: Any) -> Any:
        if value is None:
            return None
        try:
            stored = codec.encode(value)
        except Exception:
            return copy.deepcopy(value)
        return codec.decode(conform_stored(stored), codec.version)

    return conform_by_codec


def _atom_conformer(name: str) -> Conform:
    accepted = ACCEPTED[name]

    def conform_atom(value: Any) -> Any:
        try:
            return plain_atom(value, accepted)
        except MisfitError:
            return value

    return conform_atom


_number = _atom_conformer("double")
_datetime = _atom_conformer("timestamp")


def _conform_binary(value: Any) -> Any:
    return bytes(value) if isinstance(value, (bytes, bytearray, memoryview)) else value


def _conform_double(value: Any) -> Any:
    if type(value) is float:
        return value
    number = _number(value)
    return _exactly(float, number, value) if type(number) is int else number


def _conform_float(value: Any) -> Any:
    """Rounds to 32 bits; leaves numbers that 32 bits cannot hold for the writer to refuse."""
    number = value if type(value) is float else _number(value)
    if type(number) is int:
        return _exactly(_in_32_bits, number, value)
    try:
        return _in_32_bits(number) if type(number) is float else value
    except (OverflowError, struct.error):
        return value


def _exactly(become: Conform, number: int, given: Any) -> Any:
    """Returns an integer as a floating point number if that is the same number; else the writer refuses it."""
    try:
        result = become(number)
    except (OverflowError, struct.error):
        return given
    return result if result == number else given


def _in_32_bits(value: Any) -> float:
    return float(_SINGLE.unpack(_SINGLE.pack(value))[0])


def _conform_timestamp(value: Any) -> Any:
    value = value if type(value) is datetime.datetime else _datetime(value)
    if not isinstance(value, datetime.datetime) or value.tzinfo is None or value.tzinfo is datetime.UTC:
        return value
    try:
        return value.astimezone(datetime.UTC)
    except OverflowError:  # outside the years 1 to 9999
        return value


def _conform_naive_timestamp(value: Any) -> Any:
    value = value if type(value) is datetime.datetime else _datetime(value)
    return value.replace(fold=0) if getattr(value, "fold", 0) else value


def _decimal_conformer(scale: int) -> Conform:
    unit, plain = decimal.Decimal(1).scaleb(-scale), _atom_conformer("decimal")

    def conform_decimal(given: Any) -> Any:
        value = plain(given)
        if type(value) is not decimal.Decimal and type(value) is not int:
            return given
        try:
            conformed = _DIGITS.quantize(decimal.Decimal(value), unit)
        except decimal.InvalidOperation:
            return given
        if conformed != value:
            return given  # the writer refuses what would have to be rounded
        return conformed or conformed.copy_abs()  # Arrow has no negative zero

    return conform_decimal


_SINGLE = struct.Struct("<f")
_DIGITS = decimal.Context(prec=77)
_ATOMS: dict[str, Conform] = {
    **{name: _atom_conformer(name) for name in ACCEPTED},
    "binary": _conform_binary,
    "double": _conform_double,
    "float": _conform_float,
    "timestamp": _conform_timestamp,
    "timestamp_ntz": _conform_naive_timestamp,
}


def _parts_conformer(conform: Conform, finished: type | None) -> Callable[[Iterable[Any]], list[Any]]:
    """Returns a function that conforms many values of a type: with one check if all are of its finished type."""
    fit = frozenset({finished, _NONE}).issuperset

    def conform_parts(values: Any) -> list[Any]:
        if finished is not None and fit(map(type, values)):
            return list(values)
        return [value if type(value) is finished else conform(value) for value in values]

    return conform_parts


def conformer_of_all(type_info: TypeInformation) -> Callable[[Iterable[Any]], list[Any]]:
    """Returns a function that does for many values what `conformer` does for one: it reads them twice, and copies."""
    conform, finished = conformer(type_info), finished_type(type_info)
    return made_for_all(type_info, conform) if finished is None else _parts_conformer(conform, finished)


def _list_conformer(element: TypeInformation) -> Conform:
    conform_elements = conformer_of_all(element)

    def conform_list(value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.ndim == 1:
            value = value.tolist()
        elif not isinstance(value, (list, tuple)):
            return copy.deepcopy(value)
        return conform_elements(value)

    return conform_list


def _map_conformer(key: TypeInformation, part: TypeInformation) -> Conform:
    conform_keys = _parts_conformer(key_conformer(key), finished_key_type(key))
    conform_parts = conformer_of_all(part)

    def conform_map(value: Any) -> Any:
        if not isinstance(value, dict):
            return copy.deepcopy(value)
        return dict(zip(conform_keys(value.keys()), conform_parts(value.values()), strict=True))

    return conform_map


def key_conformer(type_info: TypeInformation) -> Conform:
    """Returns the function for a key before it is looked up in a dict; a key of `finished_key_type` does not need it.

    It applies `conformer`, and then the rule of `equality`. It raises ValueTypeError for a decimal that is no finite
    number: NaN in a decimal is no key, since it has no stored form.
    """
    conform, rule = conformer(type_info), rule_of(type_info)
    return conform if rule is None else lambda key: rule(conform(key))


__all__ = [
    "Conform",
    "conformer",
    "conformer_of_all",
    "copier",
    "key_conformer",
    "still_conforming",
]
