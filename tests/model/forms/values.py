"""Types and values for trying programs, and one spelling for values that are the same.

Values are plain Python: a struct is a tuple, a map a dict. Half of them come from lists of edges, which are short, so
that keys and user keys repeat.
"""

import datetime
import decimal
import math
from typing import Any

from hypothesis import strategies as st

from state_engine.api.type_hints import parse_ddl
from state_engine.api.types import (
    INTEGERS,
    AtomicType,
    DecimalType,
    ListType,
    MapType,
    StructType,
    TypeInformation,
)
from state_engine.testing import strategies

_DIGITS = decimal.Context(prec=77)
_UTC = datetime.UTC
_MOMENTS = [
    datetime.datetime.min,
    datetime.datetime.max,
    datetime.datetime(1582, 10, 10, 1, 2, 3, 4),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999),
    datetime.datetime(2024, 3, 31, 2, 30),
]
_DOUBLES = [math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1.7976931348623157e308, 0.1, 9007199254740992.0]
_FLOATS = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.401298464324817e-45, 3.4028234663852886e38, 0.5]
EDGES: dict[str, list[Any]] = {
    "boolean": [False, True],
    **{name: [0, -1, -(1 << bits), (1 << bits) - 1] for name, bits in
       {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}.items()},
    "float": _FLOATS,
    "double": _DOUBLES,
    "string": ["", " ", "a", "A", "ß", "日本", "e\u0301", "\u00e9", "\U0001f40d", "\0", "/", "x" * 70],
    "binary": [b"", b"\0", b"\xff\xfe", b"a"],
    "date": [datetime.date.min, datetime.date.max, datetime.date(1582, 10, 10), datetime.date(1969, 12, 31)],
    "timestamp": [moment.replace(tzinfo=_UTC) for moment in _MOMENTS],
    "timestamp_ntz": _MOMENTS,
}  # fmt: skip
KEYS = [
    "string", "bigint", "int", "smallint", "tinyint", "boolean", "binary", "date", "timestamp", "timestamp_ntz",
    "decimal(38,0)", "decimal(38,38)", "decimal(5,2)",
]  # fmt: skip
NESTED = [
    "array<double>",
    "array<string>",
    "map<string,double>",
    "map<int,array<string>>",
    "struct<a:bigint,b:string>",
    "struct<at:timestamp,of:array<decimal(38,18)>>",
    "array<struct<x:double,y:map<string,bigint>>>",
    "array<array<date>>",
]
TYPES = [*KEYS, "float", "double", *NESTED]


def types(*, listed: bool = False) -> st.SearchStrategy[str]:
    """Types of state, as DDL: often one of the list, sometimes any, with names that Spark's DDL does not take."""
    if listed:
        return st.sampled_from(TYPES)
    return st.one_of(st.sampled_from(TYPES), strategies.types(carriers=False).map(lambda kind: kind.ddl()))


def values(ddl: str, *, nullable: bool = True) -> st.SearchStrategy[Any]:
    """Values of a type; with `nullable`, None too, at each level but the keys of maps."""
    strategy = _values(parse_ddl(ddl))
    return st.one_of(st.none(), strategy) if nullable else strategy


def _values(kind: TypeInformation) -> st.SearchStrategy[Any]:
    match kind:
        case AtomicType(name):
            return st.one_of(st.sampled_from(EDGES[name]), strategies.values(kind, nullable=False))
        case DecimalType(precision, scale):
            bound = 10**precision - 1
            digits = st.one_of(st.sampled_from([0, 1, -1, bound, -bound]), st.integers(-bound, bound))
            return digits.map(lambda n: decimal.Decimal(n).scaleb(-scale, _DIGITS))
        case ListType(element):
            return st.lists(_nullable(element), max_size=3)
        case MapType(key, value):
            return st.dictionaries(_values(key), _nullable(value), max_size=3)
        case StructType(_, fields):
            return st.tuples(*map(_nullable, fields))
    raise TypeError(kind)


def _nullable(kind: TypeInformation) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), _values(kind))


WIDER = {
    "tinyint": ["smallint", "bigint", "float", "double", "decimal(38,18)"],
    "smallint": ["int", "float", "decimal(5,0)"],
    "int": ["bigint", "double", "decimal(38,18)"],
    "bigint": ["decimal(38,0)", "decimal(38,18)"],
    "float": ["double"],
    "date": ["timestamp_ntz"],
    "decimal(5,2)": ["decimal(38,18)", "decimal(6,3)"],
    "array<array<date>>": ["array<array<timestamp_ntz>>"],
    "struct<a:bigint,b:string>": ["struct<b:string,c:double,a:decimal(38,0)>", "struct<a:bigint>"],
    "struct<at:timestamp,of:array<decimal(38,18)>>": ["struct<of:array<decimal(38,18)>,a:int,at:timestamp>"],
    "array<struct<x:double,y:map<string,bigint>>>": ["array<struct<y:map<string,decimal(20,1)>,x:double>>"],
}
"""What a later release may declare in place of a type (docs/schema-evolution.md)."""


def converted(old: TypeInformation, new: TypeInformation, value: Any) -> Any:
    """Returns a value of one type as a later release reads it."""
    if value is None:
        return None
    match old, new:
        case ListType(one), ListType(other):
            return [converted(one, other, element) for element in value]
        case MapType(_, one), MapType(_, other):
            return {key: converted(one, other, element) for key, element in value.items()}
        case StructType(names, fields), StructType(others, kinds):
            held = {name: (field, part) for name, field, part in zip(names, fields, value, strict=True)}
            return tuple(
                converted(held[name][0], kind, held[name][1]) if name in held else None
                for name, kind in zip(others, kinds, strict=True)
            )
        case AtomicType("date"), AtomicType("timestamp_ntz"):
            return datetime.datetime.combine(value, datetime.time())
    return value


def canonical(kind: TypeInformation, value: Any) -> Any:
    """Returns a value in a spelling that is equal, and hashes equally, if the value is the same.

    NaN is the same as NaN; 0.0 and -0.0 are different, since no form may change the one to the other.
    """
    if value is None:
        return None
    match kind:
        case AtomicType("float" | "double"):
            return f"double {float(value)!r}"
        case AtomicType(name) if name in INTEGERS:
            return int(value)
        case AtomicType("binary"):
            return bytes(value)
        case DecimalType(_, scale):
            places = decimal.Decimal(value).quantize(decimal.Decimal(1).scaleb(-scale), context=_DIGITS)
            return f"decimal {_DIGITS.add(places, 0)}"  # -0 is 0
        case ListType(element):
            return tuple(canonical(element, one) for one in value)
        case MapType(key, item):
            pairs = ((canonical(key, k), canonical(item, v)) for k, v in value.items())
            return ("map", *sorted(pairs, key=repr))
        case StructType(names, fields):
            parts = [value[name] for name in names] if isinstance(value, dict) else value
            return ("struct", *(canonical(field, one) for field, one in zip(fields, parts, strict=True)))
    return value


def spoil(value: Any) -> None:
    """Empties every mutable part of a value, at each level."""
    if isinstance(value, (list, tuple)):
        for one in value:
            spoil(one)
    elif isinstance(value, dict):
        for one in value.values():
            spoil(one)
    if isinstance(value, (list, dict)):
        value.clear()


__all__ = ["EDGES", "KEYS", "NESTED", "TYPES", "WIDER", "canonical", "converted", "spoil", "types", "values"]
