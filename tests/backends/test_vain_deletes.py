"""An entry that appears and disappears within an epoch leaves no rows in the log; an older entry is still deleted."""

from typing import Any

import pytest
from values_by_namespace import ByNamespace

from state_engine.api import ListStateDescriptor, MapStateDescriptor, StateTtlConfig, Time, Types, ValueStateDescriptor
from state_engine.backends.heap import HeapKeyedStateBackend
from state_engine.log.ops import Op
from state_engine.testing.state_harness import StateHarness

HEAPS = pytest.mark.parametrize("make", [HeapKeyedStateBackend, ByNamespace])


def put(harness: StateHarness, descriptor: Any, places: dict[str, int | None], namespace: str | None = "0/10") -> None:
    for key, value in places.items():
        harness.state(descriptor, key, namespace).update(value)


def ops(rows: dict[str, list[dict[str, Any]]]) -> dict[str, int]:
    return {row["k"]: row["op"] for row in rows.get("v", [])}


@HEAPS
@pytest.mark.parametrize("namespace", [None, "0/10"])
def test_a_value_that_came_and_went_in_one_epoch_is_not_logged(make: Any, namespace: str | None) -> None:
    harness, value = StateHarness(make), ValueStateDescriptor("v", Types.LONG())
    put(harness, value, {"old": 1, "kept": 2}, namespace)
    assert ops(harness.seal()) == {"old": Op.PUT, "kept": Op.PUT}
    put(harness, value, {"new": 3, "gone": 4, "old": None}, namespace)
    put(harness, value, {"gone": None, "never": None}, namespace)
    assert ops(harness.seal()) == {"new": Op.PUT, "old": Op.DELETE}
    for one in (harness, harness.reopened()):
        values = {key: one.state(value, key, namespace).value() for key in ("old", "kept", "new", "gone", "never")}
        assert values == {"old": None, "kept": 2, "new": 3, "gone": None, "never": None}


@HEAPS
def test_an_epoch_of_nothing_else_has_no_rows(make: Any) -> None:
    harness, value = StateHarness(make), ValueStateDescriptor("v", Types.LONG())
    put(harness, value, {"a": 1})
    put(harness, value, {"a": None})
    assert harness.seal() == {}
    put(harness, value, {"a": 5})
    assert ops(harness.seal()) == {"a": Op.PUT}
    assert harness.reopened().state(value, "a", "0/10").value() == 5


def test_what_has_expired_is_deleted_in_the_log_too() -> None:
    """The base may already have dropped it, and a longer time to live would bring it back."""
    harness, value = StateHarness(HeapKeyedStateBackend), ValueStateDescriptor("v", Types.LONG())
    value.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(10)).build())
    put(harness, value, {"a": 1})
    harness.seal()
    table: Any = harness.backend._tables["v"]  # type: ignore[attr-defined]
    table.drop_expired(lambda stamp: True)
    put(harness, value, {"a": None})
    assert ops(harness.seal()) == {"a": Op.DELETE}


def test_a_list_that_came_and_went_in_one_epoch_is_not_logged() -> None:
    harness, values = StateHarness(HeapKeyedStateBackend), ListStateDescriptor("v", "array<bigint>")
    harness.state(values, "old").add([1])
    harness.seal()
    for key in ("old", "gone"):
        harness.state(values, key).add([2])
        harness.state(values, key).clear()
    harness.state(values, "again").clear()
    harness.state(values, "again").add([2, None])
    rows = harness.seal()["v"]
    assert sorted((row["k"], row["op"]) for row in rows) == [("again", Op.APPEND), ("old", Op.CLEAR)]
    for one in (harness, harness.reopened()):
        assert [list(one.state(values, key).get()) for key in ("old", "gone", "again")] == [[], [], [[2, None]]]


def test_a_map_that_came_and_went_in_one_epoch_is_not_logged() -> None:
    harness, entries = StateHarness(HeapKeyedStateBackend), MapStateDescriptor("v", Types.LONG(), Types.LONG())
    harness.state(entries, "old").put(1, 1)
    harness.seal()
    for key in ("old", "gone"):
        harness.state(entries, key).put(2, 2)
        harness.state(entries, key).clear()
    harness.state(entries, "again").clear()
    harness.state(entries, "again").put(3, 3)
    rows = harness.seal()["v"]
    assert sorted((row["k"], row["op"]) for row in rows) == [("again", Op.PUT), ("old", Op.CLEAR)]
    for one in (harness, harness.reopened()):
        assert [dict(one.state(entries, key).items()) for key in ("old", "gone", "again")] == [{}, {}, {3: 3}]
