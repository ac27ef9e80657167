"""Tells which values are finished: exactly as a load would return them, and nothing can change them.

Such values need no conforming (`mutability.py`) and no copy. A class is enough to tell for most atoms; for timestamps,
decimals and rows it takes a condition, which is made as code: it runs for each value that a function stores.
"""

import datetime
import decimal
from collections.abc import Callable, Iterable
from typing import Any

from state_engine.api.row import row_class
from state_engine.api.types import INTEGERS, AtomicType, DecimalType, StructType, TypeInformation
from state_engine.serialization.made_code import Code

_FINISHED: dict[str, type] = {
    **dict.fromkeys(INTEGERS, int),
    "boolean": bool,
    "double": float,
    "string": str,
    "binary": bytes,
    "date": datetime.date,
}


def is_immutable(type_info: TypeInformation) -> bool:
    """Returns whether values that went through `conformer` cannot change after they were handed out.

    Arrow then returns them as they were written, since `conformer` makes them what a load returns.
    """
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


def finished_source(code: Code, type_info: TypeInformation, value: str) -> str | None:
    """Returns the condition that a value is finished or None.

    Args:
        code: Gets the objects that the condition names.
        type_info: Of the value.
        value: The value's source; it is repeated.

    Returns:
        The source; None if values of the type are never finished.
    """
    condition = _condition(code, type_info, value)
    return None if condition is None else f"({condition} or {value} is None)"


def _condition(code: Code, type_info: TypeInformation, value: str) -> str | None:
    match type_info:
        case AtomicType("timestamp"):
            kind, utc = code.name(datetime.datetime), code.name(datetime.UTC)
            return f"type({value}) is {kind} and {value}.tzinfo is {utc}"
        case AtomicType("timestamp_ntz"):
            kind = code.name(datetime.datetime)
            return f"type({value}) is {kind} and {value}.tzinfo is None and not {value}.fold"
        case DecimalType(_, scale):
            unit = code.name(decimal.Decimal(1).scaleb(-scale))
            kind, positive = code.name(decimal.Decimal), f"({value} or not {value}.is_signed())"
            return f"type({value}) is {kind} and {value}.same_quantum({unit}) and {positive}"
        case StructType():
            return finished_row_source(code, type_info, value)
    kind_of_atom = finished_type(type_info)
    return None if kind_of_atom is None else f"type({value}) is {code.name(kind_of_atom)}"


def finished_row_source(code: Code, struct: StructType, row: str) -> str | None:
    """Returns the condition that a row, which is not None, is finished; None if rows of the type never are."""
    if struct.carrier not in (None, tuple):
        return None
    fields = [
        finished_source(code, t, field) for t, field in zip(struct.types, field_sources(struct, row), strict=True)
    ]
    if None in fields:
        return None
    kind = tuple if struct.carrier is tuple else row_class(struct.names)
    width = [f"len({row}) == {len(fields)}"] if kind is tuple else []
    return " and ".join([f"type({row}) is {code.name(kind)}", *width, *filter(None, fields)])


def field_sources(struct: StructType, row: str) -> list[str]:
    """Returns the source of each field of a row, which is a tuple or of the struct's row class."""
    if struct.carrier is tuple:
        return [f"{row}[{n}]" for n in range(len(struct.names))]
    attributes: tuple[str, ...] = row_class(struct.names).__struct_fields__
    return [f"{row}.{attribute}" for attribute in attributes]


def made_for_all(type_info: TypeInformation, conform: Callable[[Any], Any]) -> Callable[[Iterable[Any]], list[Any]]:
    """Returns a function that conforms values of a type, given the conformer of one."""
    code = Code()
    condition, call = finished_source(code, type_info, "value"), f"{code.name(conform)}(value)"
    each = call if condition is None else f"value if {condition} else {call}"
    return code.function(f"lambda values: [{each} for value in values]")  # type: ignore[no-any-return]


__all__ = [
    "field_sources",
    "finished_key_type",
    "finished_row_source",
    "finished_source",
    "finished_type",
    "is_immutable",
    "made_for_all",
]
