"""Which values may be handed out as they are, and which read back from Arrow as they went in."""

import copy
from collections.abc import Callable
from typing import Any

from state_engine.api.types import INTEGERS, AtomicType, DecimalType, StructType, TypeInformation

_EXACT = INTEGERS | {"boolean", "string", "date"}


def is_immutable(type_info: TypeInformation) -> bool:
    """Says whether values of this type cannot change once they were handed out."""
    match type_info:
        case AtomicType(name):
            return name != "binary"  # an author may have put a bytearray
        case DecimalType():
            return True
        case StructType(_, types, carrier):
            return carrier in (None, tuple) and all(map(is_immutable, types))
    return False


def is_exact(type_info: TypeInformation) -> bool:
    """Says whether a value that was written comes back as the same Python value (an int put into a double does not)."""
    return isinstance(type_info, AtomicType) and type_info.name in _EXACT


def is_hashable(type_info: TypeInformation) -> bool:
    """Says whether values of this type can be user keys of map state."""
    match type_info:
        case AtomicType() | DecimalType():
            return True
        case StructType(_, types, carrier):
            return carrier in (None, tuple) and all(map(is_hashable, types))
    return False


def copier(type_info: TypeInformation) -> Callable[[Any], Any] | None:
    """Returns what copies a value before it is handed out, or None where that is not needed."""
    return None if is_immutable(type_info) else copy.deepcopy


__all__ = ["copier", "is_exact", "is_hashable", "is_immutable"]
