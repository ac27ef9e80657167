"""How a type may change, and how a column is converted then: from Arrow to Arrow, without Python per value.

| from | to |
|---|---|
| tinyint, smallint, int, bigint | a wider one of these; decimal with room for all its digits |
| tinyint, smallint | float, double |
| int | double |
| float | double |
| decimal | decimal with as many digits or more on both sides of the point |
| date | timestamp_ntz, at midnight |
| array, map | the same, with elements, or values, changed by these rules |
| struct | fields added, left out, reordered, renamed by an alias, changed by these rules; at least one stays |

Everything else is refused: changes that could lose a digit or need a time zone, and changes of a map's keys.
"""

import io
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state_engine.api.evolution import join_path
from state_engine.api.type_hints import parse_ddl
from state_engine.api.types import AtomicType, DecimalType, ListType, MapType, StructType, TypeInformation, quote
from state_engine.serialization.convert import writer
from state_engine.serialization.types import to_arrow

Convert = Callable[[Any], Any]
Paths = tuple[tuple[str, tuple[str, ...]], ...]
Defaults = tuple[tuple[str, bytes], ...]

_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_WIDER = {
    "tinyint": {"smallint", "int", "bigint", "float", "double"},
    "smallint": {"int", "bigint", "float", "double"},
    "int": {"bigint", "double"},
    "float": {"double"},
    "date": {"timestamp_ntz"},
}
_WHY = {
    ("date", "timestamp"): "midnight is not the same moment everywhere",
    ("bigint", "double"): "a double does not hold all 64 bits",
    ("int", "float"): "a float does not hold all 32 bits",
}


class IncompatibleTypesError(Exception):
    """A type may not become another one.

    Attributes:
        path: The field, empty for the value itself.
        old: The old type.
        new: The new type.
        why: The reason, empty if there is simply no rule.
    """

    def __init__(self, path: str, old: TypeInformation, new: TypeInformation, why: str = "") -> None:
        super().__init__(f"{path or 'value'} was {old}, is {new}{f' ({why})' if why else ''}")
        self.path = path
        self.old = old
        self.new = new
        self.why = why


class Conversion(NamedTuple):
    """How columns of one type become columns of another.

    Attributes:
        convert: From an Arrow array to an Arrow array; nulls stay nulls.
        renamed: The former names of fields by path, if an alias was needed to find the field.
        defaults: Values of added fields by path, if they were declared.
        dropped: Fields of the old type that the new one does not have, by path.
    """

    convert: Convert
    renamed: dict[str, str]
    defaults: dict[str, bytes]
    dropped: tuple[str, ...]


def conversion(
    old: TypeInformation,
    new: TypeInformation,
    aliases: Mapping[str, tuple[str, ...]] | None = None,
    defaults: Mapping[str, bytes] | None = None,
) -> Conversion:
    """Returns the conversion from one type to another.

    Args:
        old: The type of the existing values.
        new: The type that they get.
        aliases: Former names of fields of `new`, by path.
        defaults: Values of added fields, encoded by `encode_default`, by path.

    Raises:
        IncompatibleTypesError: No conversion exists.
    """
    planner = _Planner(aliases or {}, defaults or {})
    return Conversion(planner.plan(old, new, ""), planner.renamed, planner.used, tuple(planner.dropped))


@lru_cache(maxsize=1024)
def conversion_of_ddl(old: str, new: str, aliases: Paths, defaults: Defaults) -> Convert:
    """Returns `conversion(…).convert` for types in DDL, and caches it."""
    return conversion(parse_ddl(old), parse_ddl(new), dict(aliases), dict(defaults)).convert


def encode_default(type_info: TypeInformation, value: Any) -> bytes:
    """Returns one value as an Arrow IPC stream of one row, as a manifest stores it.

    Raises:
        ValueTypeError: The value does not fit the type.
    """
    array = writer(type_info)([value])
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, pa.schema([pa.field("default", array.type)])) as out:
        out.write_batch(pa.record_batch([array], names=["default"]))
    return sink.getvalue()


