"""Values of types without parts: which Python classes are accepted for them, and the plain value of each.

Also the error for a value that is not of its type, at any level.
"""

import datetime
import decimal
from collections.abc import Callable
from typing import Any

import numpy as np

from state_engine.api.types import INTEGERS
from state_engine.causes import LONGEST_CAUSE, shown, without
from state_engine.text import shorten

ACCEPTED: dict[str, frozenset[type]] = {
    **{name: frozenset({int}) for name in INTEGERS},
    "boolean": frozenset({bool}),
    "float": frozenset({float, int}),
    "double": frozenset({float, int}),
    "string": frozenset({str}),
    "binary": frozenset({bytes, bytearray, memoryview}),
    "date": frozenset({datetime.date}),
    "timestamp": frozenset({datetime.datetime}),
    "timestamp_ntz": frozenset({datetime.datetime}),
    "decimal": frozenset({decimal.Decimal, int}),
}
"""The classes that are accepted for each type."""


class MisfitError(Exception):
    """A value is not of a type; the text has the reason, if there is one to add."""


class ValueTypeError(Exception):
    """A Python value does not fit its declared type.

    Attributes:
        index: Position of the first such value in the column.
        path: Field inside the value, empty for the value itself.
    """

    def __init__(self, index: int, value: object, declared: str, path: str = "", why: str = "") -> None:
        why = shorten(without(why, value), LONGEST_CAUSE)
        super().__init__(f"{shorten(shown(value), 80)} ({type(value).__name__}) is not {declared}{why}")
        self.index = index
        self.path = path

    def inside(self, part: str, index: int) -> "ValueTypeError":
        """Returns this error as that of the enclosing value: with its index, and the path down to the wrong value."""
        self.index = index
        self.path = f"{part}.{self.path}" if self.path else part
        return self


def plain_atom(given: Any, accepted: frozenset[type]) -> Any:
    """Returns the plain form of a value: an object of an accepted class itself.

    NumPy's scalars and instances of subclasses (an IntEnum, a pandas Timestamp) are converted; a bool is no int.

    Args:
        given: The value; None is returned as it is.
        accepted: The classes of its type.

    Raises:
        MisfitError: The value is of none of these classes.
    """
    value = given
    if isinstance(given, np.generic) and (type(given) is not np.bool_ or bool in accepted):
        value = given.item()
        if value is None and not accepted & {datetime.date, datetime.datetime}:
            raise MisfitError(": NumPy's NaT is null among dates and timestamps only")
    kind = type(value)
    if value is None or kind in accepted:
        return value
    parent = next((a for a in accepted if isinstance(value, a)), None)
    if parent is None or kind is bool or (isinstance(value, datetime.datetime) and parent is datetime.date):
        raise MisfitError("")
    if parent is datetime.datetime and (value != value or getattr(value, "nanosecond", 0)):
        raise MisfitError(": pandas' NaT and nanoseconds have no stored form")
    return _MADE_PLAIN[parent](value)


def _plain_datetime(value: Any) -> datetime.datetime:
    clock = value.hour, value.minute, value.second, value.microsecond
    return datetime.datetime(value.year, value.month, value.day, *clock, value.tzinfo, fold=value.fold)


_MADE_PLAIN: dict[type, Callable[[Any], Any]] = {
    int: int.__int__,
    float: float.__float__,
    str: str.__str__,
    bytes: bytes,
    bytearray: bytes,
    decimal.Decimal: decimal.Decimal,
    datetime.date: lambda value: datetime.date(value.year, value.month, value.day),
    datetime.datetime: _plain_datetime,
}

__all__ = ["ACCEPTED", "MisfitError", "ValueTypeError", "plain_atom"]
