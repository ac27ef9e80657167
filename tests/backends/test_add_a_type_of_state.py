"""The page on state backends shows how to add a type of state: this runs its code, on all backends and layouts."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from state_engine.api import MapStateDescriptor, StateTtlConfig, Time, Types
from state_engine.api.keys import Keys
from state_engine.api.state import State
from state_engine.backends import backend, made_states
from state_engine.backends.columns.column import Column
from state_engine.backends.columns.states import StateColumns
from state_engine.backends.layout import Layout
from state_engine.backends.rows import states as row_states
from state_engine.backends.rows.states import map_rows
from state_engine.backends.rows.ttl import ttl_map_rows
from state_engine.testing.state_harness import StateHarness

PAGE = Path(__file__).parents[2] / "docs" / "state-backends.md"


@pytest.fixture
def kind(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Returns the classes of the page, registered in the places that it names."""
    names: dict[str, Any] = {
        "MapStateDescriptor": MapStateDescriptor, "Types": Types, "State": State, "StateColumns": StateColumns,
        "np": np, "pa": pa,
    }  # fmt: skip
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(block, names)
    set_of, rows_of, columns_of = names["SetStateDescriptor"], row_states.row_state, made_states._columns
    expiring = made_states.ttl_state

    def row_state(descriptor: Any, table: Any, context: Any) -> Any:
        if isinstance(descriptor, set_of):
            return names["SetRows"](map_rows(table, context))
        return rows_of(descriptor, table, context)

    def ttl_state(descriptor: Any, table: Any, context: Any, rules: Any, accessed: Any) -> Any:
        if isinstance(descriptor, set_of):
            return names["SetRows"](ttl_map_rows(table, context, rules, accessed))
        return expiring(descriptor, table, context, rules, accessed)

    def _columns(descriptor: Any, table: Any, rows: Any, rules: Any, accessed: Any) -> Any:
        if not isinstance(descriptor, set_of):
            return columns_of(descriptor, table, rows, rules, accessed)
        columns = table if rules is None else made_states.TtlMaps(table, rules, accessed)
        column, elements = Column(descriptor.name, descriptor.type_info), descriptor.key_type_info
        return names["SetColumns"](columns, column, Column(descriptor.name, elements))

    monkeypatch.setattr(made_states, "row_state", row_state)
    monkeypatch.setattr(made_states, "ttl_state", ttl_state)
    monkeypatch.setattr(made_states, "_columns", _columns)
    assert backend.made_state is made_states.made_state
    return names


def keys(*given: str) -> Keys:
    return Keys([pa.array(given)], lambda columns: columns[0].to_pylist())


@pytest.mark.parametrize("layout", [Layout.ENTRIES, Layout.COLUMNS])
@pytest.mark.parametrize("element", [Types.LONG(), Types.DOUBLE()], ids=["bigint", "double"])
@pytest.mark.parametrize("ttl", [False, True])
def test_a_set_by_the_page(kind: dict[str, Any], make_backend: Any, layout: Layout, element: Any, ttl: bool) -> None:
    def described() -> Any:
        made = kind["SetStateDescriptor"]("seen", element)
        if ttl:
            made.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(100)).build())
        return made

    harness = StateHarness(make_backend)
    state = harness.backend.state(described(), layout)
    harness.at("a")
    state.add(1)
    state.columns.add_many(keys("a", "b", "a"), [2, 1, 3])
    for _ in range(2):
        assert state.columns.contains_many(keys("a", "a", "b", "c"), [1, 3, 3, 1]).to_pylist() == [
            True,
            True,
            False,
            False,
        ]
        harness.at("b")
        assert [state.contains(one) for one in (1, 2)] == [True, False]
        harness.seal()
    state.columns.remove_many(keys("a"))
    harness.seal()
    restored = harness.reopened()
    found = restored.backend.state(described(), layout)
    assert found.columns.contains_many(keys("a", "b"), [1, 1]).to_pylist() == [False, True]
    if ttl:
        restored.time.processing_time += 100
        assert found.columns.contains_many(keys("b"), [1]).to_pylist() == [False]
