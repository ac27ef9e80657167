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
from state_engine.serialization.atoms import ACCEPTED, MisfitError, ValueTypeError, plain_atom
from state_engine.serialization.equality import rule_of
from state_engine.serialization.rows import as_tuple, row_maker

Conform = Callable[[Any], Any]

_FINISHED: dict[str, type] = {
    **dict.fromkeys(INTEGERS, int),
    "boolean": bool,
    "double": float,
    "string": str,
    "binary": bytes,
    "date": datetime.date,
}
_NONE = type(None)


def is_immutable(type_info: TypeInformation) -> bool:
    """Returns whether values that went through `conformer` cannot change after they were handed out."""
    match type_info:
        case AtomicType() | DecimalType():
            return True
        case StructType(_, types, carrier):
            return carrier in (None, tuple) and all(map(is_immutable, types))
    return False


def finished_type(type_info: TypeInformation) -> type | None:
    """Returns the class with instances that need no conforming; None if the type has no such class.

    Nearly all values are first checked for this class, instead of a call of the conformer. Values of this class, and
    None, are read back from Arrow as they were written.
    """
    return _FINISHED.get(type_info.name) if isinstance(type_info, AtomicType) else None


def finished_key_type(type_info: TypeInformation) -> type | None:
    """Like `finished_type`, for keys of maps. None for floats: NaN has to become the NaN that a dict finds."""
    kind = finished_type(type_info)
    return None if kind is float else kind


def plain_type(type_info: TypeInformation) -> type | None:
    """Returns the class with values that, after `conformer`, are read back from Arrow as they were written."""
    return float if type_info == AtomicType("float") else finished_type(type_info)


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
            return _struct_conformer(type_info)
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
        return conformed if conformed == value else given  # the writer refuses what would have to be rounded

    return conform_decimal


def _unless_finished(struct: StructType, conform: Conform) -> Conform:
    """Returns a conformer of rows that calls another one only for rows that are not yet as a load would return them.

    Its code is made for the fields: a loop over them would take twice the time, for each stored row.
    """
    kinds = {f"k{n}": finished_type(t) for n, t in enumerate(struct.types)}
    if None in kinds.values() or struct.carrier not in (None, tuple):
        return conform
    kind: type = tuple if struct.carrier is tuple else row_class(struct.names)
    if kind is tuple:
        fields = [f"row[{n}]" for n in range(len(kinds))]
    else:
        fields = [f"row.{name}" for name in kind.__struct_fields__]  # type: ignore[attr-defined]
    same = " and ".join(f"type({field}) is {name}" for field, name in zip(fields, kinds, strict=True))
    width = f"len(row) == {len(kinds)} and " if kind is tuple else ""
    names: dict[str, Any] = {**kinds, "kind": kind, "conform": conform}
    return eval(f"lambda row: row if type(row) is kind and {width}{same} else conform(row)", names)  # type: ignore[no-any-return]


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


def _list_conformer(element: TypeInformation) -> Conform:
    conform_elements = _parts_conformer(conformer(element), finished_type(element))

    def conform_list(value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.ndim == 1:
            value = value.tolist()
        elif not isinstance(value, (list, tuple)):
            return copy.deepcopy(value)
        return conform_elements(value)

    return conform_list


def _map_conformer(key: TypeInformation, part: TypeInformation) -> Conform:
    conform_keys = _parts_conformer(key_conformer(key), finished_key_type(key))
    conform_parts = _parts_conformer(conformer(part), finished_type(part))

    def conform_map(value: Any) -> Any:
        if not isinstance(value, dict):
            return copy.deepcopy(value)
        return dict(zip(conform_keys(value.keys()), conform_parts(value.values()), strict=True))

    return conform_map


def _struct_conformer(struct: StructType) -> Conform:
    make = row_maker(struct)
    fields = [(finished_type(t), conformer(t)) for t in struct.types]

    def conform_row(value: Any) -> Any:
        if value is None:
            return value
        try:
            values = as_tuple(value, struct)
        except ValueTypeError:
            return copy.deepcopy(value)
        if len(values) != len(fields):
            return copy.deepcopy(value)
        return make(*[v if type(v) is done else conform(v) for (done, conform), v in zip(fields, values, strict=True)])

    return _unless_finished(struct, conform_row)


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
    "copier",
    "finished_key_type",
    "finished_type",
    "is_immutable",
    "key_conformer",
    "plain_type",
    "still_conforming",
]
