"""Programs over the states and timers of a key, as data: which states there are, and what a record does to them.

A record names one of the program's operations. An operation is a list of steps, and a step is one call of one state, or
a timer. Each state has its own columns in the record: `v0` is what is put into state 0, `u0` a user key of it, `c0` a
count; `at` is the time of a timer. What is read comes out in a row.
"""

from dataclasses import dataclass
from typing import Any

from commands import TTL

from state_engine.api import (
    AggregateFunction,
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ReduceFunction,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    Time,
    ValueStateDescriptor,
)
from state_engine.api.type_hints import parse_columns_ddl, parse_ddl
from state_engine.api.types import StructType, TypeInformation

WRITES = {
    "value": ["update", "clear"],
    "list": ["add", "add_all", "update", "clear"],
    "map": ["put", "remove", "clear"],
    "reduced": ["add", "clear"],
    "aggregated": ["add", "clear"],
}
READS = {
    "value": ["value"],
    "list": ["get"],
    "map": ["get", "contains", "items"],
    "reduced": ["get"],
    "aggregated": ["get"],
}
"""Calls of each shape of state. `update` of a list makes it a list of one, `add_all` adds a value twice."""
TIMERS = ["set event timer", "delete event timer", "set clock timer", "delete clock timer"]
FOLDS = ["first", "last"]


@dataclass(frozen=True)
class StateOf:
    """A state of a key.

    Attributes:
        shape: `value`, `list`, `map`, `reduced` or `aggregated`.
        type: Of what is put into it.
        user_key: Of a map, the type of its keys.
        fold: What a reducing state keeps: `first`, `last` or `sum`. An aggregating one collects everything.
        ttl: Its time to live: none, by the `clock`, or by `event` time; `clock reads` and `event reads` if reading
            counts, too.
    """

    shape: str
    type: str
    user_key: str = "string"
    fold: str = "last"
    ttl: str = ""

    @property
    def stored_type(self) -> str:
        """Type of one value in the state."""
        return f"array<{self.type}>" if self.shape == "aggregated" else self.type

    @property
    def read_type(self) -> str:
        """Type of all that the state holds."""
        match self.shape:
            case "list" | "aggregated":
                return f"array<{self.type}>"
            case "map":
                return f"array<struct<key:{self.user_key},value:{self.type}>>"
        return self.type


@dataclass(frozen=True)
class Step:
    """A call of a state, or of the timer service.

    Attributes:
        call: One of `WRITES`, `READS` or `TIMERS`.
        state: The number of the state.
    """

    call: str
    state: int = 0

    @property
    def of_timer(self) -> bool:
        return self.call in TIMERS


@dataclass(frozen=True)
class Program:
    """A keyed function.

    Attributes:
        key: Types of the key columns.
        states: The states.
        operations: The operations that records may name: steps, in order.
        on_timer: The operation of each timer: reads, and clears.
        rows: The type in which the row form emits its rows: `tuple`, `list`, `dict`, `Row`, or a `named tuple` with the
            fields in another order.
        spoils: Whether the row form changes what it stored and what it read, right after storing and reading.
        spoils_rows: Whether it changes the values of a row after the yield.
        numpy: Whether it stores NumPy's numbers in place of Python's.
    """

    key: tuple[str, ...]
    states: tuple[StateOf, ...]
    operations: tuple[tuple[Step, ...], ...]
    on_timer: tuple[Step, ...] = ()
    rows: str = "tuple"
    spoils: bool = False
    spoils_rows: bool = False
    numpy: bool = False

    @property
    def has_timers(self) -> bool:
        return any(step.of_timer for steps in self.operations for step in steps)

    @property
    def key_columns(self) -> list[str]:
        return [f"k{n}" for n in range(len(self.key))]

    @property
    def input(self) -> StructType:
        """Columns of the records."""
        states = [
            part for n, state in enumerate(self.states) for part in (f"v{n} {state.type}", f"u{n} {state.user_key}")
        ]
        return parse_columns_ddl(", ".join([*self._keys(), "n bigint", "operation int", "at bigint", *states]))

    @property
    def output(self) -> StructType:
        """Columns of the rows: key, number of the record or time of the timer, and what was read of each state."""
        states = [
            part
            for n, state in enumerate(self.states)
            for part in (f"r{n} {state.read_type}", f"g{n} {state.type}", f"c{n} boolean")
        ]
        return parse_columns_ddl(", ".join([*self._keys(), "n bigint", "what string", *states]))

    def _keys(self) -> list[str]:
        return [f"{name} {kind}" for name, kind in zip(self.key_columns, self.key, strict=True)]


