"""What an author declares about earlier types of a state: aliases, defaults, functions (docs/schema-evolution.md).

Fields are named by their path from the value down: `price`, `address.zip`, and through collections
`lines.element.price`, `by_day.value.price`. Names that are not plain identifiers are quoted in back-ticks, as in DDL.
"""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from state_engine.api.types import CodecType, ListType, MapType, StructType, TypeInformation, quote

_ALIASES = "lakestate.aliases"


class Migration(NamedTuple):
    """A function that converts values of an earlier type to values of the current type."""

    old_type: TypeInformation
    function: Callable[[Any], Any]


@dataclass
class StateChanges:
    """Everything that a descriptor declares about earlier types.

    Attributes:
        aliases: Former names of fields, by path.
        defaults: Values of fields that older values lack, by path.
        migrations: Functions, one per earlier type.
    """

    aliases: dict[str, tuple[str, ...]] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)
    migrations: list[Migration] = field(default_factory=list)


def alias(*old_names: str) -> dict[str, tuple[str, ...]]:
    """Returns metadata for a dataclass field that had other names before: `field(metadata=alias("cost"))`."""
    return {_ALIASES: old_names}


class Field(NamedTuple):
    """A field of a type, at any depth; `aliases` and `default` come from its dataclass."""

    path: str
    type_info: TypeInformation
    aliases: tuple[str, ...]
    default: Any


NO_DEFAULT: Any = dataclasses.MISSING


def fields_of(type_info: TypeInformation, path: str = "") -> Iterator[Field]:
    """Yields all fields of a type, outer ones first. Fields in map keys are left out, since they cannot change."""
    match type_info:
        case ListType(element):
            yield from fields_of(element, join_path(path, "element"))
        case MapType(_, value):
            yield from fields_of(value, join_path(path, "value"))
        case CodecType():
            yield from fields_of(type_info.columns, path)
        case StructType(names, types, carrier):
            declared = {f.name: f for f in dataclasses.fields(carrier)} if dataclasses.is_dataclass(carrier) else {}
            for name, kind in zip(names, types, strict=True):
                field_path = join_path(path, quote(name))
                declaration = declared.get(name)
                yield Field(field_path, kind, _aliases(declaration), _default(declaration))
                yield from fields_of(kind, field_path)


def join_path(path: str, part: str) -> str:
    """Returns the path of a part of the field at `path`."""
    return f"{path}.{part}" if path else part


def _aliases(known: "dataclasses.Field[Any] | None") -> tuple[str, ...]:
    return tuple(known.metadata.get(_ALIASES, ())) if known is not None else ()


def _default(known: "dataclasses.Field[Any] | None") -> Any:
    """Returns a field's default in its dataclass; of factories only `list` and `dict`, which always return the same."""
    if known is None:
        return NO_DEFAULT
    factory = known.default_factory
    default = factory() if factory is list or factory is dict else known.default
    # A class that was pickled by value has its own copy of `MISSING`, also in the process that pickled it.
    return NO_DEFAULT if isinstance(default, type(dataclasses.MISSING)) else default


__all__ = ["NO_DEFAULT", "Field", "Migration", "StateChanges", "alias", "fields_of", "join_path"]
