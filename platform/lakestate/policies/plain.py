"""Builds policies from plain values, as YAML has them: mappings, lists, texts, numbers.

The dataclass of a policy is the only definition of its fields. A length of time is a text such as `10 min`; a field
`grace_ms` is called `grace` here. If a policy has several classes, `strategy` chooses one. An error for a wrong value
contains the path to it.
"""

import dataclasses
import difflib
import enum
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING
from datetime import timedelta
from typing import Any, Literal, NamedTuple, TypeVar, Union

from lakestate.durations import duration_of
from state_engine.errors import JobDefinitionError, LakestateError

T = TypeVar("T")
Path = tuple[str | int, ...]

_SCALARS = {
    bool: ("true or false", (bool,)),
    int: ("a whole number", (int,)),
    float: ("a number", (int, float)),
    str: ("a text", (str,)),
}


class PolicyError(JobDefinitionError):
    """A value that a policy cannot have; `path` is where it is in the file."""

    def __init__(self, message: str, *, action: str = "", path: Path = ()) -> None:
        super().__init__(message, action=action)
        self.path = path


class _Field(NamedTuple):
    attribute: str
    type: Any
    default: Any
    """`dataclasses.MISSING` if a value has to be given."""


def policy_from(default: T, given: object, path: Path = ()) -> T:
    """Returns a policy, a dataclass, changed by a mapping; fields that are not in the mapping keep their values.

    Args:
        default: The policy without the mapping.
        given: The mapping; None is an empty one.
        path: Where the mapping is in the file, for messages.

    Raises:
        PolicyError: A name or a value that the policy cannot have.
    """
    changed: T = _record(type(default), default, given, path)
    return changed


def _record(kind: Any, default: Any, given: object, path: Path) -> Any:
    """Returns a dataclass: the default changed by the given values; without a default, one made of them."""
    given = {} if given is None else given
    if not isinstance(given, Mapping):
        raise _refused(given, path, f"settings: {', '.join(_fields(kind, None))}")
    strategies = {one.strategy: one for one in kind.__subclasses__()}
    if strategies:
        return _strategy(kind, strategies, default, given, path)
    fields = _fields(kind, default if isinstance(default, kind) else None)
    for name in given:
        if name not in fields:
            raise _unknown(str(name), list(fields), path)
    missing = [name for name, field in fields.items() if field.default is MISSING and name not in given]
    if missing:
        raise PolicyError(f"{_where(path)} lacks {', '.join(missing)}.", action="Add what is missing.", path=path)
    values = {field.attribute: field.default for field in fields.values() if field.default is not MISSING}
    for name, value in given.items():
        field = fields[name]
        values[field.attribute] = _value(field.type, field.default, value, (*path, name))
    try:
        return kind(**values)
    except LakestateError as error:
        raise PolicyError(f"{_where(path)}: {error.message}", action=error.action, path=path) from error


def _strategy(base: Any, strategies: Mapping[str, Any], default: Any, given: Mapping[str, Any], path: Path) -> Any:
    """Returns a dataclass of the class that `strategy` names, if a policy has several; without it, the default's.

    If there is no default either, it is the class that the base calls its default.
    """
    without = default.strategy if default is not None else base.default_strategy
    name = given.get("strategy", without)
    kind = _one_of(strategies, name, (*path, "strategy"))
    others = {name: value for name, value in given.items() if name != "strategy"}
    return _record(kind, default, others, path)


def _fields(kind: Any, default: object) -> dict[str, _Field]:
    """Returns the fields of a dataclass by their names in YAML, where a field in ms is a length of time."""
    types_of, fields = typing.get_type_hints(kind), {}
    for field in dataclasses.fields(kind):
        value = field.default if field.default_factory is MISSING else field.default_factory()
        value = value if default is None else getattr(default, field.name)
        hint = types_of[field.name]
        if field.name.endswith("_ms"):
            hint = _Milliseconds | None if types.NoneType in typing.get_args(hint) else _Milliseconds
        fields[field.name.removesuffix("_ms")] = _Field(field.name, hint, value)
    return fields


class _Milliseconds:
    """The type of a number of milliseconds that is given as a length of time."""


def _value(kind: Any, default: Any, given: object, path: Path) -> Any:
    """Returns a value of a type."""
    if dataclasses.is_dataclass(kind):
        return _record(kind, default, given, path)
    if kind in (timedelta, _Milliseconds):
        milliseconds = _duration(given, path)
        return milliseconds if kind is _Milliseconds else timedelta(milliseconds=milliseconds)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        return _optional(arguments, default, given, path)
    if origin in (tuple, list, frozenset):
        return origin(_items(arguments[0], given, path))
    if origin is Literal:
        return _one_of({str(value): value for value in arguments}, given, path)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _one_of({str(member.value): member for member in kind}, given, path)
    what, accepted = _SCALARS[kind]
    if not isinstance(given, accepted) or (isinstance(given, bool) and kind is not bool):
        raise _refused(given, path, what)
    return given


def _optional(arguments: tuple[Any, ...], default: Any, given: object, path: Path) -> Any:
    if given is None and types.NoneType in arguments:
        return None
    (kind,) = (argument for argument in arguments if argument is not types.NoneType)
    return _value(kind, default, given, path)


def _items(kind: Any, given: object, path: Path) -> list[Any]:
    if not isinstance(given, (list, tuple)):
        raise _refused(given, path, "a list")
    return [_value(kind, None, item, (*path, number)) for number, item in enumerate(given)]


def _one_of(choices: Mapping[str, Any], given: object, path: Path) -> Any:
    if not isinstance(given, (str, int)) or str(given) not in choices:
        raise _refused(given, path, f"one of {', '.join(choices)}")
    return choices[str(given)]


def _duration(given: object, path: Path) -> int:
    try:
        if isinstance(given, str):
            return duration_of(given)
    except JobDefinitionError as error:
        raise _refused(given, path, "a length of time such as 30s, 10 min, 12h or 7d") from error
    raise _refused(given, path, "a length of time with its unit, such as 30s, 10 min, 12h or 7d")


def _where(path: Path) -> str:
    return ".".join(map(str, path)) or "The given value"


def _refused(given: object, path: Path, wanted: str) -> PolicyError:
    return PolicyError(f"{_where(path)} is {given!r}.", action=f"Give {wanted}.", path=path)


def _unknown(name: str, known: list[str], path: Path) -> PolicyError:
    close = difflib.get_close_matches(name, known, n=1)
    meant = f"Did you mean {close[0]}? " if close else ""
    return PolicyError(
        f"{_where((*path, name))} is not a setting.",
        action=f"{meant}The settings are {', '.join(known)}.",
        path=(*path, name),
    )


__all__ = ["Path", "PolicyError", "policy_from"]