def column_of(step: Step, state: StateOf) -> str:
    """Returns the letter of the output column that a read goes to."""
    if state.shape == "map" and step.call == "get":
        return "g"
    return "c" if step.call == "contains" else "r"


def reads(step: Step) -> bool:
    """Reports whether a step returns something."""
    return step.call in ("value", "get", "items", "contains")


def gives_row(steps: tuple[Step, ...]) -> bool:
    """Reports whether an operation emits a row."""
    return any(map(reads, steps))


def goes_aside(steps: tuple[Step, ...]) -> bool:
    """Reports whether the row of an operation goes to the side output: if the operation only checks for existence."""
    return all(step.call == "contains" for step in steps if reads(step))


def aside(program: Program) -> OutputTag:
    """Returns the side output of a program."""
    return OutputTag("aside", program.output)


class Fold(ReduceFunction):
    """Keeps the first or the last value, or the sum."""

    def __init__(self, fold: str) -> None:
        self.fold = fold

    def reduce(self, value1: Any, value2: Any) -> Any:
        if self.fold == "sum":
            return value1 + value2
        return value1 if self.fold == "first" else value2


class Collect(AggregateFunction):
    """Keeps all values, in a list that it changes in place and hands out."""

    def create_accumulator(self) -> list[Any]:
        return []

    def add(self, value: Any, accumulator: list[Any]) -> list[Any]:
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: list[Any]) -> list[Any]:
        return accumulator

    def merge(self, acc_a: list[Any], acc_b: list[Any]) -> list[Any]:
        return acc_a + acc_b


def descriptor_of(state: StateOf, number: int, reduce_function: ReduceFunction | None = None) -> StateDescriptor:
    """Returns the descriptor of a state; its name contains its shape and its number."""
    name, kind = f"{state.shape}_{number}", parse_ddl(state.type)
    descriptor: StateDescriptor
    match state.shape:
        case "value":
            descriptor = ValueStateDescriptor(name, kind)
        case "list":
            descriptor = ListStateDescriptor(name, kind)
        case "map":
            descriptor = MapStateDescriptor(name, parse_ddl(state.user_key), kind)
        case "reduced":
            descriptor = ReducingStateDescriptor(name, reduce_function or Fold(state.fold), kind)
        case _:
            descriptor = AggregatingStateDescriptor(name, Collect(), f"array<{state.type}>")
    if state.ttl:
        builder = StateTtlConfig.new_builder(Time.milliseconds(TTL))
        builder = builder.use_event_time() if state.ttl.startswith("event") else builder
        builder = builder.update_ttl_on_read_and_write() if state.ttl.endswith("reads") else builder
        descriptor.enable_time_to_live(builder.build())
    return descriptor


def type_of(struct: StructType, name: str) -> TypeInformation:
    """Returns the type of a column."""
    return struct.types[struct.names.index(name)]


__all__ = [
    "FOLDS",
    "READS",
    "TIMERS",
    "WRITES",
    "Collect",
    "Fold",
    "Program",
    "StateOf",
    "Step",
    "aside",
    "column_of",
    "descriptor_of",
    "gives_row",
    "goes_aside",
    "reads",
    "type_of",
]
