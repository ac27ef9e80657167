"""Copies values that can change, whatever their type: a function may change an object after handing it over.

What a function yields waits for the end of the batch, and a chained function gets the objects of the function upstream
of it. `mutability.py` copies values that go into a state, by the declared type of the state. Here nothing is converted:
the writer refuses what does not fit its declared type.
"""

import copy
import dataclasses
import datetime
import decimal
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from state_engine.api.output_tag import OutputTag
from state_engine.api.row import InputRow, Row
from state_engine.api.types import AtomicType, DecimalType, StructType, TypeInformation, holds_codec
from state_engine.iterating import whole

Copy = Callable[[Any], Any]

_ATOMS = frozenset(
    {type(None), bool, int, float, str, bytes, datetime.date, datetime.datetime, decimal.Decimal, OutputTag}
)
_are_atoms = _ATOMS.issuperset


def copied(value: Any, other: Copy | None = None) -> Any:
    """Returns a value that its author cannot change any more: itself if nothing can change it, else a copy.

    A copy is of the same class. Rows, tuples, lists, maps, dataclasses, NumPy arrays and Python's other collections are
    copied at each level. Tuples and rows of atoms are not copied.

    Args:
        value: Anything.
        other: Copies objects of other classes; by default they are returned as they are.
    """
    kind = type(value)
    if kind in _ATOMS:
        return value
    if kind is tuple:
        return value if _are_atoms(map(type, value)) else tuple([copied(part, other) for part in value])
    if kind is list:
        return value.copy() if _are_atoms(map(type, value)) else [copied(part, other) for part in value]
    if kind is dict:
        return {copied(key, other): copied(part, other) for key, part in value.items()}
    if isinstance(value, InputRow):
        parts = value.as_tuple()
        return value if _are_atoms(map(type, parts)) else kind(*[copied(part, other) for part in parts])
    if isinstance(value, tuple) and _are_atoms(map(type, value)):  # of a class with field names
        return value
    if kind is Row:
        return Row(*[copied(part, other) for part in value])
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return value.copy()
    if isinstance(value, memoryview):
        return value.tobytes()
    if isinstance(value, (tuple, list, dict, set, bytearray, deque, np.ndarray)):
        return copy.deepcopy(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _copied_fields(value, other)
    return value if other is None else other(value)


def _copied_fields(value: Any, other: Copy | None) -> Any:
    clone = copy.copy(value)
    for field in dataclasses.fields(value):
        part = getattr(value, field.name)
        if type(part) not in _ATOMS:
            object.__setattr__(clone, field.name, copied(part, other))  # it may be frozen
    return clone


Take = Callable[[Iterable[Any]], None]
"""Takes the rows of one call."""


class RowCopies:
    """Copies the rows of a function for its operator. Tuples of atoms cost next to nothing.

    Args:
        output: Columns of its main output.
        side_outputs: Columns of the side outputs that are read, by tag id.
        reuses: Whether the rows themselves are taken, even if they are changed later.

    Attributes:
        takes_tuples: Whether tuples that no other code holds may be taken as they are.
    """

    def __init__(
        self, output: StructType, side_outputs: Mapping[str, StructType] | None = None, *, reuses: bool = False
    ) -> None:
        structs = [output, *(side_outputs or {}).values()]
        self._other: Copy | None = copy.deepcopy if any(map(holds_codec, structs)) else None
        self._reuses = reuses
        self._of_atoms = all(map(_is_atom, output.types))
        self._of_atoms_aside = {tag for tag, struct in (side_outputs or {}).items() if all(map(_is_atom, struct.types))}
        self._tagged = bool(side_outputs)
        self.takes_tuples = reuses or (self._of_atoms and not self._tagged)

    def into(self, rows: list[Any]) -> Take:
        """Returns a function that appends rows to a list, as the rows are when it is called."""
        append, other, of_atoms_aside = rows.append, self._other, self._of_atoms_aside
        if self._reuses:
            return lambda given: rows.extend(_entire(given))
        if not self._of_atoms:
            return lambda given: rows.extend([copied(row, other) for row in _entire(given)])

        def take(given: Iterable[Any]) -> None:
            for row in given if type(given) is list or type(given) is tuple else whole(given):
                append(row if type(row) is tuple or type(row) is Row else copied(row, other))

        def take_tagged(given: Iterable[Any]) -> None:
            for row in _entire(given):
                if type(row) is tuple and row:
                    tag = row[0]
                    if type(tag) is not OutputTag or (type(row[-1]) is tuple and tag.tag_id in of_atoms_aside):
                        append(row)
                        continue
                append(copied(row, other))

        return take_tagged if self._tagged else take


def _entire(given: Iterable[Any]) -> Iterable[Any]:
    return given if type(given) is list or type(given) is tuple else whole(given)


def _is_atom(type_info: TypeInformation) -> bool:
    return isinstance(type_info, DecimalType) or (isinstance(type_info, AtomicType) and type_info.name != "binary")


__all__ = ["RowCopies", "copied"]
