"""Makes the function that conforms the rows of one type. Its source is made for the fields of the type.

A loop over the fields, with calls for each, takes six times as long; and a function may store several rows
for each record.
"""

import copy
import dataclasses
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from state_engine.api.row import InputRow, row_class
from state_engine.api.types import Carrier, StructType
from state_engine.serialization.atoms import ValueTypeError
from state_engine.serialization.finished import field_sources, finished_row_source, finished_source
from state_engine.serialization.made_code import Code
from state_engine.serialization.rows import as_tuple, row_maker

Values = Callable[[Any], Any]
"""Returns the fields of a row, in the order of its type."""


def row_conformer(struct: StructType, conform: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """Returns a function that does for rows what `mutability.conformer` says.

    Args:
        struct: Type of the rows.
        conform: The conformer of each field.
    """
    known: dict[type, Values] = {}
    if isinstance(struct.carrier, Carrier):
        return _carried_conformer(struct.carrier, conform)
    if struct.carrier is tuple:
        known[row_class(struct.names)] = InputRow.as_tuple

    def other(row: Any) -> Any:
        """Conforms a row of a class that was not seen before, or one that may not fit."""
        if row is None:
            return None
        try:
            values = as_tuple(row, struct)
        except ValueTypeError:
            return copy.deepcopy(row)
        if len(values) != len(conform):
            return copy.deepcopy(row)
        if (values_of := _values_of(type(row), struct)) is not None:
            known[type(row)] = values_of
        return conform_row(tuple(values))

    conform_row: Callable[[Any], Any] = _made(struct, conform, known, other)
    return conform_row


def _values_of(kind: type, struct: StructType) -> Values | None:
    """Returns how the fields of all instances of a class are read; None if each instance has to be looked at.

    It must give what `as_tuple` gives.
    """
    names = getattr(kind, "_fields", None)
    if issubclass(kind, tuple):
        if kind.__len__ is not tuple.__len__ or not isinstance(names, tuple) or len(names) != len(struct.names):
            return None
        return tuple if names == struct.names or not set(names) & set(struct.names) else None
    if issubclass(kind, (list, InputRow)):
        return None
    if dataclasses.is_dataclass(kind) and {field.name for field in dataclasses.fields(kind)} == set(struct.names):
        return attrgetter(*struct.names) if len(struct.names) > 1 else None
    return None


def _carried_conformer(carrier: Carrier, conform: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    make = carrier.maker()

    def conform_carried(record: Any) -> Any:
        if record is None:
            return None
        values = carrier.values(record)
        if len(values) != len(conform):
            return copy.deepcopy(record)
        return make(*[of_field(value) for of_field, value in zip(conform, values, strict=True)])

    return conform_carried


def _made(
    struct: StructType, conform: Sequence[Callable[[Any], Any]], known: dict[type, Values], other: Callable[[Any], Any]
) -> Callable[[Any], Any]:
    """Returns the function. Below is its source for a row of `a` and `b`, an integer and a list.

    ```
    def conform_row(row):
        kind = type(row)
        if kind is Row: (v0, v1,) = (row.a, row.b,)
        elif kind is tuple and len(row) == 2: (v0, v1,) = row
        elif kind in known: (v0, v1,) = known[kind](row)
        else: return other(row)
        return make(v0 if type(v0) is int or v0 is None else conform_int(v0), conform_list(v1))
    ```

    If all fields may be finished, it begins by returning a row that is finished.
    """
    code, width = Code(), len(conform)
    values = [f"v{n}" for n in range(width)]
    targets = f"({', '.join(values)},)"
    finished = finished_row_source(code, struct, "row")
    conformed = []
    for value, type_info, conform_field in zip(values, struct.types, conform, strict=True):
        condition, call = finished_source(code, type_info, value), f"{code.name(conform_field)}({value})"
        conformed.append(call if condition is None else f"{value} if {condition} else {call}")
    ways = [f"if kind is tuple and len(row) == {width}: {targets} = row"]
    if struct.carrier is None:
        fields = ", ".join(field_sources(struct, "row"))
        ways.insert(0, f"if kind is {code.name(row_class(struct.names))}: {targets} = ({fields},)")
    ways.append(f"if kind in {code.name(known)}: {targets} = {code.name(known)}[kind](row)")
    function: Callable[[Any], Any] = code.function(
        "def conform_row(row):",
        *([f"    if {finished}: return row"] if finished is not None else []),
        "    kind = type(row)",
        "    " + "\n    el".join(ways),
        f"    else: return {code.name(other)}(row)",
        f"    return {code.name(row_maker(struct))}({', '.join(conformed)})",
    )
    return function


__all__ = ["row_conformer"]
