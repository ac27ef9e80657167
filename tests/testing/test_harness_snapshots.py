"""The harness: what a snapshot contains, and what may start from it."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from state_engine.api import (
    KeyedProcessFunction,
    ListStateDescriptor,
    Row,
    RuntimeContext,
    StateDescriptor,
    Types,
    ValueStateDescriptor,
)
from state_engine.errors import (
    KeyTypeChangedError,
    MaxParallelismChangedError,
    RoutingError,
    StateTypeChangedError,
    UnknownOperatorError,
)
from state_engine.key_groups import key_group_of
from state_engine.testing import KeyedOneInputStreamOperatorTestHarness, OperatorSubtaskState, repackage_state

Make = Callable[..., KeyedOneInputStreamOperatorTestHarness]


def restored(everything: Make, snapshot: OperatorSubtaskState, **given: Any) -> KeyedOneInputStreamOperatorTestHarness:
    harness = everything(**given)
    harness.initialize_state(snapshot)
    return harness


RECORDS = [("a", 1), ("b", 1), ("a", 2), ("a", 1), ("c", 7), ("c", -1)]
HELD = {
    "all": {"a": [1, 2, 1], "b": [1]},
    "by_n": {"a": {2: 1, 1: 2}, "b": {1: 1}},
    "last": {"a": Row(n=1), "b": Row(n=1)},
    "mean": {"a": Row(f0=3, f1=4.0), "b": Row(f0=1, f1=1.0)},
    "sum": {"a": 4, "b": 1},
}


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("size", [1, 2, 6])
def test_every_kind_of_state(everything: Make, size: int, parallelism: int) -> None:
    with everything(parallelism=parallelism) as harness:
        for start in range(0, len(RECORDS), size):
            harness.process_elements(RECORDS[start : start + size])
        assert harness.snapshot().states() == HELD
        assert harness.num_keyed_state_entries() == 10


def test_a_snapshot_stays_as_it_is(everything: Make) -> None:
    with everything() as harness:
        assert harness.snapshot().states() == {}
        harness.process_elements(RECORDS)
        snapshot = harness.snapshot()
        harness.process_elements([("a", -1), ("b", 5)])
        assert snapshot.states() == HELD
        assert restored(everything, snapshot).snapshot().states() == HELD


def test_a_snapshot_as_tables(everything: Make) -> None:
    with everything() as harness:
        harness.set_processing_time(7_000)
        harness.process_elements(RECORDS)
        snapshot = harness.snapshot()
    rows = snapshot.table("sum").sort_by("k").select(["key_group", "k", "value", "last_access"]).to_pylist()
    groups = [key_group_of([key], ["string"], 128) for key in "ab"]
    assert rows == [
        {"key_group": groups[0], "k": "a", "value": 4, "last_access": 7_000},
        {"key_group": groups[1], "k": "b", "value": 1, "last_access": 7_000},
    ]
    assert repr(snapshot) == "OperatorSubtaskState(all: 4 rows, by_n: 3 rows, last: 2 rows, mean: 2 rows, sum: 2 rows)"
    with pytest.raises(KeyError, match=r"no state 'other'.*'sum'"):
        snapshot.table("other")


def test_one_subtask_of_several(everything: Make) -> None:
    keys = [chr(code) for code in range(ord("a"), ord("k"))]
    with everything() as harness:
        harness.process_elements([(key, 1) for key in keys])
        snapshot = harness.snapshot()
    parts = []
    for subtask in range(3):
        harness = restored(everything, snapshot, parallelism=3, subtask=subtask)
        mine = sorted(harness.snapshot().states()["sum"])
        with harness:
            harness.process_elements([(key, 2) for key in mine])
            assert [key for key, _ in harness.extract_output_values()] == mine
            strange = next(key for key in keys if key not in mine)
            with pytest.raises(RoutingError, match=rf"key '{strange}'.*runs subtask {subtask} \(key groups"):
                harness.process_elements([*((key, 4) for key in mine), (strange, 4)])
            assert harness.snapshot().states()["sum"] == dict.fromkeys(mine, 3)
        parts.append(harness.snapshot())
    together = repackage_state(*parts)
    assert together.states()["sum"] == dict.fromkeys(keys, 3)
    assert restored(everything, together, parallelism=2).snapshot().states() == together.states()
    with pytest.raises(ValueError, match="are in two snapshots"):
        repackage_state(snapshot, parts[0])


def test_state_comes_before_anything_else(everything: Make) -> None:
    snapshot = everything().snapshot()
    harness = everything()
    harness.open()
    with pytest.raises(RuntimeError, match=r"before open\(\)"):
        harness.initialize_state(snapshot)
    harness.close()
    harness.process_element(("a", 1))
    harness.close()
    with pytest.raises(RuntimeError, match="before the first record"):
        harness.initialize_state(snapshot)


class Keeping(KeyedProcessFunction):
    """Has one state, which it gets in `open` or with the first record."""

    def __init__(self, descriptor: StateDescriptor, lazily: bool = False) -> None:
        self.descriptor = descriptor
        self.lazily = lazily

    def open(self, runtime_context: RuntimeContext) -> None:
        self.context = runtime_context
        if not self.lazily:
            self.ask()

    def ask(self) -> Any:
        kind = "get_list_state" if isinstance(self.descriptor, ListStateDescriptor) else "get_state"
        return getattr(self.context, kind)(self.descriptor)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any]:
        state = self.ask()
        yield value.k, state.value()
        state.update(value.n)


def keeping(descriptor: StateDescriptor, **given: Any) -> KeyedOneInputStreamOperatorTestHarness:
    lazily = given.pop("lazily", False)
    arguments = {"key": "k", "input_type": "k string, n bigint", "output_type": "k string, n bigint", **given}
    return KeyedOneInputStreamOperatorTestHarness(Keeping(descriptor, lazily), **arguments)


COUNT = ValueStateDescriptor("count", Types.LONG())
CHANGED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "another type": (
        {"descriptor": ValueStateDescriptor("count", Types.STRING())},
        StateTypeChangedError,
        "State 'count'.*value was bigint, is string",
    ),
    "another kind": (
        {"descriptor": ListStateDescriptor("count", Types.LONG())},
        StateTypeChangedError,
        "State 'count'.*shape was value, is list",
    ),
    "another type of key": ({"input_type": "k binary, n bigint"}, KeyTypeChangedError, "k binary.*k string"),
    "another key": ({"key": ["k", "n"]}, KeyTypeChangedError, "k string, n bigint"),
    "another max parallelism": ({"max_parallelism": 64}, MaxParallelismChangedError, "has max parallelism 64"),
    "another operator": ({"uid": "other"}, UnknownOperatorError, "'operator'"),
}


@pytest.mark.parametrize("case", CHANGED)
def test_what_a_job_would_refuse_to_start_from(case: str) -> None:
    given, kind, named = CHANGED[case]
    before = keeping(COUNT)
    before.process_element(("a", 1))
    after = keeping(**{"descriptor": COUNT, **given})
    with pytest.raises(kind, match=named):
        after.initialize_state(before.snapshot())


def test_a_state_that_is_requested_late_is_restored() -> None:
    before = keeping(COUNT, lazily=True)
    before.process_element(("a", 5))
    for lazily in (True, False):
        after = keeping(COUNT, lazily=lazily)
        after.initialize_state(before.snapshot())
        after.process_element(("b", 1))
        after.process_element(("a", 6))
        assert after.extract_output_values() == [("b", None), ("a", 5)]


def test_state_that_the_function_no_longer_asks_for_stays() -> None:
    before = keeping(COUNT)
    before.process_element(("a", 5))
    other = keeping(ValueStateDescriptor("other", Types.LONG()))
    other.initialize_state(before.snapshot())
    other.process_element(("a", 1))
    assert other.snapshot().states() == {"count": {"a": 5}, "other": {"a": 1}}
    assert other.num_keyed_state_entries() == 2
