"""Converts PyFlink's key selectors to key columns.

A selector that only picks fields costs nothing: it is called once, with a placeholder that records which fields it
reads, and these become the key columns. Any other selector runs for each record, and its result becomes columns.
"""

import dis
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from types import CodeType
from typing import Any, NoReturn

from state_engine.api.pyflink_types import Types
from state_engine.api.type_hints import type_information
from state_engine.api.types import Bare, StructType, columns_of_type
from state_engine.errors import JobDefinitionError
from state_engine.log.ops import RESERVED
from state_engine.runtime.keyed_elements import KeySelector

Selector = KeySelector | Callable[[Any], Any]


@dataclass(frozen=True)
class Key:
    """How a stream is keyed.

    Attributes:
        names: The key columns.
        selector: The function that computes them; None if they are fields of the elements.
        computed: The columns that the selector computes, and how its result holds them.
        given: The same columns, with the names of the fields in the selector's result.
        is_all: Whether all elements have the same key, in a column that no element has.
    """

    names: tuple[str, ...]
    selector: Any = None
    computed: StructType | None = None
    given: StructType | None = None
    is_all: bool = False


def key_of(selector: Selector, key_type: Any, columns: StructType) -> Key:
    """Returns the key that a selector defines.

    Args:
        selector: The author's selector.
        key_type: Type of its result, if the author declared it.
        columns: Columns of the elements.

    Raises:
        JobDefinitionError: The selector computes something, and its type is not declared.
    """
    is_class = isinstance(selector, type) and issubclass(selector, KeySelector)
    if is_class or not (callable(selector) or isinstance(selector, KeySelector)):
        raise JobDefinitionError(
            f"key_by() got {selector!r}.", action="Give a function of an element, or an object of a KeySelector."
        )
    declared = None if key_type is None else columns_of_type(type_information(key_type))
    picked = _picked(selector, columns)
    if picked is not None:
        types = _types_of(picked, columns)
        if declared is None and not RESERVED.isdisjoint(map(str.lower, picked)):
            declared = columns_of_type(types[0] if len(types) == 1 else Types.TUPLE(types))
        if declared is None or (types == declared.types and RESERVED.isdisjoint(map(str.lower, picked))):
            return Key(picked)
    if declared is None:
        raise JobDefinitionError(
            "key_by() got a selector that does more than pick fields of an element, and no key_type.",
            action="Declare the type of the key: key_by(selector, key_type=Types.INT()).",
        )
    if len(declared.types) == 1 and not isinstance(declared.carrier, Bare):
        raise JobDefinitionError("key_by() got a key of one field.", action="Let the selector return the bare value.")
    names = _free_names(declared, columns)
    return Key(names, selector, StructType(names, declared.types, declared.carrier), declared)


def _types_of(names: tuple[str, ...], columns: StructType) -> tuple[Any, ...]:
    return tuple(columns.types[columns.names.index(name)] for name in names)


def _free_names(key: StructType, columns: StructType) -> tuple[str, ...]:
    """Returns names for computed key columns: `key`, or `key_` and the field's name. State tables have them too."""
    default_names = ["key"] if isinstance(key.carrier, Bare) else [f"key_{name}" for name in key.names]
    used = {name.lower() for name in columns.names} | RESERVED
    free = []
    for name in default_names:
        while name.lower() in used:
            name += "_"
        free.append(name)
    return tuple(free)


# Which fields a selector picks --------------------------------------------------------------------------------------


class _NotPicked(Exception):
    """The selector does more with the element than pick fields."""


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise _NotPicked


_COMPARED = ("__eq__", "__ne__", "__hash__", "__bool__", "__str__", "__repr__", "__format__", "__iter__", "__len__")


class _Field:
    """Placeholder for a field of an element; a selector may only return it."""

    def __init__(self, name: str) -> None:
        self.name = name


class _Element:
    """Placeholder for an element."""

    def __init__(self, columns: StructType) -> None:
        object.__setattr__(self, "_columns", columns)

    def __getitem__(self, index: Any) -> _Field:
        names = object.__getattribute__(self, "_columns").names
        if type(index) is int and -len(names) <= index < len(names):
            return _Field(names[index])
        if type(index) is str and index in names:
            return _Field(index)
        raise _NotPicked

    def __getattribute__(self, name: str) -> Any:
        if name in object.__getattribute__(self, "_columns").names:
            return _Field(name)
        raise _NotPicked


for _method in _COMPARED:
    setattr(_Field, _method, _refuse)
    setattr(_Element, _method, _refuse)


def _picked(selector: Selector, columns: StructType) -> tuple[str, ...] | None:
    """Returns the columns that a selector picks; None if it does anything else."""
    call: Any = selector.get_key if isinstance(selector, KeySelector) else selector
    if not _only_picks(call):
        return None
    bare = isinstance(columns.carrier, Bare)
    element = _Field(columns.names[0]) if bare else _Element(columns)
    try:
        key = call(element)
    except Exception:  # the selector does something that a placeholder does not support
        return None
    if bare:
        return (columns.names[0],) if key is element else None
    fields = key if type(key) is tuple else (key,)
    if not all(type(field) is _Field for field in fields) or (type(key) is tuple and len(key) == 1):
        return None
    names = tuple(object.__getattribute__(field, "name") for field in fields)
    return names if len(set(names)) == len(names) else None


def _only_picks(call: Any) -> bool:
    """Returns whether a function has one code path for all elements, and makes no calls that might branch."""
    if isinstance(call, (itemgetter, attrgetter)):
        return True
    code: Any = getattr(getattr(call, "__func__", call), "__code__", None)
    if not isinstance(code, CodeType) or code.co_exceptiontable:
        return False
    jumps = {*dis.hasjrel, *dis.hasjabs}
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if instruction.opcode in jumps or name.startswith(("CALL", "YIELD", "STORE_ATTR", "STORE_GLOBAL", "IS_OP")):
            return False
    return True


__all__ = ["Key", "Selector", "key_of"]
