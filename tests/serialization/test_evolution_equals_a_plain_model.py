"""Random types, changed at random in allowed ways: columns are converted as plain Python converts values."""

import decimal
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from state_engine.api.evolution import join_path
from state_engine.api.types import AtomicType, DecimalType, ListType, MapType, StructType, TypeInformation, quote
from state_engine.serialization.convert import reader, writer
from state_engine.serialization.evolution import conversion, encode_default
from state_engine.testing.strategies import structs, types, values

WIDER = {
    "tinyint": ["smallint", "int", "bigint", "float", "double", "decimal"],
    "smallint": ["int", "bigint", "float", "double", "decimal"],
    "int": ["bigint", "double", "decimal"],
    "bigint": ["decimal"],
    "float": ["double"],
    "date": ["timestamp_ntz"],
}


class Case(NamedTuple):
    """A type, the changed type, the code's description of it, and the plain function that does the same."""

    old: TypeInformation
    new: TypeInformation
    aliases: dict[str, tuple[str, ...]]
    defaults: dict[str, bytes]
    values: list[Any]
    expected: list[Any]


def widened(value: Any, new: TypeInformation) -> Any:
    if value is None:
        return None
    if isinstance(new, DecimalType):
        return decimal.Decimal(value).quantize(decimal.Decimal(1).scaleb(-new.scale), context=decimal.Context(prec=77))
    if new == AtomicType("timestamp_ntz"):
        import datetime

        return datetime.datetime(value.year, value.month, value.day)
    return float(value) if new in (AtomicType("float"), AtomicType("double")) else value


class Evolver:
    """Draws a change of a type; `model` then converts a value."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.aliases: dict[str, tuple[str, ...]] = {}
        self.defaults: dict[str, bytes] = {}

    def change(self, old: TypeInformation, path: str) -> tuple[TypeInformation, Any]:
        match old:
            case ListType(element):
                inner, convert = self.change(element, join_path(path, "element"))
                return ListType(inner), lambda v: None if v is None else [convert(x) for x in v]
            case MapType(key, value):
                inner, convert = self.change(value, join_path(path, "value"))
                return MapType(key, inner), lambda v: None if v is None else {k: convert(x) for k, x in v.items()}
            case StructType():
                return self.struct(old, path)
            case AtomicType(name) if name in WIDER and self.draw(st.booleans()):
                wider = self.draw(st.sampled_from(WIDER[name]))
                new: TypeInformation = DecimalType(21, 2) if wider == "decimal" else AtomicType(wider)
                return new, lambda v: widened(v, new)
            case DecimalType(precision, scale) if precision < 38 and self.draw(st.booleans()):
                more = self.draw(st.integers(0, 38 - precision))
                decimals = self.draw(st.integers(0, more))
                return (wider := DecimalType(precision + more, scale + decimals)), lambda v: widened(v, wider)
        return old, lambda v: v

    def struct(self, old: StructType, path: str) -> tuple[StructType, Any]:
        draw = self.draw
        kept = draw(st.permutations(range(len(old.names))))[draw(st.integers(0, len(old.names) - 1)) :]
        fields: list[tuple[str, TypeInformation, Any]] = []
        for place in kept:
            name = old.names[place]
            if draw(st.booleans()):
                name = f"renamed_{place}"
                self.aliases[join_path(path, name)] = ("never there", old.names[place])
            kind, convert = self.change(old.types[place], join_path(path, quote(name)))
            fields.append((name, kind, lambda row, place=place, convert=convert: convert(row[place])))
        if draw(st.booleans()):
            kind = draw(types(carriers=False))
            default = draw(values(kind))
            if default is not None:
                self.defaults[join_path(path, "a_new_field")] = encode_default(kind, default)
            fields.insert(draw(st.integers(0, len(fields))), ("a_new_field", kind, lambda _, default=default: default))
        new = StructType(tuple(f[0] for f in fields), tuple(f[1] for f in fields), carrier=tuple)
        return new, lambda v: None if v is None else tuple(field[2](tuple(v)) for field in fields)


@st.composite
def cases(draw: Any) -> Case:
    old = draw(structs(types(carriers=False)))
    evolver = Evolver(draw)
    new, model = evolver.change(old, "")
    given_values = draw(st.lists(values(old), min_size=1, max_size=4))
    return Case(old, new, evolver.aliases, evolver.defaults, given_values, [model(v) for v in given_values])


@given(cases())
def test_columns_are_converted_as_plain_python_does_it(case: Case) -> None:
    way = conversion(case.old, case.new, case.aliases, case.defaults)
    made = way.convert(writer(case.old)(case.values))
    made.validate(full=True)
    assert made.equals(writer(case.new)(case.expected))
    assert reader(case.new)(made) == reader(case.new)(writer(case.new)(case.expected))
