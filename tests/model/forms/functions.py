"""A program as functions: record by record, and by columns. Spark sends them to workers."""

import copy
from collections import namedtuple
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from forms.program import (
    Fold,
    Program,
    StateOf,
    Step,
    aside,
    column_of,
    descriptor_of,
    gives_row,
    goes_aside,
    reads,
    type_of,
)
from forms.values import spoil

from state_engine.api import (
    ColumnReduceFunction,
    KeyedBatchProcessFunction,
    KeyedProcessFunction,
    Row,
    TimeDomain,
    TimerService,
)
from state_engine.api.type_hints import parse_ddl
from state_engine.serialization.types import to_arrow

NO_WATERMARK = -(1 << 63)
START = 100
NUMPY = {"tinyint": np.int8, "smallint": np.int16, "int": np.int32, "bigint": np.int64,
         "float": np.float32, "double": np.float64, "boolean": np.bool_}  # fmt: skip


class ColumnFold(Fold, ColumnReduceFunction):
    """`Fold`, also by columns."""

    def reduce_columns(self, keys: Any, values: Any) -> Any:
        if self.fold == "sum":
            sums = pa.array([sum(values.take(pa.array(np.flatnonzero(keys.codes == n))).to_pylist())
                             for n in range(len(keys.distinct))])  # fmt: skip
            return sums.cast(values.type)
        return values.take(pa.array(keys.first if self.fold == "first" else keys.last))


def states_of(program: Program, context: Any, *, by_columns: bool = False) -> list[Any]:
    """Returns the states of a program."""
    asked = {
        "value": context.get_state,
        "list": context.get_list_state,
        "map": context.get_map_state,
        "reduced": context.get_reducing_state,
        "aggregated": context.get_aggregating_state,
    }
    fold = ColumnFold if by_columns else Fold
    return [asked[state.shape](descriptor_of(state, n, fold(state.fold))) for n, state in enumerate(program.states)]


def present(timers: TimerService, call: str) -> int:
    """Returns the present, relative to which a timer of a step is set."""
    if "clock" in call:
        return timers.current_processing_time() + 1
    watermark = timers.current_watermark()
    return (START if watermark == NO_WATERMARK else watermark) + 1


