"""Broadcast state as a map: its methods for a function, and the rows that it writes to the log."""

import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from state_engine.api import MapStateDescriptor, Types
from state_engine.backends.broadcast import BroadcastMap
from state_engine.backends.operator_state import OperatorStateBackend
from state_engine.log.ops import Op

RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Pair:
    """Subtasks 0 and 1 of an operator, which change the same, and the log that subtask 0 writes."""

    def __init__(self, descriptor: MapStateDescriptor = RULES) -> None:
        self.descriptor = descriptor
        self.log: list[pa.Table] = []
        self.maps = [self._map(subtask) for subtask in range(2)]

    def _map(self, subtask: int) -> BroadcastMap:
        state: Any = OperatorStateBackend("op", subtask, 2).get_broadcast_state(self.descriptor)
        assert isinstance(state, BroadcastMap)
        return state

    def do(self, change: Callable[[BroadcastMap], None]) -> list[tuple[Op, Any, Any]]:
        """Changes the state in both subtasks, ends the epoch, and returns its rows."""
        for state in self.maps:
            change(state)
        first, second = (state.freeze(7, 0) for state in self.maps)
        assert second is None, "only subtask 0 writes"
        assert self.maps[0].digest == self.maps[1].digest
        if first is None:
            return []
        self.log.append(first)
        return [(Op(row["op"]), row["user_key"], row["value"]) for row in first.to_pylist()]

    def check(self, expected: dict[Any, Any]) -> None:
        """Checks the state of both subtasks, of one that loads the log, and of the side that only reads."""
        fresh = self._map(1)
        fresh.load(self.log)
        for state in (*self.maps, fresh, *(state.read_only for state in self.maps)):
            assert list(state.items()) == list(expected.items())
            assert (list(state.keys()), list(state.values())) == (list(expected), list(expected.values()))
            assert state.is_empty() == (not expected)
            assert [state.get(key) for key in expected] == list(expected.values())
            assert not state.contains("absent")
            assert state.get("absent") is None


def test_entries_come_change_and_go() -> None:
    pair = Pair()
    pair.check({})
    assert pair.do(lambda s: s.put_all({"a": 1, "b": 2, "c": 3})) == [
        (Op.PUT, "a", 1),
        (Op.PUT, "b", 2),
        (Op.PUT, "c", 3),
    ]
    pair.check({"a": 1, "b": 2, "c": 3})
    assert pair.do(lambda s: s.remove("a")) == [(Op.DELETE, "a", None)]
    pair.check({"b": 2, "c": 3})
    pair.do(lambda s: s.put("b", 5))
    pair.check({"c": 3, "b": 5})
    assert pair.do(lambda s: s.clear()) == [(Op.CLEAR, None, None)]
    pair.check({})


def test_within_one_epoch_the_last_word_counts() -> None:
    pair = Pair()
    pair.do(lambda s: s.put("old", 1))

    def change(state: BroadcastMap) -> None:
        state.put("a", 1)
        state.clear()
        assert state.is_empty()
        state.put("b", 2)
        state.put("c", 3)
        state.remove("b")
        state.put("c", 4)

    assert pair.do(change)[0] == (Op.CLEAR, None, None)
    pair.check({"c": 4})


def test_null_keys_and_null_values_are_not_absence() -> None:
    pair = Pair()
    pair.do(lambda s: s.put_all({None: 1, "x": None}))  # type: ignore[dict-item]
    pair.check({None: 1, "x": None})
    assert all("x" in state and None in state for state in pair.maps)
    pair.do(lambda s: s.remove(None))
    pair.check({"x": None})


def test_entries_may_change_while_they_are_iterated() -> None:
    pair = Pair()
    pair.do(lambda s: s.put_all({str(n): n for n in range(10)}))

    def halve(state: BroadcastMap) -> None:
        for key, value in state.items():
            if value % 2:
                del state[key]
            else:
                state[key * 2] = value
        for key in state:
            if len(key) == 1:
                state.remove(key)

    pair.do(halve)
    pair.check({str(n) * 2: n for n in range(0, 10, 2)})


def test_what_changes_nothing_writes_nothing() -> None:
    pair = Pair()
    assert pair.do(lambda s: s.put_all({})) == []
    pair.check({})


def test_values_that_can_change_are_copies() -> None:
    pair = Pair(MapStateDescriptor("rules", Types.STRING(), Types.LIST(Types.LONG())))
    given = [1]
    pair.do(lambda s: s.put("a", given))
    given.append(2)
    for state in (*pair.maps, *(state.read_only for state in pair.maps)):
        for value in (state.get("a"), next(iter(state.values())), dict(state.items())["a"]):
            value.append(3)
        assert state["a"] == [1]
    assert pair.do(lambda s: None) == []


def test_equal_numbers_are_one_user_key_with_its_first_spelling() -> None:
    pair = Pair(MapStateDescriptor("rates", Types.DOUBLE(), Types.LONG()))
    for value in range(3):
        pair.do(lambda s, value=value: s.put_all({-0.0 if value == 0 else 0.0: value}))
        pair.do(lambda s, value=value: s.put(float("nan"), value))
        fresh = pair._map(1)
        fresh.load(pair.log)
        for state in (*pair.maps, fresh):
            assert repr(list(state.items())) == repr([(-0.0, value), (math.nan, value)])
            assert [state.get(key) for key in (0.0, -0.0, float("nan"))] == [value] * 3
    assert pair.do(lambda s: s.remove(float("nan")))[0][0] is Op.DELETE
    assert not any(state.contains(float("nan")) for state in pair.maps)
