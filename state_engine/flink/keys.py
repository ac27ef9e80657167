"""From PyFlink's key selectors to key columns.

A selector that only picks fields costs nothing: it is called once, with a stand-in that notes what it reads, and the
fields become the key columns. Any other selector runs for each record, and what it gives becomes columns.
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
        selector: What computes them; None where they are fields of the elements.
        computed: The columns that it computes, and how its result holds them.
        given: The same with the names that the fields of its result have.
        is_all: Whether all elements have one key, whose column no element has.
    """

    names: tuple[str, ...]
    selector: Any = None
    computed: StructType | None = None
    given: StructType | None = None
    is_all: bool = False


def key_of(selector: Selector, key_type: Any, columns: StructType) -> Key:
    """Returns the key that a selector gives.

    Args:
        selector: The author's.
        key_type: Its type, if the author declared it.
        columns: Those of the elements.

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
            action="Declare what it gives: key_by(selector, key_type=Types.INT()).",
        )
    if len(declared.types) == 1 and not isinstance(declared.carrier, Bare):
        raise JobDefinitionError("key_by() got a key of one field.", action="Let the selector return the bare value.")
    names = _free_names(declared, columns)
    return Key(names, selector, StructType(names, declared.types, declared.carrier), declared)


def _types_of(names: tuple[str, ...], columns: StructType) -> tuple[Any, ...]:
    return tuple(columns.types[columns.names.index(name)] for name in names)


def _free_names(key: StructType, columns: StructType) -> tuple[str, ...]:
    """Names for computed key columns: `key`, or those of its fields behind `key_`; state tables have them too."""
    wanted = ["key"] if isinstance(key.carrier, Bare) else [f"key_{name}" for name in key.names]
    taken = {name.lower() for name in columns.names} | RESERVED
    free = []
    for name in wanted:
        while name.lower() in taken:
            name += "_"
        free.append(name)
    return tuple(free)


# Which fields a selector picks --------------------------------------------------------------------------------------


class _NotPicked(Exception):
    """The selector does something else with the element."""


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise _NotPicked


_COMPARED = ("__eq__", "__ne__", "__hash__", "__bool__", "__str__", "__repr__", "__format__", "__iter__", "__len__")


class _Field:
    """Stands for a field of an element; everything but handing it on is refused."""

    def __init__(self, name: str) -> None:
        self.name = name


class _Element:
    """Stands for an element."""

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
    except Exception:  # it does what a field cannot do
        return None
    if bare:
        return (columns.names[0],) if key is element else None
    found = key if type(key) is tuple else (key,)
    if not all(type(field) is _Field for field in found) or (type(key) is tuple and len(key) == 1):
        return None
    names = tuple(object.__getattribute__(field, "name") for field in found)
    return names if len(set(names)) == len(names) else None


def _only_picks(call: Any) -> bool:
    """Says whether a function goes one way for every element, and calls nothing that might not."""
    if isinstance(call, (itemgetter, attrgetter)):
        return True
    code: Any = getattr(getattr(call, "__func__", call), "__code__", None)
    if not isinstance(code, CodeType) or code.co_exceptiontable:
        return False
    ways = {*dis.hasjrel, *dis.hasjabs}
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if instruction.opcode in ways or name.startswith(("CALL", "YIELD", "STORE_ATTR", "STORE_GLOBAL", "IS_OP")):
            return False
    return True


__all__ = ["Key", "Selector", "key_of"]