class ByRow(KeyedProcessFunction):
    """The program, record by record."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.aside, self.output = aside(program), program.output
        self.reused: list[Any] = []

    def open(self, runtime_context: Any) -> None:
        self.states = states_of(self.program, runtime_context)

    def process_element(self, value: Any, ctx: Any) -> Iterable[Any]:
        yield from self._do(value.n, "record", self.program.operations[value.operation], value, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        yield from self._do(timestamp, ctx.time_domain().name, self.program.on_timer, None, ctx)

    def _do(self, number: int, what: str, steps: tuple[Step, ...], value: Any, ctx: Any) -> Iterator[Any]:
        found: dict[str, Any] = {}
        for step in steps:
            if step.of_timer:
                timers = ctx.timer_service()
                verb, clock, _ = step.call.split()
                method = f"{'register' if verb == 'set' else 'delete'}_{_SPELLED[clock]}_time_timer"
                getattr(timers, method)(present(timers, step.call) + value.at)
                continue
            given = self._call(step, value)
            if reads(step):
                column = f"{column_of(step, self.program.states[step.state])}{step.state}"
                found[column] = copy.deepcopy(given) if self.program.spoils else given
                if self.program.spoils:
                    spoil(given)
        if gives_row(steps):
            key = ctx.get_current_key()
            keys = [key] if len(self.program.key) == 1 else list(key)
            row = self._row([*keys, number, what], found)
            yield (self.aside, row) if goes_aside(steps) else row
            if self.program.spoils_rows:
                for one in found.values():
                    spoil(one)
                spoil(row)

    def _row(self, known: list[Any], found: dict[str, Any]) -> Any:
        names = self.output.names
        values = [*known, *(found.get(name) for name in names[len(known) :])]
        match self.program.rows:
            case "dict":
                return {name: value for name, value in zip(names, values, strict=True) if value is not None}
            case "Row":
                return Row(**dict(zip(names, values, strict=True)))
            case "named tuple":
                return namedtuple("Backwards", names[::-1])(*values[::-1])
            case "list":
                self.reused[:] = values
                return self.reused if self.program.spoils_rows else values
        return tuple(values)

    def _call(self, step: Step, record: Any) -> Any:
        state, declared = self.states[step.state], self.program.states[step.state]
        if step.call in ("value", "clear"):
            return getattr(state, step.call)()
        if step.call in ("get", "items") and (declared.shape != "map" or step.call == "items"):
            given = getattr(state, step.call)()
            return given if declared.shape in ("reduced", "aggregated") else list(given)
        value, user_key = self._given(record, step, declared)
        match step.call:
            case "put":
                state.put(user_key, value)
            case "remove" | "get" | "contains":
                return getattr(state, step.call)(user_key)
            case "add_all":
                state.add_all([value, value])
            case "update" if declared.shape == "list":
                state.update([value])
            case _:
                getattr(state, step.call)(value)
        if self.program.spoils and declared.shape not in ("reduced", "aggregated"):
            spoil(value)
        return None

    def _given(self, record: Any, step: Step, declared: StateOf) -> tuple[Any, Any]:
        value, user_key = copy.deepcopy((record[f"v{step.state}"], record[f"u{step.state}"]))
        if self.program.numpy and value is not None and declared.type in NUMPY:
            value = NUMPY[declared.type](value)
        return value, user_key


_SPELLED = {"event": "event", "clock": "processing"}


class ByBatch(KeyedBatchProcessFunction):
    """The program by columns; timers that are due come one by one, to `on_timer`.

    If the steps of an operation may change what a later record of the key sees, records go in rounds: first the first
    one of each key, then the second one. Otherwise all consecutive records go at once.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.aside, self.output = aside(program), program.output

    def open(self, runtime_context: Any) -> None:
        self.states = states_of(self.program, runtime_context, by_columns=True)

    def process_batch(self, keys: Any, batch: Any, ctx: Any) -> Iterator[Any]:
        operations = batch.column("operation").to_numpy()
        starts = np.flatnonzero(np.diff(operations, prepend=operations[:1] - 1))
        for part in np.split(np.arange(len(operations)), starts[1:]):
            steps = self.program.operations[operations[part[0]]]
            rounds = [part] if at_once(steps) else _rounds(keys.take(part), part)
            for positions in rounds:
                rows, columns = keys.take(positions), batch.take(pa.array(positions))
                yield from self._do(columns.column("n"), "record", steps, rows, columns, ctx)

    def _do(self, numbers: Any, what: str, steps: tuple[Step, ...], keys: Any, batch: Any, ctx: Any) -> Iterator[Any]:
        found: dict[str, Any] = {}
        for step in steps:
            if step.of_timer:
                timers = ctx.timer_service()
                verb, clock, _ = step.call.split()
                method = f"{'register' if verb == 'set' else 'delete'}_{_SPELLED[clock]}_time_timers"
                getattr(timers, method)(keys, pc.add(batch.column("at"), present(timers, step.call)))
                continue
            given = self._call(step, keys, batch)
            if reads(step):
                found[f"{column_of(step, self.program.states[step.state])}{step.state}"] = given
        if gives_row(steps):
            table = self._table(keys, numbers, what, found)
            yield (self.aside, table) if goes_aside(steps) else table

    def _table(self, keys: Any, numbers: Any, what: str, found: dict[str, Any]) -> Any:
        names, output = self.output.names, self.output
        known = {"n": numbers, "what": pa.array([what] * len(keys)), **found}
        known |= dict(zip(self.program.key_columns, keys.columns, strict=True))
        empty = (pa.nulls(len(keys), to_arrow(type_of(output, name))) for name in names)
        return pa.table({name: known.get(name, nulls) for name, nulls in zip(names, empty, strict=True)})

    def _call(self, step: Step, keys: Any, batch: Any) -> Any:
        state, declared = self.states[step.state], self.program.states[step.state]
        if step.call == "clear":
            return state.remove_many(keys)
        if step.call == "items":
            return state.items_many(keys)
        if declared.shape == "aggregated" and step.call == "get":
            return state.get_many(keys, parse_ddl(declared.read_type))
        if step.call in ("value", "get") and declared.shape != "map":
            return state.get_many(keys)
        values, user_keys = batch.column(f"v{step.state}"), batch.column(f"u{step.state}")
        match step.call:
            case "put":
                return state.put_many(keys, user_keys, values)
            case "remove" | "get" | "contains":
                return getattr(state, f"{step.call}_many")(keys, user_keys)
            case "add_all":
                twice = np.repeat(np.arange(len(keys)), 2)
                return state.add_many(keys.take(twice), values.take(pa.array(twice)))
            case "update" if declared.shape == "list":
                offsets = pa.array(np.arange(len(keys) + 1), pa.int32())
                kind = to_arrow(parse_ddl(declared.read_type))
                return state.put_many(keys, pa.ListArray.from_arrays(offsets, values, type=kind))
            case "update":
                return state.put_many(keys, values)
        return state.add_many(keys, values)


class WithTimer(ByBatch):
    """Timers that are due come one by one, and see the row methods."""

    def on_timer(self, timestamp: int, ctx: Any) -> Iterable[Any]:
        by_row = ByRow(self.program)
        by_row.states = self.states
        return by_row.on_timer(timestamp, ctx)


class WithTimers(ByBatch):
    """Timers that are due come together."""

    def on_timers(self, keys: Any, timestamps: Any, ctx: Any) -> Iterator[Any]:
        domain: TimeDomain = ctx.time_domain()
        for positions in _rounds(keys, np.arange(len(keys))):
            times = timestamps.take(pa.array(positions))
            yield from self._do(times, domain.name, self.program.on_timer, keys.take(positions), None, ctx)


def at_once(steps: tuple[Step, ...]) -> bool:
    """Reports whether the steps can be done one by one, each for all records of a key, with the same result."""
    if all(map(reads, steps)):
        return True
    states = [step.state for step in steps if not step.of_timer]
    timers = [step.call.split()[1] for step in steps if step.of_timer]
    return len(set(states)) == len(states) and len(set(timers)) == len(timers) and not any(map(reads, steps))


def _rounds(keys: Any, positions: Any) -> list[Any]:
    """Returns the positions of the first record of each key, of the second one of each, and so on."""
    turns = keys.running_counts()
    return [positions[turns == turn] for turn in range(1, int(turns.max(initial=0)) + 1)]


__all__ = ["ByBatch", "ByRow", "WithTimer", "WithTimers", "at_once", "states_of"]
