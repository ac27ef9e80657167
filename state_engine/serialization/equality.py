"""Decides when two keys are equal, by type: user keys of map state and broadcast state, and keys read from the log.

The rule is SQL's: null equals null, NaN equals NaN, -0.0 equals 0.0, rows are equal field by field. Python's dicts
follow it too, except for NaN. So a key goes through `key_conformer` before it is looked up, and then a dict finds it.
Types without floating-point numbers and decimals need only `conformer`, and nearly all their keys not even that.

Equal keys may have different spellings: 0.0 and -0.0, also inside a row. An entry keeps the spelling with which it was
put first, until it is removed, cleared or expired. NaN has one spelling.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from operator import is_, not_
from typing import Any

from state_engine.api.row import InputRow
from state_engine.api.types import AtomicType, DecimalType, StructType, TypeInformation
from state_engine.floats import one_float
from state_engine.serialization.atoms import ValueTypeError
from state_engine.serialization.rows import row_maker

Rule = Callable[[Any], Any]


def holds_floats(type_info: TypeInformation) -> bool:
    """Returns whether keys of a type are, or contain, floating-point numbers."""
    if isinstance(type_info, StructType):
        return any(map(holds_floats, type_info.types))
    return isinstance(type_info, AtomicType) and type_info.name in ("float", "double")


def spells(type_info: TypeInformation) -> Callable[[Any], bool] | None:
    """Returns a check of whether keys equal to a key may have other spellings; None if no key has several spellings."""
    if not holds_floats(type_info):
        return None
    return not_ if isinstance(type_info, AtomicType) else lambda _: True


def spelling_in(entries: Mapping[Any, Any], key: Any) -> Any:
    """Returns a key as a dict spells it; as given if the dict does not have it."""
    probe = _Probe(key)
    entries.get(probe)
    return probe.spelling


class _Probe:
    """Replaces a key in a look-up, to find out which key of the dict is equal to it."""

    __slots__ = ("_key", "spelling")

    def __init__(self, key: Any) -> None:
        self._key = self.spelling = key

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        if other is not self._key and other != self._key:
            return False
        self.spelling = other
        return True


def rule_of(type_info: TypeInformation) -> Rule | None:
    """Returns a function that makes keys that are equal by the rule equal for a dict, too; None if they already are."""
    match type_info:
        case AtomicType() if holds_floats(type_info):
            return one_float
        case DecimalType():
            return _decimal_rule(type_info.ddl())
        case StructType():
            return _row_rule(type_info)
    return None


def _decimal_rule(declared: str) -> Rule:
    def one_decimal(key: Any) -> Any:
        if not isinstance(key, Decimal):
            return key
        if not key.is_finite():
            raise ValueTypeError(0, key, declared, why=": it is no finite number, so nothing is found by it")
        return key or key.copy_abs()  # the log has no negative zero

    return one_decimal


def _row_rule(struct: StructType) -> Rule | None:
    rules = [rule_of(field) for field in struct.types]
    if not any(rules):
        return None
    make = row_maker(struct)

    def one_row(key: Any) -> Any:
        values = key.as_tuple() if isinstance(key, InputRow) else key
        if not isinstance(values, tuple) or len(values) != len(rules):
            return key  # it is not of the type: the writer refuses it by name
        fields = [field if rule is None else rule(field) for rule, field in zip(rules, values, strict=True)]
        return key if all(map(is_, fields, values)) else make(*fields)

    return one_row


__all__ = ["Rule", "holds_floats", "rule_of", "spelling_in", "spells"]
