"""Hypothesis strategies: types that state can have, and their values."""

import datetime
import decimal
from typing import Any

from hypothesis import strategies as st

from state_engine.api.row import row_class
from state_engine.api.types import (
    ATOMS,
    KEY_ATOMS,
    AtomicType,
    DecimalType,
    ListType,
    MapType,
    StructType,
    TypeInformation,
)

_NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=6)
_DIGITS = decimal.Context(prec=77)
_ATOMS: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-(1 << 7), (1 << 7) - 1),
    "smallint": st.integers(-(1 << 15), (1 << 15) - 1),
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "bigint": st.integers(-(1 << 63), (1 << 63) - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "string": st.text(st.characters(codec="utf-8"), max_size=8),
    "binary": st.binary(max_size=8),
    "date": st.dates(),
    "timestamp": st.datetimes(timezones=st.just(datetime.UTC)),
    "timestamp_ntz": st.datetimes(),
}


def decimal_types() -> st.SearchStrategy[TypeInformation]:
    """Returns a strategy for decimal types of any precision and scale."""
    return st.integers(1, 38).flatmap(lambda p: st.builds(DecimalType, st.just(p), st.integers(0, p)))


def key_types() -> st.SearchStrategy[TypeInformation]:
    """Returns a strategy for types of key columns."""
    return st.one_of(st.sampled_from(sorted(KEY_ATOMS)).map(AtomicType), decimal_types())


def types(*, carriers: bool = True) -> st.SearchStrategy[TypeInformation]:
    """Returns a strategy for all types that state can have, nested ones included.

    Args:
        carriers: Whether structs may be tuples as well as rows.
    """
    atoms = st.one_of(st.sampled_from(sorted(ATOMS)).map(AtomicType), decimal_types())
    keys = st.one_of(key_types(), key_types().map(lambda t: StructType(("k",), (t,))))

    def nested(inner: st.SearchStrategy[TypeInformation]) -> st.SearchStrategy[TypeInformation]:
        return st.one_of(st.builds(ListType, inner), st.builds(MapType, keys, inner), structs(inner, carriers=carriers))

    return st.recursive(atoms, nested, max_leaves=5)


def structs(inner: st.SearchStrategy[TypeInformation], *, carriers: bool = True) -> st.SearchStrategy[StructType]:
    """Returns a strategy for structs of one to three fields, with names that are unusual in Spark or Python."""

    def build(names: list[str]) -> st.SearchStrategy[StructType]:
        carrier = st.sampled_from([None, tuple] if carriers else [None])
        fields = st.tuples(*(inner for _ in names))
        return st.builds(StructType, st.just(tuple(names)), fields, carrier)

    return st.lists(_NAMES, min_size=1, max_size=3, unique_by=str.lower).flatmap(build)


def values(type_info: TypeInformation, *, nullable: bool = True) -> st.SearchStrategy[Any]:
    """Returns a strategy for values of a type as a state returns them.

    With `nullable` they include None at each level, except in the keys of maps.
    """
    match type_info:
        case AtomicType(name):
            strategy = _ATOMS[name]
        case DecimalType(precision, scale):
            bound = 10**precision - 1
            strategy = st.integers(-bound, bound).map(lambda n: decimal.Decimal(n).scaleb(-scale, _DIGITS))
        case ListType(element):
            strategy = st.lists(values(element), max_size=3)
        case MapType(key, value):
            strategy = st.dictionaries(values(key, nullable=False), values(value), max_size=3)
        case StructType(names, fields, carrier):
            make: Any = (lambda *row: row) if carrier is tuple else row_class(names)
            strategy = st.builds(make, *(values(field) for field in fields))
        case _:
            raise TypeError(type_info)
    return st.one_of(st.none(), strategy) if nullable else strategy


__all__ = ["decimal_types", "key_types", "structs", "types", "values"]