class _Planner:
    """Builds a conversion from the outside in; records which aliases and defaults it used, and what it dropped."""

    def __init__(self, aliases: Mapping[str, tuple[str, ...]], defaults: Mapping[str, bytes]) -> None:
        self._aliases = aliases
        self._defaults = defaults
        self.renamed: dict[str, str] = {}
        self.used: dict[str, bytes] = {}
        self.dropped: list[str] = []

    def plan(self, old: TypeInformation, new: TypeInformation, path: str) -> Convert:
        if old == new:
            return _same
        match old, new:
            case ListType(a), ListType(b):
                return _lists(self.plan(a, b, join_path(path, "element")), to_arrow(new))
            case MapType(k, a), MapType(j, b):
                if k != j:
                    raise IncompatibleTypesError(join_path(path, "key"), k, j, "keys of a map stay as they are")
                return _maps(self.plan(a, b, join_path(path, "value")), to_arrow(new))
            case StructType(), StructType():
                return self._struct(old, new, path)
        if not widens(old, new):
            raise IncompatibleTypesError(path, old, new, _WHY.get((old.ddl(), new.ddl()), ""))
        target = to_arrow(new)
        return lambda array: array.cast(target)

    def _struct(self, old: StructType, new: StructType, path: str) -> Convert:
        places = self._places(old, new, path)
        if all(place is None for place in places):
            raise IncompatibleTypesError(path, old, new, "no field of the old type is left")
        dropped = [name for place, name in enumerate(old.names) if place not in places]
        self.dropped.extend(join_path(path, quote(name)) for name in dropped)
        parts: list[Convert] = []
        for name, kind, place in zip(new.names, new.types, places, strict=True):
            here = join_path(path, quote(name))
            if place is not None:
                parts.append(_field(place, self.plan(old.types[place], kind, here)))
                continue
            default = self._defaults.get(here)
            if default is not None:
                self.used[here] = default
            parts.append(_filled(kind, default))
        return _structs(parts, to_arrow(new))

    def _places(self, old: StructType, new: StructType, path: str) -> list[int | None]:
        """Returns the place of each new field among the old ones: by name, then by name without case, then by alias."""
        exact = {name: place for place, name in enumerate(old.names)}
        folded = {name.lower(): place for place, name in enumerate(old.names)}
        places = [exact.get(name, folded.get(name.lower())) for name in new.names]
        taken = {place for place in places if place is not None}
        for index, name in enumerate(new.names):
            if places[index] is not None:
                continue
            here = join_path(path, quote(name))
            candidates = [folded[a.lower()] for a in self._aliases.get(here, ()) if a.lower() in folded]
            matches = list(dict.fromkeys(place for place in candidates if place not in taken))
            if len(matches) > 1:
                both = " and ".join(old.names[place] for place in matches)
                raise IncompatibleTypesError(path, old, new, f"{name} may be {both}, which both exist")
            if matches:
                places[index] = matches[0]
                taken.add(matches[0])
                self.renamed[here] = old.names[matches[0]]
        return places


def widens(old: TypeInformation, new: TypeInformation) -> bool:
    """Returns whether every value of one type without parts is a value of another."""
    match old, new:
        case AtomicType(a), AtomicType(b):
            return b in _WIDER.get(a, ())
        case AtomicType(a), DecimalType(precision, scale):
            return a in _DIGITS and precision - scale >= _DIGITS[a]
        case DecimalType(p, s), DecimalType(precision, scale):
            return scale >= s and precision - scale >= p - s
    return False


def _same(array: Any) -> Any:
    return array


def _field(place: int, convert: Convert) -> Convert:
    return lambda struct: convert(struct.flatten()[place])


def _filled(kind: TypeInformation, default: bytes | None) -> Convert:
    target: Any = to_arrow(kind)
    if default is None:
        return lambda struct: pa.nulls(len(struct), target)
    with pa.ipc.open_stream(pa.py_buffer(default)) as stream:
        value: Any = stream.read_all().column(0).combine_chunks().cast(target)
    return lambda struct: value.take(pa.array(np.zeros(len(struct), np.int64)))


def _structs(parts: list[Convert], target: Any) -> Convert:
    def convert(array: Any) -> Any:
        mask = pc.is_null(array) if array.null_count else None
        return pa.StructArray.from_arrays([part(array) for part in parts], fields=list(target), mask=mask)

    return convert


def _lists(part: Convert, target: Any) -> Convert:
    def convert(array: Any) -> Any:
        array, offsets, (start, length), mask = _spans(array)
        return pa.ListArray.from_arrays(offsets, part(array.values.slice(start, length)), type=target, mask=mask)

    return convert


def _maps(part: Convert, target: Any) -> Convert:
    def convert(array: Any) -> Any:
        array, offsets, (start, length), mask = _spans(array)
        keys, items = array.keys.slice(start, length), part(array.items.slice(start, length))
        return pa.MapArray.from_arrays(offsets, keys, items, type=target, mask=mask)

    return convert


def _spans(array: Any) -> tuple[Any, Any, tuple[int, int], Any]:
    """Returns an array of lists, its offsets from 0 on, the range of elements it uses, and which lists are null."""
    mask = None
    if array.null_count:
        mask = pc.is_null(array)
        array = array.take(pa.array(np.arange(len(array))))  # a null list may have had elements
    offsets = array.offsets.to_numpy(zero_copy_only=False)
    start = int(offsets[0]) if len(offsets) else 0
    moved = pa.array((offsets - start).astype(np.int32)) if len(offsets) else pa.array([0], pa.int32())
    return array, moved, (start, int(offsets[-1]) - start if len(offsets) else 0), mask


__all__ = [
    "Conversion",
    "IncompatibleTypesError",
    "conversion",
    "conversion_of_ddl",
    "encode_default",
    "widens",
]
