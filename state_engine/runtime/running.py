"""Running aggregations of one field per key: `sum`, `min`, `max`, `min_by`, `max_by`.

As in Flink, each record gives one row. `sum`, `min` and `max` keep the other fields of the key's first record. `min_by`
and `max_by` give the whole record that has the extreme, the first one of several. NaN is larger than every number.
"""

import decimal
import re
import struct as binary
from collections.abc import Callable, Iterable
from operator import add, attrgetter, itemgetter
from typing import Any, Literal

from state_engine.api.functions import ReduceFunction, RuntimeContext
from state_engine.api.row import row_class
from state_engine.api.types import INTEGERS, AtomicType, Carrier, DecimalType, StructType, TypeInformation
from state_engine.errors import JobDefinitionError
from state_engine.runtime.adapters import ReduceAdapter
from state_engine.serialization.rows import as_tuple, row_maker

RunningVerb = Literal["sum", "min", "max", "min_by", "max_by"]

_NUMBERS = INTEGERS | {"float", "double"}
_EXACT = decimal.Context(prec=77)  # Python's own would round sums to 28 digits


class RunningAdapter(ReduceAdapter):
    """Keeps one aggregated record per key, and emits it for each record.

    A null in the field stops the job at the record that has it. (Flink accepts a key's first null, and fails at the
    next record.)

    Args:
        verb: How to aggregate.
        field: Name or position of the field.
        struct: Columns of the records, and of the state.

    Raises:
        JobDefinitionError: There is no such field, or its type cannot be added or compared.
    """

    def __init__(self, verb: RunningVerb, field: int | str, struct: StructType) -> None:
        position = _position(verb, field, struct)
        self.verb = verb
        self._name = struct.names[position]
        self._field = _getter(struct, position)
        # Another aggregation or field has another state: a changed job must not continue from the wrong value.
        self.state_name = f"{verb}_{re.sub('[^A-Za-z0-9_.-]', '_', self._name)}"[:128]
        super().__init__(_FieldReduction(verb, position, struct), struct)

    @property
    def argument(self) -> str:
        return self._name

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        if self._field(value) is None:
            raise ValueError(
                f"the field {self._name!r} is null; before this operator, drop such records by where(), "
                "or replace the null"
            )
        return super().process_element(value, ctx)


class _FieldReduction(ReduceFunction):
    """Aggregates two records. Row classes are made per process, so `open` makes the reducer."""

    def __init__(self, verb: RunningVerb, position: int, struct: StructType) -> None:
        self._made_of = verb, position, struct

    def open(self, runtime_context: RuntimeContext) -> None:
        self._reduce = _reducer(*self._made_of)

    def reduce(self, value1: Any, value2: Any) -> Any:
        return self._reduce(value1, value2)


def _position(verb: RunningVerb, field: int | str, struct: StructType) -> int:
    """Returns the field's position; raises JobDefinitionError for a field that cannot be aggregated."""
    names, fields = struct.names, ", ".join(struct.names)
    if isinstance(field, bool) or not isinstance(field, (int, str)):
        raise JobDefinitionError(f"{verb}() got {field!r} for a field.", action="Give a name or a position.")
    if isinstance(field, str) and field not in names:
        raise JobDefinitionError(
            f"{verb}() got the field {field!r}; the stream has {fields}.",
            action="Check the spelling; names are case-sensitive here.",
        )
    if isinstance(field, int) and not 0 <= field < len(names):
        raise JobDefinitionError(
            f"{verb}() got the position {field}; the stream has {len(names)} fields: {fields}.",
            action=f"Give one from 0 to {len(names) - 1}, or a name.",
        )
    position = names.index(field) if isinstance(field, str) else field
    kind = struct.types[position]
    if not (_is_number(kind) if verb == "sum" else isinstance(kind, (AtomicType, DecimalType))):
        raise JobDefinitionError(
            f"{verb}() cannot aggregate the field {names[position]!r}: it is {kind}.",
            action="Give a field of numbers." if verb == "sum" else "Give a field whose values have an order.",
        )
    return position


def _is_number(kind: TypeInformation) -> bool:
    return isinstance(kind, DecimalType) or (isinstance(kind, AtomicType) and kind.name in _NUMBERS)


def _getter(struct: StructType, position: int) -> Callable[[Any], Any]:
    """Returns a function that reads a field of a record in the fastest way for the record's class."""
    if struct.carrier is tuple:
        return itemgetter(position)
    if isinstance(struct.carrier, Carrier):
        values = struct.carrier.values
        return lambda record: values(record)[position]
    if struct.carrier is None:
        return attrgetter(row_class(struct.names).__struct_fields__[position])
    return attrgetter(struct.names[position])


def _reducer(verb: RunningVerb, position: int, struct: StructType) -> Callable[[Any, Any], Any]:
    """Returns a function that makes a key's new record from the old one and the record that came."""
    field, better = _getter(struct, position), _less if verb in ("min", "min_by") else _greater
    make = row_maker(struct)

    def replaced(row: Any, value: Any) -> Any:
        values = as_tuple(row, struct)
        return make(*values[:position], value, *values[position + 1 :])

    if verb == "sum":
        plus = _addition(struct.types[position])
        return lambda old, new: replaced(old, plus(field(old), field(new)))
    if verb in ("min", "max"):
        return lambda old, new: replaced(old, field(new)) if better(field(new), field(old)) else old
    return lambda old, new: new if better(field(new), field(old)) else old


def _less(one: Any, other: Any) -> bool:
    return bool(one < other or (other != other and one == one))


def _greater(one: Any, other: Any) -> bool:
    return _less(other, one)


def _addition(kind: TypeInformation) -> Callable[[Any, Any], Any]:
    """Returns a function that adds two values in the field's type: the sum does not depend on where epochs end."""
    if isinstance(kind, DecimalType):
        return _EXACT.add
    return _add_floats if kind == AtomicType("float") else add


def _add_floats(one: float, other: float) -> float:
    return float(binary.unpack("<f", binary.pack("<f", one + other))[0])


__all__ = ["RunningAdapter", "RunningVerb"]
