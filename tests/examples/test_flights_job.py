"""Compares the job's functions with the batch recomputation, without Spark: a dict per state, record by record."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakestate.examples import compare
from lakestate.examples.flights import data, job
from lakestate.examples.flights.truth import KEYS, compute_truth
from state_engine.api import KeyedProcessFunction, Row
from state_engine.api.type_hints import parse_columns_ddl


class FakeState:
    """Any kind of state, of the current key."""

    def __init__(self, context: "FakeContext", descriptor: Any) -> None:
        self.content: dict[Any, Any] = {}
        self._context = context
        self._descriptor = descriptor

    @property
    def _key(self) -> Any:
        return self._context.key

    def value(self) -> Any:
        return self.content.get(self._key)


class FakeValue(FakeState):
    def update(self, value: Any) -> None:
        self.content[self._key] = value


class FakeReducing(FakeState):
    def add(self, value: Any) -> None:
        held = self.content.get(self._key)
        self.content[self._key] = value if held is None else self._descriptor.get_reduce_function()(held, value)

    def get(self) -> Any:
        return self.content.get(self._key)


class FakeAggregating(FakeState):
    def add(self, value: Any) -> None:
        function = self._descriptor.get_agg_function()
        held = self.content.get(self._key, function.create_accumulator())
        self.content[self._key] = function.add(value, held)

    def get(self) -> Any:
        return self._descriptor.get_agg_function().get_result(self.content[self._key])


class FakeList(FakeState):
    def get(self) -> Iterator[Any]:
        return iter(self.content.get(self._key, ()))

    def add(self, value: Any) -> None:
        self.content[self._key] = [*self.get(), value]

    def update(self, values: list[Any]) -> None:
        self.content[self._key] = list(values)


class FakeMap(FakeState):
    def get(self, user_key: Any) -> Any:
        return self.content.get((self._key, user_key))

    def put(self, user_key: Any, value: Any) -> None:
        self.content[self._key, user_key] = value


class FakeContext:
    """Runtime context and record context in one."""

    def __init__(self) -> None:
        self.key: Any = None
        self.states: dict[str, FakeState] = {}

    def _state(self, kind: type[FakeState], descriptor: Any) -> FakeState:
        return self.states.setdefault(descriptor.name, kind(self, descriptor))

    def get_state(self, descriptor: Any) -> FakeState:
        return self._state(FakeValue, descriptor)

    def get_list_state(self, descriptor: Any) -> FakeState:
        return self._state(FakeList, descriptor)

    def get_map_state(self, descriptor: Any) -> FakeState:
        return self._state(FakeMap, descriptor)

    def get_reducing_state(self, descriptor: Any) -> FakeState:
        return self._state(FakeReducing, descriptor)

    def get_aggregating_state(self, descriptor: Any) -> FakeState:
        return self._state(FakeAggregating, descriptor)

    def get_current_key(self) -> Any:
        return self.key


def run(
    function: KeyedProcessFunction, records: list[dict[str, Any]], key: str
) -> tuple[list[Any], list[Any], FakeContext]:
    """Runs the function; returns main output, side output and the states."""
    context: Any = FakeContext()
    function.open(context)
    main, side = [], []
    for record in records:
        context.key = record[key]
        for row in function.process_element(Row(**record), context) or ():
            if row[0] == job.NO_TAILNUM:
                side.append(row[1])
            else:
                main.append(row)
    return main, side, context


def rows(ddl: str, values: list[Any]) -> list[dict[str, Any]]:
    names = parse_columns_ddl(ddl).names
    return [dict(zip(names, row, strict=True)) for row in values]


def content(context: FakeContext, name: str, expected: pa.Table) -> pa.Table:
    """Returns one state as a table like that of the truth."""
    held = context.states[name].content
    value_type = expected.schema.field("value").type
    fields = value_type.names if pa.types.is_struct(value_type) else ()
    keys = [key if isinstance(key, tuple) else (key,) for key in held]
    values = [dict(zip(fields, value, strict=True)) if fields else value for value in held.values()]
    made = [dict(zip(expected.column_names, [*k, v], strict=True)) for k, v in zip(keys, values, strict=True)]
    return pa.Table.from_pylist(made, expected.schema)


@pytest.fixture(scope="module")
def flights() -> pa.Table:
    return data.read_flights().slice(0, 20_000)


def test_functions_and_truth_agree(flights: pa.Table, tmp_path: Path) -> None:
    data.write_files(flights, tmp_path)
    truth = compute_truth(tmp_path)
    legs, no_tailnum, aircraft = run(job.Aircraft(), flights.to_pylist(), "tailnum")
    carriers, _, carrier = run(job.Carriers(), rows(job.LEGS, legs), "carrier")
    assert job.NO_TAILNUM.type_info is not None
    side = [dict(zip(job.NO_TAILNUM.type_info.names, row, strict=True)) for row in no_tailnum]
    made = {"legs": rows(job.LEGS, legs), "carriers": rows(job.CARRIERS, carriers), "no_tailnum": side}
    for name, expected in truth.outputs.items():
        actual = pa.Table.from_pylist(made[name], expected.schema)
        assert compare.compare(actual, expected, KEYS[name]) == (0, 0, 0), name
    for (uid, name), expected in truth.states.items():
        actual = content(aircraft if uid == "aircraft" else carrier, name, expected)
        key = [column for column in expected.column_names if column != "value"]
        assert compare.compare(actual, expected, key) == (0, 0, 0), name
    assert set(aircraft.states) | set(carrier.states) == {name for _, name in truth.states}
